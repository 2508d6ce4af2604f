//! A thread's own report at an edge: words from the ring, checked.
//!
//! Yields an [`Edge`], or why the words are invalid. All values are claims of the program; harmful ones are
//! refused.

use std::ops::RangeInclusive;

use guestscope_contract::{MARKER_ABI_VERSION, NAME_BYTES, TIDS};

use super::ring::Words;

/// A number that the kernel does not give.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// An edge as its thread reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// Operation, ABI version, copy of the library, number of the edge in its thread.
    pub(super) head: u64,
    pub(super) token: u64,
    pub(super) arguments: [u64; 4],
    pub(super) name: [u8; NAME_BYTES],
    /// Process and thread, numbered in the program's own PID namespace.
    pub(super) tgid: u32,
    pub(super) tid: u32,
    /// Another number for each program that a process executes.
    pub(super) image: u64,
    /// Time at which the thread first met this copy of the library.
    pub(super) born_ns: u64,
    pub(super) reading: Reading,
}

/// The kernel's numbers for the thread, since its birth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// CLOCK_MONOTONIC, ns.
    pub(super) time_ns: u64,
    /// Time on a CPU, ns.
    pub(super) cpu_ns: u64,
    /// Time runnable without a CPU, ns; none where the kernel does not count it.
    pub(super) run_delay_ns: Option<u64>,
    pub(super) voluntary: u32,
    pub(super) involuntary: u32,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
}

/// Why words are not a valid edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    /// The library's ABI version is unknown to this agent.
    #[error("edge of marker ABI {0}")]
    Abi(u8),
    /// No process can have such IDs.
    #[error("edge of process {0}, thread {1}")]
    Numbers(u32, u32),
    /// The time is impossible.
    #[error("edge at {0} ns")]
    Time(u64),
}

impl Edge {
    /// Decodes the words of a slot; the time must lie within `times`.
    pub(super) fn decode(words: &Words, times: RangeInclusive<u64>) -> Result<Self, DecodeError> {
        let [head, token, a0, a1, a2, a3, time_ns, cpu_ns, run_delay_ns, who, switches, minor, major, ..] =
            *words;
        let [.., image, born_ns, _, n0, n1, n2, n3, n4, n5, n6, n7] = *words;
        let abi = (head >> 8) as u8;
        if abi != MARKER_ABI_VERSION {
            return Err(DecodeError::Abi(abi));
        }
        let (tgid, tid) = (who as u32, (who >> 32) as u32);
        if !(1..TIDS).contains(&tgid) || !(1..TIDS).contains(&tid) {
            return Err(DecodeError::Numbers(tgid, tid));
        }
        if !times.contains(&time_ns) {
            return Err(DecodeError::Time(time_ns));
        }
        let mut name = [0; NAME_BYTES];
        for (bytes, word) in name.chunks_exact_mut(8).zip([n0, n1, n2, n3, n4, n5, n6, n7]) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        let reading = Reading {
            time_ns,
            cpu_ns,
            run_delay_ns: Some(run_delay_ns).filter(|ns| *ns != UNKNOWN),
            voluntary: switches as u32,
            involuntary: (switches >> 32) as u32,
            minor_faults: minor,
            major_faults: major,
        };
        let arguments = [a0, a1, a2, a3];
        Ok(Self { head, token, arguments, name, tgid, tid, image, born_ns, reading })
    }

    /// The copy of the library, by its number.
    pub(super) fn copy(&self) -> u16 {
        (self.head >> 16) as u16
    }
}
