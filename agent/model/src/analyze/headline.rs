//! The main reason why the slowest requests were slow, in one finding.
//!
//! Yields a [`Headline`]. It examines the slowest tenth (three to ten requests), and of those only requests
//! whose excess is at least a tenth of the typical latency. A cause dominates a request if it explains at
//! least half of its excess, and is the common cause if it has three quarters of all excess of these
//! requests, or else dominates more than half of them; the other way round where these are but the slowest of
//! the slow tenth. Otherwise either the same causes share the excess of most requests, or the finding is
//! mixed.

use super::{cause::Cause, slow::Slow};
use crate::untrusted::Untrusted;

/// Requests without which nothing is said about the slowest.
pub const ENOUGH_REQUESTS: u64 = 20;
/// An excess below the typical latency divided by this makes no request slow. Whole numbers compare exactly.
const HARDLY_SLOWER: i64 = 10;

/// Part of all excess from which on a cause is the common one, whatever number of requests it dominates:
/// those are far slower than the others then.
const OUTWEIGHS: f64 = 0.75;
/// Part of a request's excess from which on its largest common cause counts as shared with others.
const SHARED: f64 = 0.25;
/// Part of all excess from which on a shared cause is named.
const NAMED: f64 = 0.15;
/// Most shared causes that are named.
const MOST_SHARED: usize = 3;

/// The finding.
#[derive(Clone, Debug, PartialEq)]
pub enum Headline {
    /// Too few requests to speak of slow ones: fewer than [`ENOUGH_REQUESTS`].
    TooFew {
        /// Number of requests in the group.
        requests: u64,
    },
    /// The slowest are hardly slower than a typical request.
    Alike {
        /// Number of examined requests.
        slowest: usize,
        /// Excess of the slowest one as part of the typical latency.
        excess_share: f64,
    },
    /// No cause dominates more than half of the slowest, and the same one has a large part in three of four.
    Shared {
        /// Number of slow requests.
        slowest: usize,
        /// Causes with a large part in the excess of all of them, and their mean parts, ns; largest first.
        parts: Vec<(Cause, i64)>,
        /// Their mean excess, ns.
        excess_ns: i64,
    },
    /// No cause dominates more than half of the slowest, and they have none in common.
    Mixed {
        /// Number of slow requests.
        slowest: usize,
        /// Causes that dominate some, with how many, the most frequent first.
        causes: Vec<(Cause, usize)>,
        /// Number of slow requests without a dominant cause.
        without: usize,
        /// Their mean excess, ns.
        excess_ns: i64,
    },
    /// One cause dominates more than half of the slowest, or outweighs all others.
    Cause {
        /// The cause.
        cause: Cause,
        /// Number of requests that it dominates.
        dominated: usize,
        /// Number of slow requests.
        slowest: usize,
        /// Mean excess of those that it dominates, ns.
        excess_ns: i64,
        /// The cause's part of it, ns.
        of_cause_ns: i64,
        /// The phase with the largest share of that part.
        path: Vec<Untrusted>,
        /// The part of that excess, ns.
        of_path_ns: i64,
    },
}

/// Number of the slowest requests to examine: a tenth of all, at least 3 and at most all that were kept.
fn looked_at(requests: u64, kept: usize) -> usize {
    usize::try_from(requests / 10).unwrap_or(usize::MAX).max(3).min(kept)
}

impl Headline {
    /// `slowest` comes slowest first.
    pub(super) fn of(requests: u64, typical_ns: u64, slowest: &[Slow]) -> Self {
        if requests < ENOUGH_REQUESTS {
            return Headline::TooFew { requests };
        }
        let looked_at = &slowest[..looked_at(requests, slowest.len())];
        let least_ns = typical_ns as i64 / HARDLY_SLOWER;
        let slow = looked_at.iter().take_while(|one| one.excess_ns > 0 && one.excess_ns >= least_ns).count();
        if slow == 0 {
            let excess_ns = looked_at.first().map_or(0, |one| one.excess_ns);
            let excess_share = excess_ns as f64 / typical_ns.max(1) as f64;
            return Headline::Alike { slowest: looked_at.len(), excess_share };
        }
        let slowest = &looked_at[..slow];
        let excess_ns = mean(slowest.iter().map(|slow| slow.excess_ns));
        let causes = frequencies(slowest);
        // What ten of a hundred slow requests have does not outweigh what the others may have.
        let are_all = looked_at.len() as u64 >= requests / 10;
        match common(&causes, slowest, are_all) {
            Some(cause) => Self::one(cause, slowest),
            None => Self::shared(slowest).unwrap_or_else(|| {
                let without = slowest.len() - causes.iter().map(|&(_, count)| count).sum::<usize>();
                Headline::Mixed { slowest: slowest.len(), causes, without, excess_ns }
            }),
        }
    }

