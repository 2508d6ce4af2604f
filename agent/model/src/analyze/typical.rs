//! Second reading of a run: the parts of the typical request, in whole nanoseconds.
//!
//! Yields [`Typical`]: the mean over the middle half, rounded so that the parts add up exactly. It needs only
//! sums: the first reading has determined which requests are in the middle half.

use guestscope_contract::Account;

use crate::phase::Request;

use super::{
    cause::{CAUSES, Cause, Overlay},
    quantiles::{Band, MiddleHalf, Quantiles},
    split::{DEVIATIONS, SAMPLE_NS, Shares, Split, Sums},
    tally::{GroupTally, request_split},
    tree::{Leaves, OTHER, PlaceId, ROOT, Tree, latency_ns},
    verdict::TailVerdict,
};

/// Sums over the middle half of one place.
#[derive(Clone, Debug, Default)]
struct MiddleSums {
    half: MiddleHalf,
    count: u64,
    sums: Sums,
}

impl MiddleSums {
    fn new(half: MiddleHalf) -> Self {
        Self { half, ..Self::default() }
    }

    fn add(&mut self, duration_ns: u64, split: impl FnOnce() -> Split) -> bool {
        let inside = self.half.contains(duration_ns);
        if inside {
            self.count += 1;
            self.sums.add(&split());
        }
        inside
    }
}

/// The second reading of one kind of requests.
#[derive(Clone, Debug)]
pub(super) struct Middle {
    /// Sums by place; the root's are those of whole requests.
    places: Vec<MiddleSums>,
    /// Own time by place over the requests in the middle half.
    own: Vec<Sums>,
    /// Latency above which requests are slow, if there are enough.
    slow_above_ns: Option<u64>,
    /// Number of slow requests.
    slow: u64,
    /// Their own time by place.
    own_slow: Vec<Sums>,
}

impl Middle {
    pub(super) fn new(first: &GroupTally) -> Self {
        let mut places: Vec<MiddleSums> =
            first.rows.iter().map(|row| MiddleSums::new(row.durations.middle_half())).collect();
        places[ROOT] = MiddleSums::new(first.latency.middle_half());
        let own = vec![Sums::default(); places.len()];
        let slow_above_ns = first.latency.quantiles().p90_ns;
        Self { own_slow: own.clone(), own, places, slow_above_ns, slow: 0 }
    }

    pub(super) fn add(&mut self, first: &GroupTally, request: &Request) {
        let located = first.tree.locate(request);
        for (phase, &place) in request.phases.iter().zip(&located.places).skip(1) {
            self.places[place].add(phase.duration_ns, || Split::of(phase));
        }
        let latency_ns = latency_ns(request);
        let is_middle = self.places[ROOT].add(latency_ns, || request_split(request));
        let is_slow = self.slow_above_ns.is_some_and(|above_ns| latency_ns > above_ns);
        self.slow += u64::from(is_slow);
        if is_middle || is_slow {
            let sums = if is_middle { &mut self.own } else { &mut self.own_slow };
            for (place, split) in Leaves::of(request, &located).own {
                sums[place].add(&split);
            }
        }
    }

    /// `order` is that of the rows: it places leftover nanoseconds, so that reading order cannot.
    pub(super) fn finish(&self, order: &[PlaceId], quantiles: Vec<Quantiles>) -> Typical {
        let requests = self.places[ROOT].count;
        let own_order: Vec<PlaceId> = order.iter().copied().chain([ROOT]).collect();
        let flat: Vec<u128> =
            own_order.iter().flat_map(|&place| self.own[place].into_time().map(|(_, ns)| ns)).collect();
        let means = exact_means(&flat, requests);
        let split = |(means, &place): (&[u64], &PlaceId)| {
            self.own[place].means(requests).with_time(means.iter().copied())
        };
        let means: Vec<Split> = means.chunks_exact(CAUSES).zip(&own_order).map(split).collect();
        let own: Vec<(PlaceId, Split)> = own_order.into_iter().zip(means).collect();
        let mut whole = Split::default();
        for (_, split) in &own {
            whole.add(split);
        }
        let mean = |place: &MiddleSums| {
            let times: Vec<u128> = place.sums.time().map(|(_, ns)| ns).collect();
            place.sums.means(place.count).with_time(exact_means(&times, place.count))
        };
        let mut by_place: Vec<Split> = self.places.iter().map(mean).collect();
        by_place[ROOT] = whole;
        let standards =
            quantiles.into_iter().zip(by_place).map(|(quantiles, typical)| Standard { quantiles, typical });
        let half = self.places[ROOT].half;
        let shares = own.iter().map(|&(place, _)| self.shares(place)).collect();
        Typical {
            shares,
            requests,
            latency_ns: whole.total_ns() as u64,
            half,
            own,
            standards: standards.collect(),
        }
    }
}

