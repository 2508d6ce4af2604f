//! Summary of a finished run: per name of request and per phase, the slowest requests, and their excess by
//! cause.
//!
//! Yields [`Summary`], in memory that does not grow with the run: it reads the requests twice instead of
//! keeping them. It compares requests of one run only.

use std::{collections::HashMap, convert::Infallible};

use crate::phase::{COUNTS, Metric, Request, Thread};
use crate::untrusted::Untrusted;

use super::{
    cause::Cause,
    headline::Headline,
    helped::Helped,
    needs::Needs,
    quantiles::Quantiles,
    rows::{Row, RowKind},
    slow::{Excess, LikeIt, Slow},
    split::{Split, Sums},
    tally::{ByName, Candidate, GroupTally, LeftOut, ProcessRow, Standing, Tally, request_split},
    threads::ThreadGroups,
    tree::{OTHER, PlaceId, ROOT, Tree, latency_ns},
    typical::{Middle, RequestKind, Typical},
    verdict::TailVerdict,
};

/// Requests of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Name of the outermost phase.
    pub name: Untrusted,
    /// Latencies of the requests.
    pub latency: Quantiles,
    /// Requests per second between the first start and the last end.
    pub throughput_per_s: f64,
    /// Where the latencies went, exact sums.
    pub sums: Sums,
    /// Events of the requests' threads, exact sums, in the order of [`Metric::ALL`].
    pub counts: [u128; COUNTS],
    /// What other threads of the process did beside them.
    pub helped: Helped,
    /// Latency of the typical request, ns.
    pub typical_ns: u64,
    /// Number of requests behind that mean.
    pub typical_of: u64,
    /// Phases: queues first, then as first seen, nested ones below their parents, what no phase covers last.
    pub rows: Vec<Row>,
    /// The slowest, slowest first, at most [`SLOWEST`].
    pub slowest: Vec<Slow>,
    /// Main reason for the slow requests.
    pub headline: Headline,
    /// Requests with phases that ran on other threads beside them: shares may add up to more than 1.
    pub overlapping: u64,
    /// Requests in which edges were lost: phases may be missing in them.
    pub lossy: u64,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Groups by total time, most first. Empty if the program marked no request.
    pub groups: Vec<Group>,
    /// Requests that the groups leave out.
    pub left_out: LeftOut,
    /// The processes that ran longest.
    pub processes: Vec<ProcessRow>,
    /// Number of processes.
    pub processes_seen: u64,
    /// All threads, once [`Summary::add_threads`] has seen them.
    pub threads: ThreadGroups,
    pub(super) kinds: ByName<RequestKind>,
}

impl Summary {
    /// Whether any request or process lost time so.
    pub fn has_any(&self, cause: Cause) -> bool {
        self.groups.iter().any(|group| group.sums.get(cause) > 0)
            || self.processes.iter().any(|process| process.split.get(cause) > 0)
    }

    /// Whether any request was inside the driver of a graphics processor.
    pub fn has_driver(&self) -> bool {
        let called = |metric: Metric| self.groups.iter().any(|group| group.counts[metric as usize] > 0);
        called(Metric::GpuWait) || called(Metric::GpuCopy)
    }

    /// Reads the run twice; both readings must give the same requests, in any order, with what they are asked
    /// for. The slowest requests have the trace IDs of the first one.
    ///
    /// # Errors
    /// The first error of a reading.
    pub fn read<E, I>(mut source: impl FnMut(Needs) -> Result<I, E>) -> Result<Self, E>
    where
        I: Iterator<Item = Result<Request, E>>,
    {
        let mut first = Tally::default();
        for request in source(Needs::Numbers)? {
            first.add(&request?);
        }
        let mut second = std::mem::take(&mut first.groups).map(|_, group| {
            let middle = Middle::new(&group);
            (group, middle)
        });
        for request in source(Needs::Times)? {
            let request = request?;
            if Standing::of(&request) == Standing::Counted
                && let Some((group, middle)) = second.get_mut(&request.root().name)
            {
                middle.add(group, &request);
            }
        }
        Ok(Self::finish(first, second))
    }

    /// [`Summary::read`] of requests that cannot fail to be read.
    pub fn new<I: Iterator<Item = Request>>(mut source: impl FnMut() -> I) -> Self {
        match Self::read(|_| Ok::<_, Infallible>(source().map(Ok))) {
            Ok(summary) => summary,
            Err(never) => match never {},
        }
    }

    fn finish(first: Tally, second: ByName<(GroupTally, Middle)>) -> Self {
        let mut groups = Vec::new();
        let kinds = second.map(|name, (tally, middle)| {
            let order = tally.tree.order();
            let mut quantiles: Vec<Quantiles> =
                tally.rows.iter().map(|row| row.durations.quantiles()).collect();
            quantiles[ROOT] = tally.latency.quantiles();
            let typical = middle.finish(&order, quantiles);
            groups.push(Group::new(name.clone(), &tally, &typical, &order));
            RequestKind { tree: tally.tree, typical }
        });
        groups.sort_by(|a, b| b.latency.sum_ns.cmp(&a.latency.sum_ns).then_with(|| a.name.cmp(&b.name)));
        let Tally { left_out, processes, processes_seen, .. } = first;
        let threads = ThreadGroups::default();
        Self { groups, left_out, processes, processes_seen, threads, kinds }
    }

