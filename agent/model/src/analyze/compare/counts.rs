//! Events per request: how many more a platform has, and whether a cause has more of them or dearer ones.

use super::{
    causes::{Decomposition, OfCause},
    digest::GroupDigest,
    welch::{Interval, mean},
};
use crate::{
    analyze::cause::{Cause, Overlay},
    phase::Metric,
};
use guestscope_contract::{
    Account,
    metrics::{Class, FilledBy, Unit},
};

/// Events of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct CountChange {
    /// What is counted.
    pub metric: Metric,
    /// Per request of the baseline.
    pub baseline: f64,
    /// Per request of the platform.
    pub value: f64,
    /// The second less the first.
    pub difference: Interval,
}

/// A difference in time as a difference in number and one in price: both add up to it exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The cause.
    pub cause: Cause,
    /// What is counted.
    pub events: &'static [Metric],
    /// Per request of the baseline.
    pub baseline_count: f64,
    /// Per request of the platform.
    pub count: f64,
    /// Time per event in the baseline, ns; the platform's where the baseline has none.
    pub baseline_each_ns: f64,
    /// Time per event on the platform, ns; the baseline's where the platform has none.
    pub each_ns: f64,
    /// Because there are more of them, ns per request.
    pub by_number_ns: f64,
    /// Because each takes longer.
    pub by_price_ns: f64,
}

/// Events in all runs of a side without which its price is chance, as the scatter of ten is a third.
const FEW: f64 = 10.0;

/// Factor: a side with less than one event per request, and this many times fewer than the other, has no
/// sound price.
const RARE: f64 = 100.0;

/// The events that end or make a wait of this kind, where they are counted.
const fn events(cause: Cause) -> &'static [Metric] {
    match cause {
        Cause::Account(Account::Runq) => &[Metric::Wakeup, Metric::SwitchInvoluntary],
        Cause::Account(Account::Throttled) => &[Metric::Throttle],
        Cause::Account(Account::BlockIo) => &[Metric::BlockRead, Metric::BlockWrite],
        Cause::Account(Account::Net) => &[Metric::NetRecv],
        Cause::Account(Account::Fault) => &[Metric::FaultMajor],
        Cause::Overlay(Overlay::Fault) => &[Metric::FaultMinor],
        Cause::Account(
            Account::Cpu | Account::Poll | Account::Lock | Account::Gpu | Account::Sleep | Account::Other,
        )
        | Cause::Suspended
        | Cause::Queue
        | Cause::Handoff
        | Cause::Steal
        | Cause::InDriver
        | Cause::Pause
        | Cause::AddressSpace
        | Cause::Stopped
        | Cause::Helper(_)
        | Cause::Overlay(Overlay::Spin | Overlay::Syscall | Overlay::Irq) => &[],
    }
}

/// Smallest change of a count that is reported, as a share of the larger side.
pub(super) const NOTICEABLE: f64 = 0.02;

impl CountChange {
    /// The change as a share of the larger side.
    pub fn relative(&self) -> f64 {
        self.difference.value.abs() / self.baseline.max(self.value)
    }

    /// Whether the change is significant, and large enough to report.
    pub fn is_sure(&self) -> bool {
        self.difference.excludes(0.0) && self.relative() >= NOTICEABLE
    }
}

/// Counts that runs of different fidelity have in common, besides the times `cpu`, `runq` and `other` and
/// their switches. A count that one side lacks would look like a significant difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Whether all runs count wake-ups and migrations.
    pub scheduling: bool,
    /// Whether all runs count page faults.
    pub faults: bool,
}

impl Common {
    const fn has(self, metric: Metric) -> bool {
        match metric.row().filled_by {
            FilledBy::Switches => true,
            FilledBy::Scheduler => self.scheduling,
            FilledBy::Faults => self.faults,
            FilledBy::Throttle
            | FilledBy::Hypervisor
            | FilledBy::Beats
            | FilledBy::Sampler
            | FilledBy::BlockLayer
            | FilledBy::Sockets
            | FilledBy::Driver
            | FilledBy::LongWaits
            | FilledBy::Marks
            | FilledBy::Ledger => false,
        }
    }
}

