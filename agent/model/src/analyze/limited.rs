//! Which limits explain what requests lost their time to.
//!
//! Yields [`Limited`]: a cause, and a limit that was hit while requests lost time to it, by as much as that
//! loss needs. A limit that was not hit then explains nothing, however tight it is.

use guestscope_contract::{Account, SAMPLES_PER_S};

use super::{
    cause::{Cause, Overlay},
    headline::Headline,
    slow::Slow,
    summary::Group,
};
use crate::{
    limits::{Kind, Limit},
    phase::{KEPT, Metric},
};

/// Limits told of a group of requests.
const MOST: usize = 2;
/// Share of the mean latency, or of an excess, from which on a cause is looked at that no headline names.
const MUCH: f64 = 0.1;
/// A group that is short of memory takes some 20 us for each attempt to free a few pages: below one in this
/// time it is not what costs the time, ns.
const PER_HIT_NS: f64 = 1e6;
/// Share of the time in question for which an I/O limit was reached, another CPU was idle, or a graphics
/// processor was with others or lost to its clocks.
const ENOUGH: f64 = 0.25;

/// What can be behind waits for a graphics processor.
const OF_GPUS: &[Kind] = &[Kind::GpuShared, Kind::GpuClock];

/// A request, and the time in it that is to be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its start: CLOCK_MONOTONIC, ns.
    pub begin_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// The time in question, ns.
    pub ns: u64,
    /// Its waits for a device whose I/O a limit of the thread's control group had held back, ns.
    pub held_ns: u64,
}

/// A cause, and a limit that explains it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limited<'a> {
    /// The cause.
    pub cause: Cause,
    /// The limit.
    pub limit: &'a Limit,
    /// The part of the CPU time meanwhile that threads of the run had, 0 to 1: it is known by these, which
    /// were in each other's way, and not by idle CPUs.
    pub crowded: Option<f64>,
}

/// Limits that explain the causes of slow requests, or a large part of all of them; most important first,
/// each once.
pub fn limited<'a>(group: &Group, limits: &'a [Limit]) -> Vec<Limited<'a>> {
    let of_slow = |cause: Cause| {
        let slow = group.slowest.iter().filter(|slow| slow.excess_by(cause) > 0);
        let span = |slow: &Slow| Span {
            begin_ns: slow.start_ns,
            end_ns: slow.start_ns.saturating_add(slow.latency_ns),
            ns: slow.excess_by(cause).unsigned_abs(),
            held_ns: held_ns(slow, cause),
        };
        explaining(cause, &slow.map(span).collect::<Vec<_>>(), limits)
    };
    let mut found: Vec<Limited<'a>> = causes_of(&group.headline).into_iter().flat_map(of_slow).collect();
    if !matches!(group.headline, Headline::TooFew { .. } | Headline::Alike { .. }) {
        let excess_ns = group.slowest.iter().map(|slow| slow.excess_ns).sum();
        found.extend(behind_others(|account| blamed(group, account), excess_ns, limits));
    }
    found.extend(large_parts(group).into_iter().flat_map(|(cause, ns)| explaining_all(cause, ns, limits)));
    let mut kept = each_once(found);
    kept.truncate(MOST);
    kept
}

/// The same, each limit once, with the first of its causes.
pub fn each_once(found: Vec<Limited<'_>>) -> Vec<Limited<'_>> {
    let mut kept: Vec<Limited<'_>> = Vec::new();
    for one in found {
        if kept.iter().all(|known| !std::ptr::eq(known.limit, one.limit)) {
            kept.push(one);
        }
    }
    kept
}

/// Limits that explain the time that these requests lost to a cause, those of the kind that fits best first.
pub fn explaining<'a>(cause: Cause, spans: &[Span], limits: &'a [Limit]) -> Vec<Limited<'a>> {
    let all_ns: f64 = spans.iter().map(|span| span.ns as f64).sum();
    // Requests that run at the same time count with all of the amount each, and so does what each lost.
    let length_ns: f64 = spans.iter().map(|span| span.end_ns.saturating_sub(span.begin_ns) as f64).sum();
    let sum = |line: &crate::limits::Timeline, usual: f64| -> f64 {
        let all: f64 = spans.iter().map(|span| line.between(span.begin_ns, span.end_ns)).sum();
        (all - usual * length_ns).max(0.0)
    };
    let held_ns: f64 = spans.iter().map(|span| span.held_ns as f64).sum();
    // Which one of several limits held an I/O back is not known.
    let is_only = limits.iter().filter(|limit| limit.kind == Kind::Io).count() == 1;
    let has_held = is_only && held_ns > 0.0 && held_ns >= all_ns * ENOUGH;
    chosen(cause, limits, |limit| {
        limit.kind == Kind::Io && has_held
            || is_enough(
                cause,
                limit.kind,
                all_ns,
                [sum(&limit.when, limit.usual()), sum(&limit.when_refaults, 0.0)],
            )
    })
}

/// Time of the longest wait of a slow request, if a limit had held its I/O back, ns.
fn held_ns(slow: &Slow, cause: Cause) -> u64 {
    let longest = slow.longest_wait.as_ref().filter(|wait| Cause::Account(wait.account) == cause);
    longest.filter(|wait| wait.io.as_ref().is_some_and(|io| io.is_held)).map_or(0, |wait| wait.blocked_ns)
}

