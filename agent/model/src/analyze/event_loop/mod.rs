//! What the waits in poll of a thread were for that serves several requests at once: an event loop.
//!
//! Such a wait ends whenever anything happens, mostly to another request, and the thread then waits again for
//! what this one needs. Two signs tell. The thread woke another thread of its process, which later waits for
//! more: until then that one had the work, and what it did is what the waits meanwhile were for. And where
//! another request begins right after a wait, its arrival ended it: such a wait was for what ended a later
//! one.

mod worker;

#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

use guestscope_contract::Account;

use self::worker::{Interval, WorkerWait, common, most};
use super::cause::Cause;
use crate::phase::{Blame, Phase, Wait};

/// At most so many threads of a request are looked at.
const THREADS: usize = 16;
/// Part of a request's excess from which on waits in poll are looked at together: one of so many.
const WORTH: i64 = 20;

/// Waits in poll of one request, and what may explain them, until all have come.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Polls {
    /// The `id` of its outermost phase.
    id: u64,
    pid: u32,
    tids: Vec<u32>,
    /// Its begin and end, ns.
    within: Interval,
    /// At most so many waits of the request's threads, of workers, and arrivals are kept, of each.
    room: usize,
    /// Those in poll of its threads, also inside other requests.
    waits: Vec<Wait>,
    workers: Vec<WorkerWait>,
    /// Threads that began other requests meanwhile, and when.
    arrivals: Vec<(u32, u64)>,
}

/// A wait in poll of the request, with what it was for in the places of what ended it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    /// The wait.
    pub(super) wait: Wait,
    /// The thread that had the request's work meanwhile: which thread ended the wait does not matter then.
    pub(super) given_to: Option<u32>,
}

/// What a wait was for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reason {
    /// This thread had the work; what had delayed it.
    Given(u32, Option<Blame>),
    /// What ended this other wait.
    Passed(usize),
    /// Not known: another request ended it, and all later ones.
    Unknown,
}

/// Whether the excess in poll is worth a look, given the parts of a request's excess and the whole, ns. Where
/// a worker waited for a disk or a CPU, what the loop waited is that cause's.
pub(super) fn is_worth(parts: impl Iterator<Item = (Cause, i64)>, excess_ns: i64) -> bool {
    let is_poll = |cause: Cause| cause == Cause::Account(Account::Poll) || matches!(cause, Cause::Helper(_));
    let poll_ns =
        parts.filter(|(cause, _)| is_poll(*cause)).fold(0_i64, |sum, (_, ns)| sum.saturating_add(ns));
    poll_ns > 0 && poll_ns.saturating_mul(WORTH) >= excess_ns
}

impl Polls {
    /// For the request of this `id`, with threads of one process, its begin and end, ns, and room for so many
    /// waits.
    pub(super) fn new(id: u64, pid: u32, mut tids: Vec<u32>, within: (u64, u64), room: usize) -> Self {
        tids.truncate(THREADS);
        Self { id, pid, tids, within, room, ..Self::default() }
    }

    /// Takes a wait of the request. Returns whether it is kept until [`Polls::settle`].
    pub(super) fn take(&mut self, wait: &Wait) -> bool {
        self.tids.contains(&wait.thread.tid) && self.keep(wait)
    }

    /// Takes a wait of any other request, or outside all: of its threads, or of others of its process.
    pub(super) fn look_at(&mut self, wait: &Wait) {
        let is_meanwhile = wait.end_ns() > self.within.0 && wait.start_ns < self.within.1;
        if !is_meanwhile || wait.thread.tgid != self.pid || wait.root == Some(self.id) {
            return;
        }
        if self.tids.contains(&wait.thread.tid) {
            self.keep(wait);
        } else if wait.root.is_none() && self.workers.len() < self.room {
            self.workers.push(WorkerWait::new(wait));
        }
    }

    fn keep(&mut self, wait: &Wait) -> bool {
        let is_kept = wait.account == Account::Poll && wait.blocked_ns > 0 && self.waits.len() < self.room;
        if is_kept {
            self.waits.push(wait.clone());
        }
        is_kept
    }

