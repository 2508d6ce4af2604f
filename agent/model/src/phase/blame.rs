//! Why a thread waited for another one: what delayed that thread, and so on from thread to thread.
//!
//! A wait in a lock or at a pipe ends when another thread wakes the waiting one (`ender.rs`). The waker's own
//! long waits during it explain it, all slices together; if those ended by a third thread's wake-up, that
//! thread's waits do. It is an estimate: only waits above the threshold are known.

use std::collections::VecDeque;

use guestscope_contract::Account;

use super::{Stopper, Wait, table::Table, wait::Blame};

/// Waits that are kept per thread, the latest ones.
const RECENT: usize = 32;
/// Number of threads kept after their end. A wait for such a thread is reported right after it: a thread's
/// last wake-ups come before its end, and on one CPU the switch at its end starts the woken thread.
const GONE: usize = 64;
/// Threads whose waits are kept, at most twice so many: each takes up to 4 KB.
const LIVES: usize = 1_024;

/// A long wait that is over: when it was what.
#[derive(Clone, Copy, Debug)]
struct Past {
    start_ns: u64,
    ready_ns: u64,
    queued_ns: u64,
    end_ns: u64,
    account: Account,
    stopped_by: Option<Stopper>,
    /// What explains it, and at what time.
    blame: Option<(Blame, Interval)>,
}

/// Start and end, ns.
type Interval = (u64, u64);

/// The latest long waits of all threads, by number, and of those that ended last.
#[derive(Debug, Default)]
pub(crate) struct Pasts {
    of: Table<u32, Life>,
    /// Threads that have not waited since `of` was last full: the next to go.
    before: Table<u32, Life>,
    gone: VecDeque<u32>,
}

/// The waits of one thread.
#[derive(Debug, Default)]
struct Life {
    waits: VecDeque<Past>,
    /// When the thread ended. A later thread with the same ID is a different one.
    end_ns: Option<u64>,
}

impl Pasts {
    /// Keeps any thread's wait that has ended; yields its explanation.
    pub(crate) fn add(&mut self, wait: &Wait) -> Option<Blame> {
        let ready_ns = wait.start_ns.saturating_add(wait.blocked_ns);
        // A device's time is its own, even if another thread saw to it that the wait ended; and nobody waits
        // for the thread that lets a stopped one go on.
        let is_of_device = wait.io.as_ref().is_some_and(|io| io.in_flight.is_none());
        let blame = if is_of_device || wait.stopped_by.is_some() {
            None
        } else {
            self.explain(wait, (wait.start_ns, ready_ns))
        };
        let waits = &mut self.life(wait.thread.tid).waits;
        if waits.len() == RECENT {
            waits.pop_front();
        }
        waits.push_back(Past {
            start_ns: wait.start_ns,
            ready_ns,
            queued_ns: ready_ns.saturating_add(wait.throttled_ns),
            end_ns: wait.start_ns.saturating_add(wait.duration_ns),
            account: wait.account,
            stopped_by: wait.stopped_by,
            blame,
        });
        blame.map(|(blame, _)| blame)
    }

    /// What kept the waker longest within the window, all waits of one kind together.
    fn explain(&self, wait: &Wait, window: Interval) -> Option<(Blame, Interval)> {
        let own = wait.thread.tid;
        let waker = wait.waker_tid.filter(|&tid| tid != own)?;
        let life = self.of.get(&waker).or_else(|| self.before.get(&waker));
        let life = life.filter(|life| life.end_ns.is_none_or(|end_ns| window.1 <= end_ns))?;
        let parts = life.waits.iter().flat_map(|past| past.parts(waker, own));
        let mut sums: Vec<(Blame, Interval)> = Vec::new();
        for (blame, (begin, end)) in parts {
            let (begin, end) = (begin.max(window.0), end.min(window.1));
            let Some(ns) = end.checked_sub(begin).filter(|&ns| ns > 0) else { continue };
            let ns = ns.min(blame.ns);
            let is_same = |sum: &Blame| {
                (sum.tid, sum.account, sum.stopped_by) == (blame.tid, blame.account, blame.stopped_by)
            };
            match sums.iter_mut().find(|(sum, _)| is_same(sum)) {
                Some((sum, (first, last))) => {
                    sum.ns = sum.ns.saturating_add(ns);
                    sum.depth = sum.depth.min(blame.depth);
                    (*first, *last) = (begin.min(*first), end.max(*last));
                }
                None => sums.push((Blame { ns, ..blame }, (begin, end))),
            }
        }
        sums.into_iter().max_by_key(|(blame, _)| (blame.ns, std::cmp::Reverse(blame.depth)))
    }

    fn life(&mut self, tid: u32) -> &mut Life {
        if !self.of.contains_key(&tid) {
            if self.of.len() >= LIVES {
                self.before = std::mem::take(&mut self.of);
            }
            let life = self.before.remove(&tid).unwrap_or_default();
            self.of.insert(tid, life);
        }
        self.of.entry(tid).or_default()
    }

    /// The thread of this number ended then.
    pub(crate) fn ended(&mut self, tid: u32, time_ns: u64) {
        let life = self.of.get_mut(&tid).or_else(|| self.before.get_mut(&tid));
        let Some(life) = life.filter(|life| life.end_ns.is_none()) else { return };
        life.end_ns = Some(time_ns);
        self.gone.push_back(tid);
        if self.gone.len() > GONE
            && let Some(oldest) = self.gone.pop_front()
        {
            self.of.remove(&oldest);
            self.before.remove(&oldest);
        }
    }

    /// Forgets what was known of this number: it is another thread's now.
    pub(crate) fn forget(&mut self, tid: u32) {
        if self.of.remove(&tid).or_else(|| self.before.remove(&tid)).is_some() {
            self.gone.retain(|gone| *gone != tid);
        }
    }
}

impl Past {
    /// What delayed the thread, and when. If it waited for a third thread, that thread's part replaces the
    /// wait, unless it is `asking`: no thread waits for itself.
    fn parts(&self, tid: u32, asking: u32) -> [(Blame, Interval); 3] {
        let own = |account, (begin, end): Interval, stopped_by| {
            (Blame { tid, account, stopped_by, ns: end.saturating_sub(begin), depth: 1 }, (begin, end))
        };
        let blocked = match self.blame {
            Some((blame, when)) if blame.tid != asking => (Blame { depth: blame.depth + 1, ..blame }, when),
            _ => own(self.account, (self.start_ns, self.ready_ns), self.stopped_by),
        };
        let throttled = own(Account::Throttled, (self.ready_ns, self.queued_ns), None);
        [blocked, throttled, own(Account::Runq, (self.queued_ns, self.end_ns), None)]
    }
}
