//! Fidelity `procfs`, where BPF is refused: threads tell at their edges what the kernel told them, through a ring in memory.
//!
//! Yields the records that the kernel side would have sent, with three accounts: `cpu` by the thread's own clock, `runq` by
//! its `schedstat`, `other` for the rest. What comes over the ring is a program's word and never believed further than it
//! can be: no time before the ring or after now, no count of threads without a bound. It knows no phases.

mod edge;
mod refusal;
mod ring;
mod sources;
mod status;
mod threads;

use std::{
    io,
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use guestscope_ebpf::ledger::Ledger;

pub use refusal::{Refusal, is_refused};
pub use sources::{RING, explanation, sources, verdicts};

use self::{
    edge::{DecodeError, Edge},
    ring::Ring,
    threads::{Gone, Threads},
};
use crate::{clock, health::KernelLosses, record::Record};

/// Slots of the ring, 4 MiB: a twentieth of a second of two threads that do nothing but fire edges.
pub const SLOTS: usize = 1 << 14;
/// Edges that are read in one go.
const BATCH: usize = 8192;
/// A slot that was claimed and is not done after this time is given up: whoever claimed it, for some 50 ns, was stopped or
/// killed. Others go on filling the ring meanwhile.
const PATIENCE: Duration = Duration::from_millis(250);
/// Between two looks for threads that have ended, where there is room for more.
const LOOK: Duration = Duration::from_secs(1);

/// The ring, and what is known of the threads that write into it.
#[derive(Debug)]
pub struct Procfs {
    ring: Ring,
    threads: Threads,
    /// Nothing in the ring is from before.
    begun_ns: u64,
    looked: Instant,
    /// What has ended by the last look, and how far the ring was claimed then: its last edges lie before.
    gone: Option<(Vec<Gone>, u64)>,
    /// Nothing is read any more.
    is_over: bool,
    /// Edges that were read.
    pub edges_read: u64,
    /// Words that are no edge.
    pub undecodable: u64,
    unknown_abi: u64,
}

impl Procfs {
    /// With a ring of so many slots, a power of two, for at most so many threads.
    pub fn new(slots: usize, threads: u32) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(slots)?,
            threads: Threads::new(threads as usize),
            begun_ns: clock::now_ns(),
            looked: Instant::now(),
            gone: None,
            is_over: false,
            edges_read: 0,
            undecodable: 0,
            unknown_abi: 0,
        })
    }

    /// The ring, to be handed to a program.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.descriptor()
    }

    /// The program was started.
    pub fn started(&mut self, pid: u32, at_ns: u64, records: &mut Vec<Record>) {
        self.threads.started(pid, at_ns, records);
    }

    /// A process will write into the ring from now on; its number is the kernel's word.
    pub fn met(&mut self, pid: u32) {
        self.threads.met(pid);
    }

    /// The program has ended and was not waited for yet, so that it can still be read what its main thread was worth.
    pub fn ended(&mut self, at_ns: u64) {
        self.threads.ended(at_ns);
    }

    /// A batch of what waits in the ring, in the order in which slots were claimed: what one thread did before another one
    /// could go on comes first. Whether there is more.
    pub fn read(&mut self, records: &mut Vec<Record>) -> bool {
        if self.is_over {
            return false;
        }
        if self.gone.is_none() && (self.looked.elapsed() >= LOOK || self.threads.is_crowded()) {
            self.looked = Instant::now();
            let gone = self.threads.gone();
            self.gone = Some((gone, self.ring.claimed()));
        }
        let has_more = self.edges(PATIENCE, records);
        if let Some((gone, _)) = self.gone.take_if(|(_, until)| self.ring.is_past(*until)) {
            self.threads.end(gone, records);
        }
        has_more
    }

    /// The rest: what was claimed and is not done now never will be. What is claimed from now on, by processes that the
    /// program has left behind, is after the end, and is not read. Ends of what has ended, ledgers of what lives on.
    pub fn stop(&mut self, records: &mut Vec<Record>) -> Vec<Ledger> {
        let end = self.ring.claimed();
        while !self.ring.is_past(end) && self.edges(Duration::ZERO, records) {}
        self.is_over = true;
        self.threads.finish(clock::now_ns(), records)
    }

    fn edges(&mut self, patience: Duration, records: &mut Vec<Record>) -> bool {
        for _ in 0..BATCH {
            let Some(words) = self.ring.next(patience) else { return false };
            self.edges_read += 1;
            match Edge::decode(&words, self.begun_ns..=clock::now_ns()) {
                Ok(edge) => self.threads.edge(&edge, records),
                Err(DecodeError::Abi(_)) => self.unknown_abi += 1,
                Err(_) => self.undecodable += 1,
            }
        }
        true
    }

    /// Programs that have taken the ring: their word, good for a warning alone.
    pub fn taken(&self) -> u64 {
        self.ring.taken()
    }

    /// What is missing.
    pub fn losses(&self) -> KernelLosses {
        KernelLosses {
            edges: self.ring.lost(),
            edges_unfinished: self.ring.unfinished,
            tasks_missed: self.threads.missed(),
            unknown_abi: self.unknown_abi,
            ..KernelLosses::default()
        }
    }
}

#[cfg(test)]
mod tests;