    /// The finding if the cause with the largest part in all of these has a large one in most of them.
    pub(super) fn shared(slowest: &[Slow]) -> Option<Self> {
        let excess_ns = mean(slowest.iter().map(|slow| slow.excess_ns));
        let of_all = |cause: Cause| (cause, mean(slowest.iter().map(|slow| slow.excess_by(cause))));
        let mut parts: Vec<(Cause, i64)> = Cause::all().map(of_all).collect();
        parts.retain(|&(_, ns)| ns > 0 && ns as f64 >= excess_ns as f64 * NAMED);
        parts.sort_by_key(|&(cause, ns)| (std::cmp::Reverse(ns), cause));
        parts.truncate(MOST_SHARED);
        let &(largest, _) = parts.first()?;
        let has_much = |slow: &&Slow| slow.excess_by(largest) as f64 >= slow.excess_ns as f64 * SHARED;
        let is_shared = slowest.iter().filter(has_much).count() * 4 >= slowest.len() * 3;
        is_shared.then_some(Headline::Shared { slowest: slowest.len(), parts, excess_ns })
    }

    fn one(cause: Cause, slowest: &[Slow]) -> Self {
        let dominated: Vec<&Slow> = slowest.iter().filter(|slow| slow.dominant() == Some(cause)).collect();
        let mut by_path: Vec<(&[Untrusted], i128)> = Vec::new();
        for part in dominated.iter().flat_map(|slow| &slow.parts).filter(|part| part.cause == cause) {
            match by_path.iter_mut().find(|(path, _)| *path == part.path.as_slice()) {
                Some((_, sum)) => *sum += i128::from(part.excess_ns),
                None => by_path.push((&part.path, i128::from(part.excess_ns))),
            }
        }
        // Among equals the first name, so that the order of requests cannot matter.
        by_path.sort_by(|(path, sum), (other_path, other_sum)| other_sum.cmp(sum).then(path.cmp(other_path)));
        let count = dominated.len() as i128;
        let (path, of_path) = by_path.first().map_or((Vec::new(), 0), |(path, sum)| (path.to_vec(), *sum));
        Headline::Cause {
            cause,
            dominated: dominated.len(),
            slowest: slowest.len(),
            excess_ns: mean(dominated.iter().map(|slow| slow.excess_ns)),
            of_cause_ns: mean(dominated.iter().map(|slow| slow.excess_by(cause))),
            path,
            of_path_ns: (of_path / count.max(1)) as i64,
        }
    }
}

fn mean(values: impl ExactSizeIterator<Item = i64>) -> i64 {
    let count = values.len().max(1) as i128;
    (values.map(i128::from).sum::<i128>() / count) as i64
}

/// The cause that has most of these requests' excess, or the one that dominates more than half of them. The
/// former comes first if these are all slow ones.
fn common(causes: &[(Cause, usize)], slowest: &[Slow], are_all: bool) -> Option<Cause> {
    let all_ns: f64 = slowest.iter().map(|slow| slow.excess_ns as f64).sum();
    let outweighs = |cause: Cause| {
        let of_cause_ns: f64 = slowest.iter().map(|slow| slow.excess_by(cause) as f64).sum();
        of_cause_ns >= all_ns * OUTWEIGHS
    };
    let most = causes.first().filter(|&&(_, dominated)| dominated * 2 > slowest.len());
    let heaviest = causes.iter().find(|&&(cause, _)| outweighs(cause));
    let found = if are_all { heaviest.or(most) } else { most.or(heaviest) };
    found.map(|&(cause, _)| cause)
}

fn frequencies(slowest: &[Slow]) -> Vec<(Cause, usize)> {
    let dominant: Vec<Cause> = slowest.iter().filter_map(Slow::dominant).collect();
    let count_of = |cause: Cause| dominant.iter().filter(|&&other| other == cause).count();
    let mut causes: Vec<(Cause, usize)> =
        Cause::all().map(|cause| (cause, count_of(cause))).filter(|&(_, count)| count > 0).collect();
    causes.sort_by_key(|&(cause, count)| (std::cmp::Reverse(count), cause));
    causes
}
