//! What a thread is named by for good.

use guestscope_contract::ledger::Ledger;

/// A thread, named for good: numbers of the initial namespace and when tracking began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId {
    /// Thread number.
    pub tid: u32,
    /// Process number.
    pub tgid: u32,
    /// CLOCK_MONOTONIC ns at which tracking of the thread began: distinguishes two threads with the same ID.
    pub born_ns: u64,
}

/// Names a thread for good.
pub(crate) fn thread_id(ledger: &Ledger) -> ThreadId {
    ThreadId { tid: ledger.tid, tgid: ledger.tgid, born_ns: ledger.born_ns }
}