    /// Takes the outermost phase of any request.
    pub(super) fn arrived(&mut self, root: &Phase) {
        let is_meanwhile = (self.within.0..=self.within.1).contains(&root.start_ns);
        let is_here = root.thread.tgid == self.pid && self.tids.contains(&root.thread.tid);
        if is_meanwhile && is_here && root.id != self.id && self.arrivals.len() < self.room {
            self.arrivals.push((root.thread.tid, root.start_ns));
        }
    }

    /// All waits have come: hands out those that were taken.
    pub(super) fn settle(&mut self) -> Vec<Told> {
        let (mut waits, mut workers) = (std::mem::take(&mut self.waits), std::mem::take(&mut self.workers));
        let mut arrivals = std::mem::take(&mut self.arrivals);
        waits.sort_by_key(|wait| (wait.thread.tid, wait.start_ns));
        workers.sort_by_key(|wait| (wait.ready_ns, wait.tid));
        arrivals.sort_unstable();
        let mut told: Vec<Told> = Vec::with_capacity(waits.len());
        for polls in waits.chunk_by(|one, next| one.thread.tid == next.thread.tid) {
            let tid = polls[0].thread.tid;
            let began = arrivals.iter().filter(|(on, _)| *on == tid).map(|(_, start_ns)| *start_ns);
            let all: Vec<&Wait> = polls.iter().collect();
            let event_loop = EventLoop::new((tid, self.id), self.within, all, &workers, began);
            let reasons = event_loop.reasons();
            let own = polls.iter().zip(reasons).filter(|(wait, _)| wait.root == Some(self.id));
            told.extend(own.map(|(wait, reason)| match reason {
                Some(Reason::Given(to, blame)) => Told::given(wait, to, blame),
                Some(Reason::Passed(by)) => Told::passed(wait, &polls[by]),
                Some(Reason::Unknown) => Told::passed(wait, &Wait::default()),
                None => Told { wait: wait.clone(), given_to: None },
            }));
        }
        told
    }
}

impl Told {
    fn given(wait: &Wait, to: u32, blame: Option<Blame>) -> Self {
        let wait = Wait {
            waker_tid: None,
            waker_syscall: None,
            waker_comm: None,
            blame,
            stopped_by: None,
            io: None,
            ..wait.clone()
        };
        Self { wait, given_to: Some(to) }
    }

    fn passed(wait: &Wait, by: &Wait) -> Self {
        let ended = Wait {
            waker_tid: by.waker_tid,
            waker_syscall: by.waker_syscall,
            waker_comm: by.waker_comm.clone(),
            blame: None,
            stopped_by: by.stopped_by,
            is_limited: by.is_limited,
            // Where that wait lasted up to its limit, the limit ended this one, too.
            limit_ms: by.timed_out().then_some(0),
            beside_tid: by.beside_tid,
            io: by.io.clone(),
            ..wait.clone()
        };
        Self { wait: ended, given_to: None }
    }
}

/// One thread of a request, with all in the order of time.
struct EventLoop<'a> {
    tid: u32,
    /// The request.
    id: u64,
    /// When the request began and ended, ns.
    within: Interval,
    polls: Vec<&'a Wait>,
    workers: &'a [WorkerWait],
    /// When it began other requests: after how many waits in poll, and ns.
    arrivals: Vec<(usize, u64)>,
    /// When this thread woke others for work, or these began.
    given: Vec<Given>,
}

/// Another thread went on, as one that has work.
#[derive(Clone, Copy, Debug)]
struct Given {
    worker_tid: u32,
    /// After how many waits in poll.
    stretch: usize,
    at_ns: u64,
    /// First argument of the call in which it had waited for work: the address of a futex, a descriptor.
    waited_at: Option<u64>,
}

/// Work of the request that another thread had, ns.
struct Job {
    worker_tid: u32,
    had: Interval,
}

