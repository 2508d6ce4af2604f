//! Single requests to show: the slowest of a run, and the one nearest to a given latency.
//!
//! Yields [`Picked`]; the same requests are left out as in a digest.

use std::cmp::Ordering;

use crate::untrusted::Untrusted;
use crate::{
    analyze::{tally::Standing, tree},
    phase::{Phase, PhaseKind, Request},
};

/// Requests of one run, or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picked {
    /// The request nearest to the latency asked for.
    pub typical: Option<Request>,
    /// The slowest first.
    pub slowest: Vec<Request>,
    /// Phases of the picked requests that are not kept.
    pub phases_left_out: u64,
}

/// Which requests to pick.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// Name of the outermost phase.
    pub name: Untrusted,
    /// Number of requests of that name at the start that do not count.
    pub warmup: u64,
    /// The latency to be near to, ns.
    pub typical_ns: u64,
    /// Number of the slowest requests to pick.
    pub slowest: usize,
    /// The run has no requests: processes are used instead.
    pub is_process: bool,
    /// Phases of a request that are kept, the outermost one and the longest.
    pub most_phases: usize,
}

/// Time from arrival to end: queue and duration of the outermost phase, ns.
pub fn latency_ns(request: &Request) -> u64 {
    tree::latency_ns(request)
}

/// Readings taken at intervals come at most this long after the end of a request, ns.
const AFTER_NS: u64 = 1_000_000_000;

/// Whether a reading at this time may concern a request: from its arrival to the first reading after its end.
pub fn is_told_by(request: &Request, time_ns: u64) -> bool {
    let root = request.root();
    let end_ns = root.start_ns.saturating_add(root.duration_ns);
    (end_ns.saturating_sub(latency_ns(request))..=end_ns.saturating_add(AFTER_NS)).contains(&time_ns)
}

impl Picked {
    /// Whether a reading at this time may concern any of the picked requests.
    pub fn is_told_by(&self, time_ns: u64) -> bool {
        self.slowest.iter().chain(&self.typical).any(|request| is_told_by(request, time_ns))
    }

    /// Reads a run.
    ///
    /// # Errors
    /// The first error of the reading.
    pub fn read<E>(requests: impl Iterator<Item = Result<Request, E>>, pick: &Pick) -> Result<Self, E> {
        let mut picked = Self::default();
        let mut seen = 0;
        for request in requests {
            let request = request?;
            let counts = match Standing::of(&request) {
                Standing::Counted => !pick.is_process,
                Standing::Process => pick.is_process,
                Standing::Warmup | Standing::Unfinished | Standing::Damaged => false,
            };
            if counts && request.root().name == pick.name {
                seen += 1;
                if seen > pick.warmup {
                    picked.add(request, pick);
                }
            }
        }
        Ok(picked)
    }

    fn add(&mut self, request: Request, pick: &Pick) {
        let latency = latency_ns(&request);
        let mut request = request;
        let distance = |request: &Request| latency_ns(request).abs_diff(pick.typical_ns);
        let is_typical = self.typical.as_ref().is_none_or(|known| distance(&request) < distance(known));
        let at = self.slowest.partition_point(|known| latency_ns(known) >= latency);
        if is_typical || at < pick.slowest {
            self.phases_left_out += shorten(&mut request, pick.most_phases);
        }
        if is_typical {
            self.typical = Some(request.clone());
        }
        if at < pick.slowest {
            self.slowest.insert(at, request);
            self.slowest.truncate(pick.slowest);
        }
    }
}

/// Keeps the outermost phase, queues, and the longest others, in their order; how many go.
fn shorten(request: &mut Request, most: usize) -> u64 {
    let before = request.phases.len();
    if before <= most {
        return 0;
    }
    let rank = |phase: &Phase| (phase.parent.is_none(), phase.kind == PhaseKind::Queue, phase.duration_ns);
    let mut ranks: Vec<_> = request.phases.iter().map(rank).collect();
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    let least = ranks.get(most.saturating_sub(1)).copied().unwrap_or_default();
    let mut ties = ranks.iter().take(most).filter(|one| **one == least).count();
    request.phases.retain(|phase| match rank(phase).cmp(&least) {
        Ordering::Greater => true,
        Ordering::Equal => {
            let is_kept = ties > 0;
            ties -= usize::from(is_kept);
            is_kept
        }
        Ordering::Less => false,
    });
    request.phases.shrink_to_fit();
    (before - request.phases.len()) as u64
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use guestscope_contract::Account;

    use super::{Pick, Picked, latency_ns};
    use crate::analyze::samples::{Sample, Step};

    proptest! {
        #[test]
        fn they_are_what_sorting_gives(latencies in prop::collection::vec(1_u64..1_000, 1..60), warmup in 0_u64..5) {
            let steps = |ns: u64| vec![Step::Spend(Account::Cpu, ns)];
            let requests: Vec<_> =
                (0..).zip(&latencies).map(|(number, &ns)| Sample::new(number, number * 2_000, steps(ns)).build()).collect();
            let name = requests[0].root().name.clone();
            let pick = Pick { name, warmup, typical_ns: 500, slowest: 3, is_process: false, most_phases: 10 };
            let Ok(picked) = Picked::read(requests.into_iter().map(Ok::<_, Infallible>), &pick);
            let counted = latencies.get(warmup as usize..).unwrap_or_default();
            let mut sorted = counted.to_vec();
            sorted.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
            sorted.truncate(3);
            prop_assert_eq!(picked.slowest.iter().map(latency_ns).collect::<Vec<_>>(), sorted);
            let nearest = counted.iter().map(|ns| ns.abs_diff(500)).min();
            prop_assert_eq!(picked.typical.map(|one| latency_ns(&one).abs_diff(500)), nearest);
        }
    }
}
