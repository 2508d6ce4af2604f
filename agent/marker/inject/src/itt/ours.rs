//! What the functions of this library share with those who call them.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

pub(super) type Function = *const c_void;

/// `__itt_id`, which is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Id {
    pub(super) parts: [u64; 3],
}

/// Whether tasks are shown however short.
pub(super) static SHOWS_ALL: AtomicBool = AtomicBool::new(false);

/// A function in a table.
#[derive(Clone, Copy)]
pub(crate) struct Ours(pub(super) Function);

// SAFETY: the address of a function.
unsafe impl Sync for Ours {}

pub(super) fn shows_all() -> bool {
    SHOWS_ALL.load(Relaxed)
}
