//! How long a phase's helpers could not run: their long waits during the phase.
//!
//! A pool's leader that waits for a helper without a CPU has `cpu` time if it spins and `lock` time if it
//! sleeps; neither names the cause. So the helpers' own waits are recorded beside it, as a union of
//! intervals. Only waits above the threshold that end before the phase does are known.

use std::collections::VecDeque;

use guestscope_contract::{Account, metrics::KEPT};

use super::{Wait, helped::HelperWait, table::Table, values::Phase};

/// Waits of a process that are kept while a request of it is in flight; the oldest go first.
const RECENT: usize = 1 << 14;

/// Waits of all processes together: 6 MB. A process with many gives up its own.
const ALL: usize = 1 << 16;

/// Start and end, ns.
type Interval = (u64, u64);

/// One long wait of a helper: when it ended, and its parts in the order of [`KEPT`].
#[derive(Debug)]
struct Kept {
    end_ns: u64,
    /// The previous thread on the helper's CPU.
    behind_tid: u32,
    parts: [Interval; KEPT.len()],
}

#[derive(Debug, Default)]
struct Recent {
    helpers: VecDeque<Kept>,
    /// By request: waits of threads inside it, and the time that it was on no thread.
    leaders: VecDeque<(u64, Interval)>,
    /// There were more than are kept.
    is_partial: bool,
}

/// Long waits of all processes that have requests in flight, in the order of their ends.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    of: Table<u32, Recent>,
    /// Number of waits.
    kept: usize,
}

impl Waits {
    /// A thread of a process that has requests in flight waited for long.
    pub(crate) fn add(&mut self, wait: &Wait) {
        let end_ns = wait.start_ns.saturating_add(wait.duration_ns);
        if let Some(root) = wait.root {
            self.suspended(wait.thread.tgid, root, (wait.start_ns, end_ns));
        } else {
            let kept = Kept { end_ns, behind_tid: wait.ran_before_tid, parts: parts(wait, end_ns) };
            let recent = self.of.entry(wait.thread.tgid).or_default();
            recent.is_partial |= push(&mut recent.helpers, kept, &mut self.kept, |kept| kept.end_ns);
        }
    }

    /// A request of the process was on no thread for so long.
    pub(crate) fn suspended(&mut self, tgid: u32, root: u64, interval: Interval) {
        let recent = self.of.entry(tgid).or_default();
        recent.is_partial |=
            push(&mut recent.leaders, (root, interval), &mut self.kept, |(_, interval)| interval.1);
    }

    /// Whether some waits of the process were too many to keep.
    pub(crate) fn is_partial(&self, tgid: u32) -> bool {
        self.of.get(&tgid).is_some_and(|recent| recent.is_partial)
    }

    /// Forgets a process that has no request in flight any more.
    pub(crate) fn forget(&mut self, tgid: u32) {
        if let Some(recent) = self.of.remove(&tgid) {
            self.kept -= recent.helpers.len() + recent.leaders.len();
        }
    }

    /// The waits of helpers during a finished phase.
    pub(crate) fn laid_over(&self, tgid: u32, phase: &Phase) -> HelperWait {
        let mut laid = HelperWait::default();
        let Some(recent) = self.of.get(&tgid).filter(|recent| !recent.helpers.is_empty()) else {
            return laid;
        };
        let whole = (phase.start_ns, phase.start_ns.saturating_add(phase.duration_ns));
        let since = |end_ns: u64| end_ns > whole.0;
        let own = recent.leaders.iter().rev().take_while(|(_, wait)| since(wait.1));
        let own = union(own.filter(|(root, _)| *root == phase.root).map(|(_, wait)| *wait), whole);
        for (kept, account) in KEPT.into_iter().enumerate() {
            let waits = recent.helpers.iter().rev().take_while(|wait| since(wait.end_ns));
            // A helper that waits for the CPU of the phase's own thread delays no one.
            let waits = waits.filter(|wait| account != Account::Runq || wait.behind_tid != phase.thread.tid);
            let waits = union(waits.map(|wait| wait.parts[kept]), whole);
            laid.waiting[kept] = common(&waits, &own);
            laid.on_cpu[kept] = length(&waits) - laid.waiting[kept];
        }
        laid
    }
}

/// Keeps the order of the ends: a wait may come late. Whether one was dropped. `kept` counts all.
fn push<T>(recent: &mut VecDeque<T>, wait: T, kept: &mut usize, end_ns: impl Fn(&T) -> u64) -> bool {
    let is_full = recent.len() == RECENT || *kept >= ALL;
    if is_full {
        if recent.pop_front().is_none() {
            return true;
        }
        *kept -= 1;
    }
    *kept += 1;
    let later = recent.iter().rev().take_while(|other| end_ns(other) > end_ns(&wait)).count();
    recent.insert(recent.len() - later, wait);
    is_full
}

/// The parts of a wait. Lack of quota comes first: a thread that gets quota back waits for a CPU then.
fn parts(wait: &Wait, end_ns: u64) -> [Interval; KEPT.len()] {
    let ready_ns = wait.start_ns.saturating_add(wait.blocked_ns);
    let queued_ns = ready_ns.saturating_add(wait.throttled_ns);
    KEPT.map(|account| {
        if account == Account::Runq {
            (queued_ns, end_ns)
        } else if account == Account::Throttled {
            (ready_ns, queued_ns)
        } else if account == wait.account {
            (wait.start_ns, ready_ns)
        } else {
            (0, 0)
        }
    })
}

/// Union of the intervals, cut to `whole`, in order.
fn union(intervals: impl Iterator<Item = Interval>, whole: Interval) -> Vec<Interval> {
    let clipped = intervals.map(|(begin, end)| (begin.max(whole.0), end.min(whole.1)));
    let mut intervals: Vec<Interval> = clipped.filter(|(begin, end)| begin < end).collect();
    intervals.sort_unstable();
    let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
    for (begin, end) in intervals {
        match merged.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged
}

fn length(intervals: &[Interval]) -> u64 {
    intervals.iter().map(|(begin, end)| end - begin).sum()
}

/// The time that two unions have in common.
fn common(some: &[Interval], others: &[Interval]) -> u64 {
    let (mut some, mut others) = (some.iter().peekable(), others.iter().peekable());
    let mut sum = 0;
    while let (Some(one), Some(other)) = (some.peek(), others.peek()) {
        sum += one.1.min(other.1).saturating_sub(one.0.max(other.0));
        if one.1 < other.1 {
            some.next();
        } else {
            others.next();
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn intervals() -> impl Strategy<Value = Vec<Interval>> {
        vec((0..200_u64, 0..40_u64).prop_map(|(begin, length)| (begin, begin + length)), 0..20)
    }

    proptest! {
        /// Against counting every nanosecond.
        #[test]
        fn unions_and_what_they_have_in_common(some in intervals(), others in intervals(), whole in (0..100_u64, 100..240_u64)) {
            let covers = |intervals: &[Interval], ns: u64| {
                (whole.0..whole.1).contains(&ns) && intervals.iter().any(|(begin, end)| (*begin..*end).contains(&ns))
            };
            let count = |counts: &dyn Fn(u64) -> bool| (0..300).filter(|&ns| counts(ns)).count() as u64;
            let (one, other) = (union(some.iter().copied(), whole), union(others.iter().copied(), whole));
            prop_assert_eq!(length(&one), count(&|ns| covers(&some, ns)));
            let both = |ns| covers(&some, ns) && covers(&others, ns);
            prop_assert_eq!(common(&one, &other), count(&both));
        }
    }
}