impl Middle {
    /// How much of the CPU time that the slow requests have more than typical ones the samples of all of them
    /// together attribute. The sum of many small numbers of samples tells more than each of them.
    fn shares(&self, place: PlaceId) -> Shares {
        let (slow, usual) = (&self.own_slow[place], &self.own[place]);
        let of_one = 1.0 / self.places[ROOT].count.max(1) as f64;
        let times = self.slow as f64 * of_one;
        // Nothing is sampled in stolen time, and inside drivers.
        let cpu = |sums: &Sums| {
            sums.get(Cause::Account(Account::Cpu)) as f64 - sums.steal as f64 - sums.in_driver as f64
        };
        let more_ns = cpu(slow) - cpu(usual) * times;
        let share = |overlay: Overlay| {
            let samples = |sums: &Sums| sums.sampled[overlay as usize] as f64 / SAMPLE_NS as f64;
            let more = samples(slow) - samples(usual) * times;
            // The typical requests scatter as well.
            let apart = DEVIATIONS * (samples(slow) + samples(usual) * times * times).sqrt();
            if more > apart && more_ns > 0.0 { more * SAMPLE_NS as f64 / more_ns } else { 0.0 }
        };
        let shares = Overlay::ALL.map(share);
        let all: f64 = shares.iter().sum();
        shares.map(|share| share / all.max(1.0))
    }
}

/// Means of parts in whole numbers, whose sum is the mean of the sum, rounded down: each is rounded down, and
/// the rest goes to those with the largest remainders, the first ones among equals.
pub(super) fn exact_means(sums: &[u128], count: u64) -> Vec<u64> {
    let count = u128::from(count.max(1));
    let mut means: Vec<u64> = sums.iter().map(|sum| (sum / count) as u64).collect();
    let left_over = sums.iter().map(|sum| sum % count).sum::<u128>() / count;
    let mut by_remainder: Vec<usize> = (0..sums.len()).collect();
    by_remainder.sort_by_key(|&index| std::cmp::Reverse(sums[index] % count));
    for &index in by_remainder.iter().take(left_over as usize) {
        means[index] += 1;
    }
    means
}

/// A request that takes so many times as long as the typical one is slow, however many are.
const SLOW_TIMES: u128 = 2;

/// What one place is measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Standard {
    pub(super) quantiles: Quantiles,
    pub(super) typical: Split,
}

impl Standard {
    pub(super) fn judge(&self, duration_ns: u64, split: &Split) -> TailVerdict {
        let tail = self.quantiles.band(duration_ns);
        let is_slow = tail.is_some_and(|band| band >= Band::P90);
        TailVerdict { cause: is_slow.then(|| largest_excess(split, &self.typical)).flatten(), tail }
    }

    /// Judges a request, which is slow as well if it takes [`SLOW_TIMES`] as long as the typical one: one
    /// slow request often makes others wait behind it, so that there are more than a tenth.
    pub(super) fn judge_request(&self, latency_ns: u64, split: &Split) -> TailVerdict {
        let verdict = self.judge(latency_ns, split);
        let is_long = u128::from(latency_ns) >= SLOW_TIMES * self.typical.total_ns();
        if self.quantiles.p90_ns.is_none() || verdict.cause.is_some() || !is_long {
            return verdict;
        }
        TailVerdict { cause: largest_excess(split, &self.typical), ..verdict }
    }
}

fn largest_excess(split: &Split, typical: &Split) -> Option<Cause> {
    let excesses = split.excess(typical, &Shares::default()).map(|(cause, excess)| (excess, cause));
    let (excess, cause) = excesses.max_by_key(|&(excess, cause)| (excess, std::cmp::Reverse(cause)))?;
    (excess > 0).then_some(cause)
}

/// Requests of one name, after both readings.
#[derive(Clone, Debug)]
pub(super) struct RequestKind {
    /// Their phases.
    pub(super) tree: Tree,
    pub(super) typical: Typical,
}

/// The typical request of one kind.
#[derive(Clone, Debug)]
pub(super) struct Typical {
    /// Requests in the middle half.
    pub(super) requests: u64,
    pub(super) latency_ns: u64,
    /// Latencies of those.
    pub(super) half: MiddleHalf,
    /// Own time by place, in the order of the rows, what lies outside phases last. Adds up to `latency_ns`.
    pub(super) own: Vec<(PlaceId, Split)>,
    /// What slow requests together have of an excess of CPU time, in the order of `own`.
    shares: Vec<Shares>,
    /// Values by place; the root's are those of whole requests.
    standards: Vec<Standard>,
}

impl Typical {
    /// Each place with its own time, and what slow requests together have of an excess of CPU time there.
    pub(super) fn places(&self) -> impl Iterator<Item = (PlaceId, Split, &Shares)> {
        self.own.iter().zip(&self.shares).map(|(&(place, split), shares)| (place, split, shares))
    }

    /// A place that the run never had, or one that stands for many names, is measured by nothing.
    pub(super) fn standard(&self, place: PlaceId) -> Option<&Standard> {
        self.standards.get(place).filter(|_| place != OTHER)
    }
}
