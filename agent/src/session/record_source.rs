//! Sources of a session's records: the BPF programs, or threads' own reports where BPF is refused.
//!
//! Everything after the records is the same for both. Yields [`RecordSource`]; `feed` has the one of the BPF
//! programs.

use std::{
    collections::BTreeMap,
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
    time::Duration,
};

use guestscope_contract::{ledger::Ledger, pause::BEAT_NS};
use tokio::io::unix::AsyncFd;

use super::error::SessionError;
use crate::{
    health::{AgentCost, Health},
    out,
    phase::{
        AllUnfinished,
        pairing::{Output, Pairing},
    },
    pump::Pump,
    rendezvous::Peer,
};

/// Interval between beats of a CPU.
pub(super) const BEAT: Duration = Duration::from_nanos(BEAT_NS);
/// Beats awaited at the end, in intervals: a late beat is judged by the next one of each CPU.
pub(super) const BEATS_AWAITED: u32 = 3;

pub(super) fn tell(problems: &[String]) {
    for problem in problems {
        out::say(&format!("warning: {problem}\n"));
    }
}

/// Where records come from.
pub(crate) trait RecordSource {
    /// Drains after the program's end in which its exit may still arrive.
    const LAST_DRAINS: u32;

    /// Pairs a batch of waiting records. Returns whether there are more.
    fn take_in(&mut self) -> bool;

    /// Outputs that are ready.
    fn take_out(&mut self) -> Vec<Output> {
        self.pairing().take()
    }

    /// Outputs at the end. May wait for what is still undecided.
    fn take_last(&mut self) -> Vec<Output> {
        self.pairing().take()
    }

    /// The pairing of records.
    fn pairing(&mut self) -> &mut Pairing;

    /// Edges read so far.
    fn edges_read(&self) -> u64;

    /// Descriptors that are readable when records wait; empty if records are only found by looking at each
    /// tick.
    fn watched(&self) -> Result<Vec<AsyncFd<OwnedFd>>, SessionError>;

    /// BPF program that the child runs on itself before exec.
    fn adopt(&self) -> Result<Option<BorrowedFd<'_>>, SessionError>;

    /// Called before this program is started.
    fn starts(&mut self, _program: &Path) {}

    /// Lets sources on the kernel side report what they found.
    fn tell_sources(&mut self) {}

    /// Called when the program was started.
    fn started(&mut self, _pid: u32, _at_ns: u64) {}

    /// Called when the program has ended, before it is waited for.
    fn ended(&mut self);

    /// Answers a program that waits for its probe.
    async fn welcome(&mut self, peer: Peer);

    /// Looks at what known processes have mapped since the last look.
    fn look(&mut self);

    /// Known processes, by their numbers in the agent's PID namespace.
    fn processes(&self) -> Vec<u32>;

    /// Called when edges of a program cannot be seen.
    fn marker_failed(&mut self, why: &str);

    /// Requests that have been open for so long, and those that were ended.
    fn unfinished(&mut self, now_ns: u64, least_ns: u64) -> AllUnfinished {
        self.pairing().look(now_ns, least_ns, &|_, _| None)
    }

    /// The last look at what is open, after all records.
    fn last_look(&mut self, now_ns: u64) {
        self.pairing().last_look(now_ns, &|_, _| None);
    }

    /// Ledgers of threads that are still alive, after all other records.
    fn last_ledgers(&mut self) -> Vec<Ledger>;

    /// Samples of busy-waiting by library, without zeros.
    fn spun(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Samples in system calls by call, without zeros.
    fn called(&self) -> BTreeMap<u32, u64> {
        BTreeMap::new()
    }

    /// What was lost so far by its key in a run folder, if the subject looks for that all the time.
    fn lost(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// So many rows so far found no room on their way to the folder.
    fn lost_on_the_way(&mut self, _rows: u64) {}

    /// Health counters.
    fn health(&self, cost: AgentCost) -> Health;
}

/// Pairs a batch from the rings. Returns whether that was all.
pub(crate) fn empty(pump: &mut Pump, pairing: &mut Pairing) -> bool {
    let emptied = pump.feed(pairing);
    pairing.losses.unknown_edges += std::mem::take(&mut pump.undecodable);
    emptied
}
