//! Who came when to the calls of one collective, and what that shows.

use std::cmp::Reverse;

use super::{
    findings::{
        Arrival, COLLECTIVES, Collective, LEAST_CALLS, LEAST_NS, MUCH, OFTEN, Observed, Terms, Verdict,
    },
    matching::{List, between_ns, matched, median},
    process::{Call, Process},
};

/// What is concluded of the collective at this place of [`COLLECTIVES`]; none if less than two processes
/// called it.
pub(super) fn judged(name: usize, processes: &[Process], terms: &Terms) -> Option<Collective> {
    let lists: Vec<List<'_>> =
        processes.iter().enumerate().filter_map(|(rank, process)| list(name, rank, process, terms)).collect();
    if lists.len() < 2 {
        return None;
    }
    let all: u64 = lists.iter().map(|list| list.calls.len() as u64).sum();
    let longest = lists.iter().map(|list| list.calls).max_by_key(|calls| calls.len()).unwrap_or_default();
    let between_ns = between_ns(longest);
    let nothing = |verdict: Verdict, calls: usize| Collective {
        name: COLLECTIVES[name],
        calls: calls as u64,
        unmatched: all - (calls * lists.len()) as u64,
        between_ns,
        arrivals: Vec::new(),
        verdict,
    };
    if lists.iter().any(|list| list.calls.len() < LEAST_CALLS) {
        return Some(nothing(Verdict::TooFew, 0));
    }
    let apart_ns = apart_ns(&lists, processes, terms);
    let matched = match matched(&lists, apart_ns) {
        Ok(matched) => matched,
        Err((rank, mismatch)) => return Some(nothing(Verdict::Unmatched(rank, mismatch), 0)),
    };
    let calls = matched.calls.first().map_or(0, |calls| calls.len());
    if calls < LEAST_CALLS {
        return Some(nothing(Verdict::TooFew, calls));
    }
    let ranks: Vec<usize> = lists.iter().map(|list| list.rank).collect();
    let arrivals = arrivals(&ranks, &matched.calls);
    let verdict = verdict(&arrivals, calls, between_ns, apart_ns);
    let mut collective = Collective { arrivals, ..nothing(verdict, calls) };
    if let Verdict::Late(rank) = verdict
        && !matched.is_certain
    {
        let margin_ns = collective.arrival(rank).map_or(0, |one| one.margin_ns);
        if !is_late_in_its_step(name, rank, margin_ns, &lists, processes) {
            collective.verdict = Verdict::Ambiguous(rank);
        }
    }
    Some(collective)
}

/// The calls of a process; none if it made none.
fn list<'a>(name: usize, rank: usize, process: &'a Process, terms: &Terms) -> Option<List<'a>> {
    let calls = Some(process.calls[name].as_slice()).filter(|calls| !calls.is_empty())?;
    let folder = process.folder();
    let Observed { is_from_start, is_whole, .. } = terms.of(process);
    Some(List { rank, folder, calls, is_from_start, is_from_first: process.is_from_first(), is_whole })
}

/// How far the clocks of these processes can be apart, ns: not at all if it is one.
fn apart_ns(lists: &[List<'_>], processes: &[Process], terms: &Terms) -> u64 {
    let mut clocks = lists.iter().filter_map(|list| processes.get(list.rank)).map(|one| terms.of(one).clock);
    let first = clocks.next();
    if clocks.all(|clock| Some(clock) == first) { 0 } else { terms.apart_ns }
}

/// Whether one of them is late, if calls belong together as they were put.
fn verdict(arrivals: &[Arrival], calls: usize, between_ns: u64, apart_ns: u64) -> Verdict {
    let often = |one: &&Arrival| one.last as f64 >= calls as f64 * OFTEN;
    let Some(one) = arrivals.iter().find(often) else { return Verdict::Even };
    let margin_ns = u64::try_from(one.margin_ns).unwrap_or(0);
    if margin_ns < LEAST_NS || (margin_ns as f64) < between_ns as f64 * MUCH {
        Verdict::Little(one.rank)
    } else if margin_ns <= apart_ns {
        Verdict::WithinClocks(one.rank)
    } else {
        Verdict::Late(one.rank)
    }
}

/// Whether this process takes longer than each of the others from the begin of a step to its call, in the
/// mean, by half of its lateness and more. A fast process that is early for the next call does not.
fn is_late_in_its_step(
    name: usize,
    rank: usize,
    margin_ns: i64,
    lists: &[List<'_>],
    processes: &[Process],
) -> bool {
    let before_call = |rank: usize| processes.get(rank)?.before_call_ns(name);
    let least_ns = u128::from(margin_ns.unsigned_abs() / 2);
    let Some(own) = before_call(rank).and_then(|own_ns| own_ns.checked_sub(least_ns)) else { return false };
    let mut others = lists.iter().map(|list| list.rank).filter(|other| *other != rank);
    others.all(|other| before_call(other).is_some_and(|other_ns| other_ns < own))
}

/// Who came when to one call, ns.
struct Come {
    latest: i64,
    /// The latest but one.
    next: i64,
    /// All of them, added up.
    sum: i128,
}

impl Come {
    fn to(call: usize, lists: &[&[Call]]) -> Self {
        let mut come = Self { latest: i64::MIN, next: i64::MIN, sum: 0 };
        for ns in lists.iter().map(|list| list[call].start_ns) {
            come.sum += i128::from(ns);
            if ns > come.latest {
                come.next = std::mem::replace(&mut come.latest, ns);
            } else {
                come.next = come.next.max(ns);
            }
        }
        come
    }

    /// How much later than the latest of the others, ns.
    fn margin_ns(&self, own_ns: i64) -> i64 {
        own_ns.saturating_sub(if own_ns == self.latest { self.next } else { self.latest })
    }
}

/// How each came to these calls, which are equally many of each.
fn arrivals(ranks: &[usize], lists: &[&[Call]]) -> Vec<Arrival> {
    let calls = lists.first().map_or(0, |calls| calls.len());
    let others = lists.len().saturating_sub(1).max(1) as i128;
    let come: Vec<Come> = (0..calls).map(|call| Come::to(call, lists)).collect();
    let arrival = |(&rank, list): (&usize, &&[Call])| {
        let own = || list.iter().map(|call| call.start_ns).zip(&come);
        let mut margins: Vec<i64> = own().map(|(ns, come)| come.margin_ns(ns)).collect();
        let last = margins.iter().filter(|margin_ns| **margin_ns > 0).count() as u64;
        let late = |(ns, come): (i64, &Come)| i128::from(ns) - (come.sum - i128::from(ns)) / others;
        let late_ns: i128 = own().map(late).sum::<i128>() / calls.max(1) as i128;
        let late_ns = i64::try_from(late_ns).unwrap_or(if late_ns < 0 { i64::MIN } else { i64::MAX });
        Arrival { rank, last, late_ns, margin_ns: median(&mut margins).unwrap_or(0) }
    };
    let mut all: Vec<Arrival> = ranks.iter().zip(lists).map(arrival).collect();
    all.sort_by_key(|one| (Reverse(one.late_ns), one.rank));
    all
}