    /// Reads what threads did, in any order.
    ///
    /// # Errors
    /// The first error of the reading.
    pub fn add_threads<E>(&mut self, threads: impl Iterator<Item = Result<Thread, E>>) -> Result<(), E> {
        self.threads = ThreadGroups::read(threads)?;
        Ok(())
    }

    /// Makes each request stand for so many in the throughput, where a part of them was chosen.
    pub fn weigh(&mut self, weight: f64) {
        self.groups.iter_mut().for_each(|group| group.throughput_per_s *= weight);
    }

    /// Requests that statistics rest on.
    pub fn requests(&self) -> u64 {
        self.groups.iter().map(|group| group.latency.count).sum()
    }

    /// Values of the columns `cause` and `tail` for each phase of a request, in their order: the request
    /// among those of its name, each phase among those of its place. Nothing for what statistics leave out.
    pub fn verdicts(&self, request: &Request) -> Vec<TailVerdict> {
        let nothing = vec![TailVerdict::default(); request.phases.len()];
        if Standing::of(request) != Standing::Counted {
            return nothing;
        }
        let Some(kind) = self.kinds.get(&request.root().name) else { return nothing };
        let located = kind.tree.locate(request);
        let judge = |(index, &place): (usize, &PlaceId)| {
            let Some(standard) = kind.typical.standard(place) else { return TailVerdict::default() };
            let phase = &request.phases[index];
            match index {
                0 => standard.judge_request(latency_ns(request), &request_split(request)),
                _ => standard.judge(phase.duration_ns, &Split::of(phase)),
            }
        };
        located.places.iter().enumerate().map(judge).collect()
    }
}

impl Group {
    fn new(name: Untrusted, tally: &GroupTally, typical: &Typical, order: &[PlaceId]) -> Self {
        let latency = tally.latency.quantiles();
        let slowest: Vec<Slow> =
            tally.slowest.iter().map(|slow| slow_one(slow, &tally.tree, typical)).collect();
        let wall_ns = tally.last_end_ns.saturating_sub(tally.first_start_ns).max(1);
        Self {
            name,
            latency,
            throughput_per_s: latency.count as f64 * 1e9 / wall_ns as f64,
            sums: tally.sums,
            counts: tally.counts,
            helped: tally.helped,
            typical_ns: typical.latency_ns,
            typical_of: typical.requests,
            rows: rows(tally, latency.sum_ns, order),
            headline: Headline::of(latency.count, typical.latency_ns, &slowest),
            slowest,
            overlapping: tally.overlapping,
            lossy: tally.lossy,
        }
    }
}

fn rows(tally: &GroupTally, latency_sum_ns: u128, order: &[PlaceId]) -> Vec<Row> {
    let row = |place: PlaceId, kind: RowKind| {
        let (known, sums) = (tally.tree.place(place), &tally.rows[place]);
        let duration = sums.durations.quantiles();
        let share = duration.sum_ns as f64 / latency_sum_ns.max(1) as f64;
        let path = tally.tree.path(place);
        Row { kind, path, depth: known.depth, duration, share, sums: sums.sums, counts: sums.counts }
    };
    let mut rows: Vec<Row> = Vec::with_capacity(order.len() + 1);
    for &place in order {
        let kind = match (tally.tree.place(place).is_queue, place == OTHER) {
            (true, _) => RowKind::Queue,
            (false, true) => RowKind::Other,
            (false, false) => RowKind::Phase,
        };
        rows.extend(Some(row(place, kind)).filter(|row| row.duration.count > 0));
    }
    let mut outside = row(ROOT, RowKind::Outside);
    outside.counts = tally.counts;
    for inside in rows.iter().filter(|row| row.depth == 0) {
        for (left, taken) in outside.counts.iter_mut().zip(inside.counts) {
            *left = left.saturating_sub(taken);
        }
    }
    rows.push(outside);
    rows
}

/// Excess of a request over the typical one by place and cause, without zeros. Adds up to the whole excess.
pub(super) fn excesses(
    own: &HashMap<PlaceId, Split>,
    typical: &Typical,
) -> impl Iterator<Item = (PlaceId, Cause, i64)> {
    let nothing = Split::default();
    let parts = typical.places().flat_map(move |(place, usual, shares)| {
        let own = own.get(&place).unwrap_or(&nothing);
        own.excess(&usual, shares).map(move |(cause, excess_ns)| (place, cause, excess_ns))
    });
    parts.filter(|&(_, _, excess_ns)| excess_ns != 0)
}

fn slow_one(slow: &Candidate, tree: &Tree, typical: &Typical) -> Slow {
    let part = |(place, cause, excess_ns)| Excess { path: tree.path(place), cause, excess_ns };
    let mut parts: Vec<Excess> = excesses(&slow.own, typical).map(part).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.excess_ns));
    Slow {
        id: slow.id,
        request: slow.request,
        trace_id: slow.trace_id,
        thread: slow.thread,
        start_ns: slow.start_ns,
        duration_ns: slow.duration_ns,
        fault_minor: slow.fault_minor,
        latency_ns: slow.latency_ns,
        excess_ns: slow.latency_ns as i64 - typical.latency_ns as i64,
        parts,
        given_to: None,
        longest_wait: None,
        waits_like_it: LikeIt::default(),
        holder: slow.holder.clone(),
    }
}