/// Whether a change of it is reported as one of a number of events. Samples are time.
const fn is_number(metric: Metric) -> bool {
    let row = metric.row();
    matches!((row.class, row.unit), (Class::Count, Unit::Events))
        && !matches!(row.filled_by, FilledBy::Sampler)
}

/// All counts that either platform has, in their usual order, without the times and bytes among them; where
/// fidelities differ, the counts of all of them.
pub(super) fn changes(
    baseline: &[&GroupDigest],
    runs: &[&GroupDigest],
    fold: Option<Common>,
) -> Vec<CountChange> {
    let change = |metric: Metric| {
        let values =
            |runs: &[&GroupDigest]| runs.iter().map(|run| run.counts[metric as usize]).collect::<Vec<f64>>();
        let (first, second) = (values(baseline), values(runs));
        let difference = Interval::between(&first, &second);
        CountChange { metric, baseline: mean(&first), value: mean(&second), difference }
    };
    Metric::ALL
        .into_iter()
        .filter(|&metric| is_number(metric) && fold.is_none_or(|common| common.has(metric)))
        .map(change)
        .filter(|change| change.baseline > 0.0 || change.value > 0.0)
        .collect()
}

/// Number and price of what a cause is made of, if something counts it, in so many requests of the baseline
/// and of the platform. Nothing where a side has some events and fewer than [`FEW`], or where the difference
/// may be none.
pub(super) fn cost(of_cause: &OfCause, changes: &[CountChange], requests: [u64; 2]) -> Option<Cost> {
    let events = events(of_cause.cause);
    let sum = |of: fn(&CountChange) -> f64| -> f64 {
        changes.iter().filter(|change| events.contains(&change.metric)).map(of).sum()
    };
    let (baseline_count, count) = (sum(|change| change.baseline), sum(|change| change.value));
    let value_ns = of_cause.baseline_ns + of_cause.difference_ns.value;
    let is_few = |count: f64, requests: u64| count > 0.0 && count * (requests as f64) < FEW;
    let OfCause { difference_ns: difference, .. } = of_cause;
    let may_be_none = difference.low.is_some() && !difference.excludes(0.0);
    if may_be_none || is_few(baseline_count, requests[0]) || is_few(count, requests[1]) {
        return None;
    }
    // Time without events has another origin, and no price per event.
    let is_uncounted = |ns: f64, count: f64| count <= 0.0 && ns.abs() >= 1.0;
    if events.is_empty()
        || baseline_count + count <= 0.0
        || is_uncounted(of_cause.baseline_ns, baseline_count)
        || is_uncounted(value_ns, count)
    {
        return None;
    }
    let each = |ns: f64, count: f64| if count > 0.0 { ns / count } else { 0.0 };
    let (mut baseline_each_ns, mut each_ns) =
        (each(of_cause.baseline_ns, baseline_count), each(value_ns, count));
    // Events that never happen on one side have no price there: the difference is one of number only.
    if baseline_count <= 0.0 {
        baseline_each_ns = each_ns;
    }
    if count <= 0.0 {
        each_ns = baseline_each_ns;
    }
    // A rare event's price is chance: a sample over one fault in ten requests made it 3 ms.
    let is_rare = |count: f64, other: f64| count < 1.0 && count < other / RARE;
    let price = if is_rare(baseline_count, count) {
        each_ns
    } else if is_rare(count, baseline_count) {
        baseline_each_ns
    } else {
        f64::midpoint(baseline_each_ns, each_ns)
    };
    let is_number = baseline_count <= 0.0 || count <= 0.0;
    let difference_ns = of_cause.difference_ns.value;
    let by_number_ns = if is_number { difference_ns } else { (count - baseline_count) * price };
    let by_price_ns = difference_ns - by_number_ns;
    let cause = of_cause.cause;
    Some(Cost { cause, events, baseline_count, count, baseline_each_ns, each_ns, by_number_ns, by_price_ns })
}

/// The costs of all causes of a difference, in its order.
pub(super) fn costs(decomposition: &Decomposition, changes: &[CountChange], requests: [u64; 2]) -> Vec<Cost> {
    decomposition.causes.iter().filter_map(|of_cause| cost(of_cause, changes, requests)).collect()
}
