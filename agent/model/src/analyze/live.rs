//! Judges each request as it ends, while the program still runs, in constant memory.
//!
//! Yields a [`TailVerdict`] per request from the 100th of its name on, and numbers for a progress line. It
//! uses only earlier requests: its verdict may differ from that of [`super::Summary`] at the end of the run.

use crate::phase::Request;
use crate::untrusted::Untrusted;

use super::{
    quantiles::{Durations, MiddleHalf},
    split::{Split, Sums},
    tally::{ByName, Standing, request_split},
    tree::latency_ns,
    typical::{Standard, exact_means},
    verdict::TailVerdict,
};

/// Requests of a name before the first of them is judged.
pub const WARM_REQUESTS: u64 = 100;
/// Quantiles cost some 20 us; they are taken anew after 3 % more requests, and at the latest after this many.
const REFRESH_AT_MOST: u64 = 1024;

/// Progress of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveProgress {
    /// Requests that ended and count.
    pub requests: u64,
    /// Warm-ups that ended.
    pub warmups: u64,
    /// Requests per second between the first start and the last end so far.
    pub rate_per_s: f64,
}

/// Running knowledge of the requests, by name.
#[derive(Clone, Debug, Default)]
pub struct Live {
    kinds: ByName<Kind>,
    requests: u64,
    warmups: u64,
    first_start_ns: Option<u64>,
    last_end_ns: u64,
}

impl Live {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a request, then judges it by those before it. None for requests that statistics leave out, and
    /// before the 100th of its name.
    pub fn observe(&mut self, request: &Request) -> Option<TailVerdict> {
        match Standing::of(request) {
            Standing::Counted => {}
            Standing::Warmup => {
                self.warmups += 1;
                return None;
            }
            Standing::Unfinished | Standing::Damaged | Standing::Process => return None,
        }
        let root = request.root();
        self.requests += 1;
        self.first_start_ns =
            Some(self.first_start_ns.map_or(root.start_ns, |first| first.min(root.start_ns)));
        self.last_end_ns = self.last_end_ns.max(root.start_ns.saturating_add(root.duration_ns));
        let kind = self.kinds.entry(&root.name, |_: &Untrusted| Kind::default());
        kind.observe(latency_ns(request), &request_split(request))
    }

    /// Duration of the typical request of this one's name so far, ns; none before there is one.
    pub fn typical_ns(&self, request: &Request) -> Option<u64> {
        let kind = self.kinds.get(&request.root().name)?;
        let typical_ns = u64::try_from(kind.standard.typical.total_ns()).ok()?;
        (kind.latencies.count() >= WARM_REQUESTS && typical_ns > 0).then_some(typical_ns)
    }

    /// Progress of the run.
    pub fn progress(&self) -> LiveProgress {
        let wall_ns = self.first_start_ns.map_or(0, |first| self.last_end_ns.saturating_sub(first));
        let rate_per_s = if wall_ns == 0 { 0.0 } else { self.requests as f64 * 1e9 / wall_ns as f64 };
        LiveProgress { requests: self.requests, warmups: self.warmups, rate_per_s }
    }
}

/// Requests of one name.
#[derive(Clone, Debug, Default)]
struct Kind {
    latencies: Durations,
    /// Sums over the requests that lay in the middle half when they came.
    middle: Sums,
    middle_count: u64,
    half: MiddleHalf,
    standard: Standard,
    refresh_at: u64,
}

impl Kind {
    fn observe(&mut self, latency_ns: u64, split: &Split) -> Option<TailVerdict> {
        let before = self.latencies.count();
        let verdict = (before + 1 >= WARM_REQUESTS).then(|| self.standard.judge_request(latency_ns, split));
        self.latencies.record(latency_ns);
        // The first few have no middle yet.
        if before < 20 || self.half.contains(latency_ns) {
            self.middle.add(split);
            self.middle_count += 1;
        }
        if before + 1 >= self.refresh_at {
            self.refresh(before + 1);
        }
        verdict
    }

    fn refresh(&mut self, count: u64) {
        self.refresh_at = count + (count / 32).clamp(1, REFRESH_AT_MOST);
        self.half = self.latencies.middle_half();
        let times: Vec<u128> = self.middle.time().map(|(_, ns)| ns).collect();
        let means = exact_means(&times, self.middle_count);
        let typical = self.middle.means(self.middle_count).with_time(means);
        self.standard = Standard { quantiles: self.latencies.quantiles(), typical };
    }
}