impl<'a> EventLoop<'a> {
    fn new(
        (tid, id): (u32, u64),
        within: Interval,
        polls: Vec<&'a Wait>,
        workers: &'a [WorkerWait],
        arrivals: impl Iterator<Item = u64>,
    ) -> Self {
        let stretch = |at_ns: u64| polls.partition_point(|wait| wait.end_ns() <= at_ns);
        let given =
            |worker_tid, at_ns, waited_at| Given { worker_tid, stretch: stretch(at_ns), at_ns, waited_at };
        // A wait with a limit is one for a lock, such as Python's interpreter lock.
        let woken = workers.iter().filter(|wait| wait.waker_tid == Some(tid) && !wait.is_limited);
        let woken = woken.map(|wait| given(wait.tid, wait.ready_ns, wait.argument));
        let born: BTreeSet<(u32, u64)> = workers.iter().map(|wait| (wait.tid, wait.born_ns)).collect();
        let born = born.into_iter().map(|(tid, born_ns)| given(tid, born_ns, None));
        let is_within = |given: &Given| (within.0..within.1).contains(&given.at_ns);
        let mut given: Vec<Given> = woken.chain(born).filter(is_within).collect();
        given.sort_by_key(|given| (given.at_ns, given.worker_tid));
        let arrivals = arrivals.map(|at_ns| (stretch(at_ns), at_ns)).collect();
        Self { tid, id, within, polls, workers, arrivals, given }
    }

    fn reasons(&self) -> Vec<Option<Reason>> {
        let mut reasons = vec![None; self.polls.len()];
        let jobs = self.given.iter().filter_map(|given| Some((given, self.job(*given)?)));
        let own = jobs.filter(|(given, job)| self.is_own(**given) || self.is_last(job));
        let mut jobs: Vec<Job> = own.map(|(_, job)| job).collect();
        // The last one came back right before the request went on to its end.
        jobs.sort_by_key(|job| Reverse(job.had.1));
        for job in &jobs {
            self.cover(job, &mut reasons);
        }
        if !self.arrivals.is_empty() {
            self.pass_on(&jobs, &mut reasons);
        }
        reasons
    }

    /// Whether what was given to another thread is of this request. In the order in which requests come,
    /// their work is given away; this one is the first before its first wait.
    fn is_own(&self, given: Given) -> bool {
        let is_before = |(stretch, at_ns): (usize, u64)| stretch == given.stretch && at_ns < given.at_ns;
        let begun = self.arrivals.iter().filter(|arrival| is_before(**arrival)).count();
        let before = self.given.iter().filter(|one| is_before((one.stretch, one.at_ns))).count();
        before >= begun || (given.stretch == 0 && before == 0)
    }

    /// Whether the thread that had the work ended the last wait: right after that the request went on to its
    /// end.
    fn is_last(&self, job: &Job) -> bool {
        self.polls.last().is_some_and(|wait| {
            let at_ns = wait.ready_ns();
            wait.waker_tid == Some(job.worker_tid) && job.had.0 < at_ns && at_ns <= job.had.1
        })
    }

    /// The work ends when its thread waits for more, or with the last wait that the thread ends. None where
    /// it goes on after the request: that did not wait for it.
    fn job(&self, Given { worker_tid, at_ns, waited_at, .. }: Given) -> Option<Job> {
        let asks = |wait: &&WorkerWait| {
            let is_same = waited_at.is_some() && wait.argument == waited_at;
            let is_for_work = wait.waker_tid == Some(self.tid) || is_same;
            wait.tid == worker_tid && wait.start_ns >= at_ns && is_for_work && !wait.is_limited
        };
        let until_ns = self.workers.iter().filter(asks).map(|wait| wait.start_ns).min().unwrap_or(u64::MAX);
        let is_it = |wait: &&&Wait| {
            wait.waker_tid == Some(worker_tid) && wait.ready_ns() > at_ns && wait.ready_ns() <= until_ns
        };
        let came_back = || self.polls.iter().rfind(is_it).map(|wait| wait.ready_ns());
        let end_ns = if until_ns <= self.within.1 { until_ns } else { came_back()? };
        Some(Job { worker_tid, had: (at_ns, end_ns) })
    }

