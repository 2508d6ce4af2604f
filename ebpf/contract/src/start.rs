//! Record of a program that a thread executes which is not tracked.
//!
//! An agent that looks once a second for processes to take up would not know of those that end before.

/// Bytes of a file's name that are kept, with the zero at its end.
pub const START_FILE_BYTES: usize = 112;

/// A program was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct StartRecord {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Its process, in the initial PID namespace.
    pub pid: u32,
    /// Zero.
    pub unused: u32,
    /// The program's file as it was given to execve, up to a zero; cut where it is longer.
    pub file: [u8; START_FILE_BYTES],
}
