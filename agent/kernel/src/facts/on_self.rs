//! Running a raw tracepoint program on the calling thread (BPF_PROG_TEST_RUN, 5.10 and later), in its own
//! context: the program's current task is the caller.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
};

/// `BPF_PROG_TEST_RUN` of bpf(2).
const BPF_PROG_TEST_RUN: libc::c_int = 10;

/// The attributes of BPF_PROG_TEST_RUN, all of them, so that the kernel finds zeros in the unused ones.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    result: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    reserved: u32,
}

/// Runs the program with these arguments and returns its result. Async-signal-safe: one system call.
pub fn run_on_self(program: BorrowedFd<'_>, arguments: &[u64]) -> io::Result<u32> {
    let mut attributes = TestRun {
        program: program.as_raw_fd() as u32,
        context_in_bytes: size_of_val(arguments) as u32,
        context_in: if arguments.is_empty() { 0 } else { arguments.as_ptr().addr() as u64 },
        ..TestRun::default()
    };
    // SAFETY: the attributes and the arguments live across the call and have the sizes that are passed.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut attributes, size_of::<TestRun>()) };
    if result == 0 { Ok(attributes.result) } else { Err(io::Error::last_os_error()) }
}
