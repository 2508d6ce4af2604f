//! The BPF programs in the running kernel, compared with the kernel's own counters. Needs root and BTF;
//! feature `kernel-tests`.
//!
//! Each test runs a case of the example `kernel_subject`, which reads rusage, schedstat, taskstats and the
//! clocks on both sides of each edge: the phase's values must lie between the two. No test depends on the
//! machine's speed. Tests wait for each other by a lock, since a second test would take CPU time from the
//! first.
#![cfg(target_os = "linux")]

mod accounts;
mod agreement;
mod attach;
mod block;
#[path = "subject/book.rs"]
mod book;
mod case;
mod classic;
mod clocks;
mod devices;
mod driver;
mod edges;
mod harness;
mod held;
mod helpers;
mod lives;
mod machine;
mod marked;
mod net;
mod pauses;
mod raw;
mod reader;
mod replay;
mod seen;
mod steal;
mod throttle;
mod uevents;
mod waits;
