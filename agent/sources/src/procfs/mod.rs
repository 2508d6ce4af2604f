//! Fidelity `procfs`, where BPF is refused: at each edge a thread reports the kernel's counters for itself,
//! through a ring in shared memory.
//!
//! Yields the records that the BPF programs would have sent, with three accounts: `cpu` by the thread's own
//! clock, `runq` by its `schedstat`, `other` for the rest. The ring contains claims of the program, accepted
//! only within bounds: no time before the ring or after now, a limited number of threads.

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

use guestscope_contract::ledger::Ledger;

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
/// Most edges read in one go.
const BATCH: usize = 8192;
/// Time after which a claimed but unfinished slot is skipped: writing one takes some 50 ns, so its writer was
/// stopped or killed. Other threads continue to fill the ring.
const PATIENCE: Duration = Duration::from_millis(250);
/// Time between two looks for threads that have ended, where there is room for more.
const LOOK: Duration = Duration::from_secs(1);

/// The ring, and the known threads that write into it.
#[derive(Debug)]
pub struct Procfs {
    ring: Ring,
    threads: Threads,
    /// Start of the ring: nothing in it is older.
    begun_ns: u64,
    looked: Instant,
    /// Threads found ended by the last look, and the ring's head then: their last edges lie before it.
    gone: Option<(Vec<Gone>, u64)>,
    /// Whether reading is over.
    is_over: bool,
    /// Edges read.
    pub edges_read: u64,
    /// Slots whose words are no edge.
    pub undecodable: u64,
    unknown_abi: u64,
}

impl Procfs {
    /// Makes a ring of so many slots, a power of two, for at most so many threads.
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

    /// The ring, to be passed to a program.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.descriptor()
    }

    /// Records the start of the program.
    pub fn started(&mut self, pid: u32, at_ns: u64, records: &mut Vec<Record>) {
        self.threads.started(pid, at_ns, records);
    }

    /// A process will write into the ring from now on; its number comes from the kernel.
    pub fn met(&mut self, pid: u32) {
        self.threads.met(pid);
    }

    /// The program has ended and was not waited for yet, so that the times of its main thread can still be
    /// read.
    pub fn ended(&mut self, at_ns: u64) {
        self.threads.ended(at_ns);
    }

    /// Reads a batch of the ring, in the order in which slots were claimed: if one thread waited for another,
    /// the other's edge comes first. Returns whether there is more.
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

    /// Reads the rest: unfinished slots will stay unfinished. Slots claimed from now on, by processes that
    /// outlive the program, are not read. Yields ends of threads that have ended, and ledgers of those that
    /// are alive.
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

    /// Programs that have taken the ring: their own claim, good for a warning alone.
    pub fn taken(&self) -> u64 {
        self.ring.taken()
    }

    /// Losses.
    pub fn losses(&self) -> KernelLosses {
        KernelLosses {
            edges: self.ring.lost(),
            edges_unfinished: self.ring.unfinished,
            tasks_missed: self.threads.missed(),
            unknown_abi: self.unknown_abi,
            marks_untracked: self.threads.untracked.0,
            requests_untracked: self.threads.untracked.1,
            ..KernelLosses::default()
        }
    }
}

#[cfg(test)]
mod tests;
