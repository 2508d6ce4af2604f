//! `syscalls`: the request spends SIZE of CPU time in system calls. Charged to `cpu`; nothing waits.
//!
//! `ns` is the thread's CPU time, `count` the number of calls, reads of 64 KiB of zeros: each keeps the
//! kernel busy for microseconds, so nearly all is kernel time; with a call like getppid half would be user's.

use std::{fs::File, io::Read as _};

use crate::stall::{Fault, Injected, Kind, error::StallError, machine::clock, size::Unit};

pub(super) const KIND: Kind = Kind {
    name: "syscalls",
    what: "the request spends SIZE of CPU time inside system calls",
    needs: "nothing",
    unit: Unit::Time,
    range: 10_000..=10_000_000_000,
    default: 20_000_000,
    bound: false,
    make: |_| {
        let zeros = File::open("/dev/zero").map_err(StallError::call("open /dev/zero"))?;
        Ok(Box::new(Syscalls { zeros, buffer: vec![1; 64 << 10] }))
    },
};

struct Syscalls {
    zeros: File,
    /// Written once, so that the reads cause no page fault.
    buffer: Vec<u8>,
}

impl Fault for Syscalls {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let start_ns = clock::thread_cpu_ns();
        let mut calls = 0;
        loop {
            self.zeros.read_exact(&mut self.buffer).map_err(StallError::call("read"))?;
            calls += 1;
            let ns = clock::thread_cpu_ns() - start_ns;
            if ns >= size {
                return Ok(Injected { ns, count: Some(calls) });
            }
        }
    }
}