/// Limits that explain why threads were late that requests waited for. `spans` tells for how long such
/// threads were kept from running in an account during each request; `excess_ns` is that of these requests.
pub fn behind_others(
    spans: impl Fn(Account) -> Vec<Span>,
    excess_ns: i64,
    limits: &[Limit],
) -> Vec<Limited<'_>> {
    let of = |account: Account| {
        let spans = spans(account);
        let ns: f64 = spans.iter().map(|span| span.ns as f64).sum();
        let is_much = ns > 0.0 && ns >= excess_ns.max(0) as f64 * MUCH;
        if is_much { explaining(Cause::Helper(account), &spans, limits) } else { Vec::new() }
    };
    KEPT.into_iter().flat_map(of).collect()
}

/// Slow requests whose longest wait was for a thread that was kept from running in this account.
fn blamed(group: &Group, account: Account) -> Vec<Span> {
    let span = |slow: &Slow| {
        let blame = slow.longest_wait.as_ref()?.blame.filter(|blame| blame.account == account)?;
        let end_ns = slow.start_ns.saturating_add(slow.latency_ns);
        Some(Span { begin_ns: slow.start_ns, end_ns, ns: blame.ns, held_ns: 0 })
    };
    group.slowest.iter().filter_map(span).collect()
}

/// Limits that explain the time that all requests of a run lost to a cause.
pub(super) fn explaining_all(cause: Cause, ns: u128, limits: &[Limit]) -> Vec<Limited<'_>> {
    let sum = |amounts: &[u64]| amounts.iter().map(|&amount| amount as f64).sum::<f64>();
    chosen(cause, limits, |limit| {
        // Requests at the same time all wait for one device: its time is compared with the run's.
        if limit.kind.is_of_gpu() {
            return limit.usual() >= ENOUGH;
        }
        let amounts = [sum(&limit.when.amounts), sum(&limit.when_refaults.amounts)];
        is_enough(cause, limit.kind, ns as f64, amounts)
    })
}

fn chosen(cause: Cause, limits: &[Limit], is_it: impl Fn(&Limit) -> bool) -> Vec<Limited<'_>> {
    let mut found = Vec::new();
    for &kind in concerned(cause) {
        let mut of_kind: Vec<&Limit> =
            limits.iter().filter(|limit| limit.kind == kind && is_it(limit)).collect();
        of_kind.sort_by_key(|limit| std::cmp::Reverse((limit.hits, limit.hit_ns)));
        found.extend(of_kind.into_iter().map(|limit| Limited { cause, limit, crowded: None }));
    }
    found
}

/// Whether a limit was hit by as much as the time in question needs; `hits` and `refaults` as in
/// [`Limit::when`] and [`Limit::when_refaults`].
fn is_enough(cause: Cause, kind: Kind, ns: f64, [hits, refaults]: [f64; 2]) -> bool {
    let is_waiting = !matches!(cause, Cause::Overlay(_));
    ns > 0.0
        && match kind {
            // Time on the CPU is that of freeing pages; time of waiting is that of reading them again.
            Kind::Memory => {
                hits > 0.0 && (hits >= ns / PER_HIT_NS || is_waiting && refaults >= ns / PER_HIT_NS)
            }
            Kind::Quota => hits > 0.0,
            Kind::Io | Kind::Cpus | Kind::GpuShared | Kind::GpuClock => hits >= ns * ENOUGH,
        }
}

/// Kinds of limits that can be behind a cause.
pub(super) const fn concerned(cause: Cause) -> &'static [Kind] {
    match cause {
        Cause::Account(account) | Cause::Helper(account) => match account {
            Account::Fault => &[Kind::Memory, Kind::Io],
            Account::BlockIo => &[Kind::Io, Kind::Memory],
            Account::Throttled => &[Kind::Quota],
            Account::Runq => &[Kind::Cpus],
            Account::Gpu => OF_GPUS,
            Account::Cpu | Account::Net | Account::Poll | Account::Lock | Account::Sleep | Account::Other => {
                &[]
            }
        },
        // Files that are read, too, are charged to the group.
        Cause::Overlay(Overlay::Fault | Overlay::Syscall) => &[Kind::Memory],
        Cause::InDriver => OF_GPUS,
        Cause::Overlay(Overlay::Spin | Overlay::Irq)
        | Cause::Suspended
        | Cause::Queue
        | Cause::Handoff
        | Cause::Steal
        | Cause::Pause
        | Cause::AddressSpace
        | Cause::Stopped => &[],
    }
}

fn causes_of(headline: &Headline) -> Vec<Cause> {
    match headline {
        Headline::Cause { cause, .. } => vec![*cause],
        Headline::Shared { parts, .. } => parts.iter().map(|&(cause, _)| cause).collect(),
        Headline::Mixed { causes, .. } => causes.iter().map(|&(cause, _)| cause).collect(),
        Headline::TooFew { .. } | Headline::Alike { .. } => Vec::new(),
    }
}

/// Causes with a large part of the mean request, and their sums over all requests, ns.
fn large_parts(group: &Group) -> Vec<(Cause, u128)> {
    let sampled = |overlay: Overlay, metric: Metric| {
        let ns = group.counts[metric as usize] * 1_000_000_000 / u128::from(SAMPLES_PER_S);
        (Cause::Overlay(overlay), ns)
    };
    let mut parts: Vec<(Cause, u128)> =
        Account::ALL.into_iter().map(Cause::Account).map(|cause| (cause, group.sums.get(cause))).collect();
    parts.push((Cause::InDriver, group.sums.in_driver));
    parts.push(sampled(Overlay::Fault, Metric::SampleFault));
    parts.push(sampled(Overlay::Syscall, Metric::SampleSyscall));
    let least = group.latency.sum_ns as f64 * MUCH;
    parts.retain(|&(_, ns)| ns as f64 >= least && ns > 0);
    parts.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    parts
}