    /// The waits that ended while another thread had the work are for that one, but for those that a later
    /// one explains. A thread that is waited for ends the wait before it waits for more.
    fn cover(&self, job: &Job, reasons: &mut [Option<Reason>]) {
        let Job { worker_tid, had } = *job;
        let is_of_it = |at: &usize| {
            let wait = self.polls[*at];
            let is_most = common(blocked(wait), had) >= wait.blocked_ns.div_ceil(2);
            reasons[*at].is_none() && is_most && wait.ready_ns() <= had.1
        };
        let covered: Vec<usize> = (0..self.polls.len()).filter(is_of_it).collect();
        let cut = |at: &usize| {
            let (begin, end) = blocked(self.polls[*at]);
            (begin.max(had.0), end.min(had.1))
        };
        let intervals: Vec<Interval> = covered.iter().map(cut).collect();
        // It waits for this thread where that one has Python's interpreter lock.
        let is_delay = |wait: &&WorkerWait| wait.tid == worker_tid && wait.waker_tid != Some(self.tid);
        let delayed = most(&self.workers.iter().filter(is_delay), &intervals);
        for (at, index) in covered.into_iter().enumerate() {
            let most_ns = self.polls[index].blocked_ns;
            let blame = delayed.as_ref().map(|(blame, by)| Blame { ns: by[at].min(most_ns), ..*blame });
            let blame = blame.filter(|blame| blame.ns >= most_ns.div_ceil(2));
            reasons[index] = Some(Reason::Given(worker_tid, blame));
        }
    }

    /// Waits that ended for other requests are of what ended the next own one that did not. A time limit
    /// counts where the request went on right after it: a loop has timers of its own, which tick at any time.
    /// Where nothing is left, what this one was for was there while the thread ran.
    fn pass_on(&self, jobs: &[Job], reasons: &mut [Option<Reason>]) {
        let is_foreign = self.foreign(jobs);
        let (mut next, mut has_later) = (None, false);
        for at in (0..self.polls.len()).rev() {
            let wait = self.polls[at];
            if reasons[at].is_some() {
                (next, has_later) = (None, false);
                continue;
            }
            if is_foreign[at] {
                reasons[at] = Some(next.map_or(Reason::Unknown, Reason::Passed));
            } else if wait.root == Some(self.id) && (!has_later || !wait.timed_out()) {
                // What ended another request's wait is that one's, or not.
                next = Some(at);
            }
            has_later = true;
        }
    }

    /// Whether another request ended each wait: by its arrival right after it, by a connection of the same
    /// client, or by a thread that had its work.
    fn foreign(&self, jobs: &[Job]) -> Vec<bool> {
        let mut is_arrival = vec![false; self.polls.len()];
        for (stretch, _) in &self.arrivals {
            if let Some(before) = stretch.checked_sub(1) {
                is_arrival[before] = true;
            }
        }
        let mut ends: HashMap<u32, [usize; 2]> = HashMap::new();
        for (wait, is_arrival) in self.polls.iter().zip(&is_arrival) {
            if let Some(tid) = wait.waker_tid {
                ends.entry(tid).or_default()[usize::from(*is_arrival)] += 1;
            }
        }
        // A client that connects anew for each request ends two waits with it.
        let is_most =
            |[others, arrivals]: [usize; 2]| arrivals > others || (arrivals == others && arrivals > 1);
        let is_client = |tid: u32| ends.get(&tid).copied().is_some_and(is_most);
        let is_of_other = |tid: u32, at_ns: u64| {
            let is_it = |job: &Job| job.worker_tid == tid && (job.had.0..=job.had.1).contains(&at_ns);
            self.workers.iter().any(|wait| wait.tid == tid) && !jobs.iter().any(is_it)
        };
        let by_another = |(at, wait): (usize, &&Wait)| {
            let is_last = at + 1 == self.polls.len();
            let by = wait.waker_tid;
            is_arrival[at]
                || by.is_some_and(|tid| is_client(tid) || (is_of_other(tid, wait.ready_ns()) && !is_last))
        };
        self.polls.iter().enumerate().map(by_another).collect()
    }
}

/// From its start until it could go on.
fn blocked(wait: &Wait) -> Interval {
    (wait.start_ns, wait.ready_ns())
}
