//! Why single requests were slow, with evidence, and which causes slow requests share.
//!
//! Yields [`Explanation`]: chosen requests with their excess by phase and cause, each part with its waits,
//! counts and samples; and, over all requests above the 90th and 99th percentile, the parts of their excess.
//! It reads the requests three or four times and the waits once, in memory that does not grow with the run.
//! The parts are those of [`Summary`], which add up; evidence is shown beside them.

mod ahead;
mod behind;
mod case;
mod counts;
mod crowded;
mod culprit;
mod elsewhere;
mod ending;
mod explained;
mod fitting;
mod held;
mod helped;
mod holders;
mod laid;
mod meanwhile;
mod reading;
mod request_work;
mod spans;
mod tail;
mod waits;
mod whose;
mod worked;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, convert::Infallible};

use crate::phase::{GpuWork, Request, Thread, Wait};
use crate::untrusted::Untrusted;

use self::reading::Reading;
use super::{
    needs::Needs,
    summary::Summary,
    tally::{ByName, Standing},
};

pub use self::{
    behind::{Behind, OfGroup},
    case::{Ahead, Case, CasePhase, Compared, Evidence, Part, Sampled},
    culprit::Culprit,
    ending::{Advised, Naming},
    explained::{Explained, Wanted},
    helped::HelperWaits,
    meanwhile::Meanwhile,
    request_work::RequestWork,
    tail::{Tail, TailCause, TailPart},
    waits::{By, InCall, LongWait, Waits},
    whose::{Circle, Whose},
};

/// Maximum number of thread names kept from waits: names of programs that are not observed occur nowhere
/// else.
const NAMES: usize = 4_096;

/// Kinds of requests, by their total time, for which everything asked for is explained; of the others only
/// the slowest request. A case with 10,000 phases takes 1 MB.
const WHOLE: usize = 9;

/// Range of the requests' own numbers, so that a mistyped one can be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The lowest.
    pub lowest: u64,
    /// The highest.
    pub highest: u64,
}

/// Why a requested request is not in the statistics, and so not explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCounted {
    /// The program called it a warm-up.
    Warmup,
    /// Its end was not seen.
    Unfinished,
    /// Its accounts do not add up.
    Damaged,
}

/// A thread by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name at the thread's end.
    pub comm: Untrusted,
    /// ID of its process.
    pub pid: u32,
}

/// A run, explained.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Summary of the run; the slowest requests in it have no trace IDs.
    pub summary: Summary,
    /// Explanations of the summary's groups, in their order.
    pub groups: Vec<Explained>,
    /// Range of request numbers; none if there is no request.
    pub numbers: Option<Numbers>,
    /// Why the requested request is not explained.
    pub not_counted: Option<NotCounted>,
    /// Threads in the evidence, by thread ID: observed ones, and those that occupied a CPU.
    pub threads: HashMap<u32, Named>,
    /// The processes of the run.
    pub circle: Circle,
}

impl Explanation {
    /// Reads the requests three times, and once more if an excess includes a queue or waits in poll; all
    /// readings must give the same requests, with what they are asked for.
    ///
    /// # Errors
    /// The first error of a reading.
    pub fn read<E, I>(mut source: impl FnMut(Needs) -> Result<I, E>, wanted: Wanted) -> Result<Self, E>
    where
        I: Iterator<Item = Result<Request, E>>,
    {
        let summary = Summary::read(&mut source)?;
        let mut readings: ByName<Reading> = summary.kinds.beside(Reading::new);
        for (rank, group) in summary.groups.iter().enumerate() {
            let wanted = match wanted {
                Wanted::Slowest(most) if rank >= WHOLE => Wanted::Slowest(most.min(1)),
                Wanted::Slowest(_) | Wanted::Number(_) => wanted,
            };
            if let Some(reading) = readings.get_mut(&group.name) {
                reading.choose(wanted, group);
            }
        }
        let (mut numbers, mut not_counted) = (None, None);
        for request in source(Needs::Traces)? {
            let request = request?;
            let reason = match Standing::of(&request) {
                Standing::Process => continue,
                Standing::Counted => None,
                Standing::Warmup => Some(NotCounted::Warmup),
                Standing::Unfinished => Some(NotCounted::Unfinished),
                Standing::Damaged => Some(NotCounted::Damaged),
            };
            let Some(root) = request.phases.first() else { continue };
            if reason.is_some() {
                not_counted = not_counted.or(reason.filter(|_| wanted == Wanted::Number(root.request)));
                continue;
            }
            note(&mut numbers, root.request);
            let kind = summary.kinds.get(&root.name);
            if let (Some(kind), Some(reading)) = (kind, readings.get_mut(&root.name)) {
                reading.add(kind, &request);
            }
        }
        let mut by_name: HashMap<Untrusted, Reading> = readings.into_kinds().collect();
        let explained = |group: &super::Group| {
            let (kind, reading) = (summary.kinds.get(&group.name)?, by_name.remove(&group.name)?);
            Some(reading.finish(kind))
        };
        let groups = summary.groups.iter().map(explained).map(Option::unwrap_or_default).collect();
        let mut explanation = Self {
            summary,
            groups,
            numbers,
            not_counted,
            threads: HashMap::new(),
            circle: Circle::default(),
        };
        let has_queue = explanation.queued().next().is_some();
        if has_queue || explanation.cases().any(|case| case.polls.is_some()) {
            for request in source(Needs::Times)? {
                explanation.add_other(&request?, has_queue);
            }
        }
        Ok(explanation)
    }

