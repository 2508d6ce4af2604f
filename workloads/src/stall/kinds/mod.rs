//! Table of the kinds of faults. A new kind is a file here, its `mod` line and its row.
//!
//! Each file documents what its fault is charged to, which clock its `ns` is, and what it cannot know.

mod bounce;
mod disk;
mod fault;
mod gpu_copy;
mod gpu_launch;
mod gpu_neighbour;
mod helper_late;
mod lock;
mod pause;
mod quota;
mod shaped_net;
mod sleep;
mod slow_peer;
mod spin;
mod spin_neighbour;
mod spin_openmp;
mod syscalls;
mod touch;

use super::Kind;

/// All kinds, in the order in which `list` shows them.
pub const KINDS: &[&Kind] = &[
    &spin_neighbour::KIND,
    &quota::KIND,
    &bounce::KIND,
    &lock::KIND,
    &slow_peer::KIND,
    &shaped_net::KIND,
    &sleep::KIND,
    &disk::KIND,
    &fault::KIND,
    &touch::KIND,
    &syscalls::KIND,
    &spin::KIND,
    &spin_openmp::KIND,
    &helper_late::KIND,
    &gpu_neighbour::KIND,
    &gpu_copy::KIND,
    &gpu_launch::KIND,
    &pause::KIND,
];
