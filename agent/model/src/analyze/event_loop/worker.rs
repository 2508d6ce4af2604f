//! Other threads of a request's process, as those that had its work: their waits, and what delayed them most.

use guestscope_contract::Account;

use crate::phase::{Blame, Stopper, Wait};

/// Start and end, ns.
pub(super) type Interval = (u64, u64);

/// A long wait of another thread of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkerWait {
    pub(super) tid: u32,
    pub(super) waker_tid: Option<u32>,
    /// When the thread began, as far as is known, ns.
    pub(super) born_ns: u64,
    pub(super) start_ns: u64,
    /// When it could go on: what it waited for was there.
    pub(super) ready_ns: u64,
    /// Whether the wait has a time limit.
    pub(super) is_limited: bool,
    /// The first argument of its system call: where it waits for a lock, the lock.
    pub(super) argument: Option<u64>,
    /// Account, start and length of its parts, ns.
    parts: [(Account, u64, u64); 3],
    stopped_by: Option<Stopper>,
    blame: Option<Blame>,
}

impl WorkerWait {
    pub(super) fn new(wait: &Wait) -> Self {
        Self {
            tid: wait.thread.tid,
            waker_tid: wait.waker_tid,
            born_ns: wait.thread.born_ns,
            start_ns: wait.start_ns,
            ready_ns: wait.ready_ns(),
            is_limited: wait.is_limited,
            argument: wait.argument,
            parts: wait.portions(),
            stopped_by: wait.stopped_by,
            blame: wait.blame,
        }
    }

    /// What delayed the thread that had the work, and its part of this interval, ns. Where a third thread
    /// explains most of a wait, that one's delay has its place.
    fn delays(&self, within: Interval) -> impl Iterator<Item = Blame> + '_ {
        self.parts.iter().enumerate().filter_map(move |(at, &(account, from_ns, ns))| {
            let overlap_ns = common((from_ns, from_ns.saturating_add(ns)), within);
            let third = self.blame.filter(|blame| at == 0 && blame.ns >= ns.div_ceil(2));
            let stopped_by = self.stopped_by.filter(|_| at == 0);
            let own = Blame { tid: self.tid, account, stopped_by, ns: overlap_ns, depth: 1 };
            let part_of = |blame_ns: u64| u128::from(overlap_ns) * u128::from(blame_ns.min(ns));
            let blame = third.map_or(own, |blame| {
                let third_ns = (part_of(blame.ns) / u128::from(ns.max(1))) as u64;
                Blame { ns: third_ns, depth: blame.depth.saturating_add(1), ..blame }
            });
            (overlap_ns > 0).then_some(blame)
        })
    }
}

/// What delayed a thread most in these intervals, all waits of one kind together, and for how long in each;
/// none where it had no long waits there.
pub(super) fn most<'a>(
    waits: &(impl Iterator<Item = &'a WorkerWait> + Clone),
    intervals: &[Interval],
) -> Option<(Blame, Vec<u64>)> {
    let mut sums: Vec<(Blame, Vec<u64>)> = Vec::new();
    for (at, within) in intervals.iter().enumerate() {
        for one in waits.clone().flat_map(|wait| wait.delays(*within)) {
            let is_same =
                |of: &Blame| (of.tid, of.account, of.stopped_by) == (one.tid, one.account, one.stopped_by);
            let index = sums.iter().position(|(of, _)| is_same(of)).unwrap_or_else(|| {
                sums.push((Blame { ns: 0, ..one }, vec![0; intervals.len()]));
                sums.len() - 1
            });
            let (sum, by) = &mut sums[index];
            sum.ns = sum.ns.saturating_add(one.ns);
            sum.depth = sum.depth.min(one.depth);
            by[at] = by[at].saturating_add(one.ns);
        }
    }
    sums.into_iter().max_by_key(|(blame, _)| (blame.ns, std::cmp::Reverse(blame.depth)))
}

/// The time that two intervals have in common, ns.
pub(super) fn common(one: Interval, other: Interval) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}