    fn cases(&mut self) -> impl Iterator<Item = &mut Case> {
        self.groups.iter_mut().flat_map(|group| &mut group.cases)
    }

    /// Requests that were asked for and in whose excess a queue has a part.
    fn queued(&mut self) -> impl Iterator<Item = &mut Case> {
        self.cases().filter_map(|case| if case.queue().is_some() { Some(case) } else { None })
    }

    /// Adds a request that may have been ahead of some of them, or have come to the same thread meanwhile.
    fn add_other(&mut self, request: &Request, has_queue: bool) {
        let (standing, Some(root)) = (Standing::of(request), request.phases.first()) else { return };
        if standing != Standing::Process {
            self.cases().filter_map(|case| case.polls.as_mut()).for_each(|polls| polls.arrived(root));
        }
        if standing != Standing::Counted || !has_queue {
            return;
        }
        let Self { summary, groups, .. } = self;
        if let Some(kind) = summary.kinds.get(&root.name) {
            let mut cases: Vec<&mut Case> = groups.iter_mut().flat_map(|group| &mut group.cases).collect();
            ahead::add(&mut cases, kind, request);
        }
    }

    /// [`Explanation::read`] of requests that cannot fail to be read.
    pub fn new<I: Iterator<Item = Request>>(mut source: impl FnMut() -> I, wanted: Wanted) -> Self {
        match Self::read(|_| Ok::<_, Infallible>(source().map(Ok)), wanted) {
            Ok(explanation) => explanation,
            Err(never) => match never {},
        }
    }

    /// Reads the waits of the run, in any order, and lays each beside the part that it explains.
    ///
    /// # Errors
    /// The first error of the reading; what came before it is kept.
    pub fn add_waits<E>(&mut self, waits: impl Iterator<Item = Result<Wait, E>>) -> Result<(), E> {
        let mut cases: Vec<&mut Case> = self.groups.iter_mut().flat_map(|group| &mut group.cases).collect();
        let index_of: HashMap<u64, usize> =
            cases.iter().enumerate().map(|(index, case)| (case.id, index)).collect();
        let is_polled = |(_, case): &(usize, &&mut Case)| case.polls.is_some();
        let polled: Vec<usize> = cases.iter().enumerate().filter(is_polled).map(|(index, _)| index).collect();
        let mut names: HashMap<u32, Named> = HashMap::new();
        let result = waits.into_iter().try_for_each(|wait| {
            let wait = wait?;
            if wait.ran_before_tid != 0 && names.len() < NAMES {
                let named = || Named { comm: wait.ran_before_comm.clone(), pid: wait.ran_before_tgid };
                names.entry(wait.ran_before_tid).or_insert_with(named);
            }
            if let (Some(tid), Some(comm)) = (wait.waker_tid, &wait.waker_comm)
                && names.len() < NAMES
            {
                names.entry(tid).or_insert_with(|| Named { comm: comm.clone(), pid: 0 });
            }
            match wait.root {
                Some(root) => {
                    if let Some(&index) = index_of.get(&root) {
                        cases[index].add_own_wait(&wait);
                    }
                }
                None => cases.iter_mut().for_each(|case| case.add_helper_wait(&wait)),
            }
            for index in &polled {
                if let Some(polls) = &mut cases[*index].polls {
                    polls.look_at(&wait);
                }
            }
            Ok(())
        });
        for case in &mut cases {
            case.settle();
        }
        let tids = cases.iter().flat_map(|case| case.tids());
        self.threads = tids.filter_map(|tid| Some((tid, names.get(&tid)?.clone()))).collect();
        result
    }

    /// Reads the work of GPUs twice, and lays it beside the requests that lie within windows.
    ///
    /// # Errors
    /// The first error of a reading: then nothing is added.
    pub fn add_gpu_work<E, W>(&mut self, work: impl FnMut() -> Result<Option<W>, E>) -> Result<(), E>
    where
        W: Iterator<Item = Result<GpuWork, E>>,
    {
        let mut cases: Vec<&mut Case> = self.groups.iter_mut().flat_map(|group| &mut group.cases).collect();
        worked::add(&mut cases, work)
    }

    /// Reads the threads of the run for the names of the threads in the evidence.
    ///
    /// # Errors
    /// The first error of the reading; what came before it is kept.
    pub fn add_threads<E>(&mut self, threads: impl Iterator<Item = Result<Thread, E>>) -> Result<(), E> {
        let cases = || self.groups.iter().flat_map(|group| &group.cases);
        let wanted: Vec<(u32, u64, u64)> = cases()
            .flat_map(|case| {
                let (begin_ns, end_ns) = (case.begin_ns(), case.end_ns());
                case.tids().map(move |tid| (tid, begin_ns, end_ns))
            })
            .collect();
        for thread in threads {
            let thread = thread?;
            self.circle.add(&thread);
            let Thread { id, comm, end_ns, .. } = thread;
            // A number may have been reused: the thread must have lived while the request was in flight.
            let is_named =
                wanted.iter().any(|&(tid, begin, end)| tid == id.tid && id.born_ns <= end && end_ns >= begin);
            if is_named {
                self.threads.insert(id.tid, Named { comm, pid: id.tgid });
            }
        }
        Ok(())
    }

    /// Whether any request asked for is there.
    pub fn has_cases(&self) -> bool {
        self.groups.iter().any(|group| !group.cases.is_empty())
    }
}

fn note(numbers: &mut Option<Numbers>, number: u64) {
    let known = numbers.get_or_insert(Numbers { lowest: number, highest: number });
    known.lowest = known.lowest.min(number);
    known.highest = known.highest.max(number);
}
