//! What GPUs did for requests of two platforms, by the work that was recorded in windows.
//!
//! Yields [`GpuDifference`]: the time of kernels and of copies per request on both sides, and which of them
//! threads waited longer for. A run counts if enough of its requests lie within windows in which nothing was
//! lost; nothing is said where a side has no such run. Kernels that run at the same time count each, so their
//! time may exceed the request's.

use std::collections::BTreeMap;

use super::{
    Compared, Interval, Platform, RunDigest,
    counts::NOTICEABLE,
    gpu_means::{GpuCause, GpuDifference, GpuDigest, GpuMeans, GpuSide},
    welch::mean,
};
use crate::{
    analyze::{
        gpu_bound::Bound,
        gpu_work::{GpuWorked, PhaseWork},
        tally::Standing,
    },
    phase::{GpuWork, Request},
    untrusted::Untrusted,
};

/// Part of a difference from which on it is asked what GPUs did of it.
const LARGE: f64 = 0.1;
/// Part of the time that threads waited longer for GPUs, from which on kernels or copies are named for it.
const WORTH: f64 = 0.25;

impl RunDigest {
    /// Adds what a GPU did, if that was recorded. Reads the work, then the requests in the order in which the
    /// digest was read, then the work again.
    ///
    /// # Errors
    /// The first error of a reading: then nothing is added.
    pub fn add_gpu_work<E, W, R>(
        &mut self,
        work: impl FnMut() -> Result<Option<W>, E>,
        requests: impl FnOnce() -> Result<R, E>,
    ) -> Result<(), E>
    where
        W: Iterator<Item = Result<GpuWork, E>>,
        R: Iterator<Item = Result<Request, E>>,
    {
        // The first calls of a program compile and choose kernels: what counts for times counts here.
        let warmups = self.groups.iter().map(|group| (group.name.clone(), group.warmup));
        let mut warmups: BTreeMap<Untrusted, u64> = warmups.collect();
        let mut counts = move |request: &Request| {
            if Standing::of(request) != Standing::Counted {
                return false;
            }
            match warmups.get_mut(&request.root().name) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    false
                }
                Some(_) | None => true,
            }
        };
        let counted = || Ok(requests()?.filter(move |request| request.as_ref().map_or(true, &mut counts)));
        let Some(told) = GpuWorked::read(work, counted)? else { return Ok(()) };
        for group in &mut self.groups {
            group.gpu = told.of_requests(&group.name).map(GpuDigest::of);
        }
        Ok(())
    }
}

impl GpuDigest {
    /// Work for requests: of fewer than [`GpuWorked::of_requests`] asks for, 20, a mean is too much
    /// of an accident (its scatter is more than a fifth of that of one request), and a summary says nothing.
    fn of(work: &PhaseWork) -> Self {
        let each = |sum: u64| sum as f64 / work.count.max(1) as f64;
        let means = GpuMeans {
            kernels: each(work.kernels),
            kernels_ns: each(work.kernels_ns),
            copies: each(work.copies),
            copies_ns: each(work.copies_ns),
            copied_bytes: each(work.copied_bytes),
        };
        Self { requests: work.count, means }
    }
}

impl GpuSide {
    fn of(runs: &[GpuDigest]) -> Self {
        let over_runs = |of: fn(&GpuMeans) -> f64| mean(&values(runs, of));
        Self {
            runs: runs.len(),
            requests: runs.iter().map(|run| run.requests).sum(),
            means: GpuMeans {
                kernels: over_runs(|means| means.kernels),
                kernels_ns: over_runs(|means| means.kernels_ns),
                copies: over_runs(|means| means.copies),
                copies_ns: over_runs(|means| means.copies_ns),
                copied_bytes: over_runs(|means| means.copied_bytes),
            },
        }
    }
}

fn values(runs: &[GpuDigest], of: fn(&GpuMeans) -> f64) -> Vec<f64> {
    runs.iter().map(|run| of(&run.means)).collect()
}

impl GpuDifference {
    /// None if either side has no run with enough requests within windows.
    pub(super) fn of(baseline: &Platform, platform: &Platform) -> Option<Self> {
        let [first, second] = [baseline, platform].map(|platform| {
            platform.runs.iter().filter_map(|run| run.requests.gpu).collect::<Vec<GpuDigest>>()
        });
        if first.is_empty() || second.is_empty() {
            return None;
        }
        let between = |of: fn(&GpuMeans) -> f64| Interval::between(&values(&first, of), &values(&second, of));
        Some(Self {
            kernels_ns: between(|means| means.kernels_ns),
            copies_ns: between(|means| means.copies_ns),
            baseline: GpuSide::of(&first),
            platform: GpuSide::of(&second),
        })
    }

    /// How much longer one of both took on the platform, ns per request.
    pub const fn difference_ns(&self, bound: Bound) -> Interval {
        match bound {
            Bound::Busy => self.kernels_ns,
            Bound::Copy => self.copies_ns,
        }
    }

    /// Whether one of both surely took longer, or less long, and enough to report, as with counts; none where
    /// there are too few runs to know.
    pub fn is_sure(&self, bound: Bound) -> Option<bool> {
        let Interval { value, low, .. } = self.difference_ns(bound);
        let of = |side: &GpuSide| match bound {
            Bound::Busy => side.means.kernels_ns,
            Bound::Copy => side.means.copies_ns,
        };
        let larger = of(&self.baseline).max(of(&self.platform));
        low?;
        Some(self.difference_ns(bound).excludes(0.0) && value.abs() >= larger * NOTICEABLE)
    }
}

impl Compared {
    /// What the slower side's GPUs did longer, where its threads waited longer for them; largest first. Not
    /// of the slowest requests: windows hold too few of them.
    pub fn gpu_causes(&self) -> Vec<GpuCause> {
        let (Some(gpu), Some((explained, None))) = (&self.gpu, self.explained()) else { return Vec::new() };
        let total_ns = explained.difference_ns.value;
        let waited_ns = self.waited_for_gpu_ns();
        if waited_ns / total_ns < LARGE || total_ns == 0.0 {
            return Vec::new();
        }
        let cause = |bound: Bound| {
            let difference_ns = gpu.difference_ns(bound).value;
            let share = difference_ns / waited_ns;
            // Single runs have no intervals, and their causes are told as well.
            let may_be = gpu.is_sure(bound).unwrap_or(true);
            (share >= WORTH && may_be).then_some(GpuCause { bound, difference_ns, share })
        };
        let mut causes: Vec<GpuCause> = [Bound::Busy, Bound::Copy].into_iter().filter_map(cause).collect();
        causes.sort_by(|a, b| b.share.total_cmp(&a.share));
        causes
    }

    /// How much longer threads of the platform waited for GPUs or copied, ns per request: the difference in
    /// accounts `gpu` and `cpu.gpu`.
    pub fn waited_for_gpu_ns(&self) -> f64 {
        let causes = self.explained().into_iter().flat_map(|(explained, _)| &explained.causes);
        causes.filter(|one| one.cause.waits_for_gpu()).map(|one| one.difference_ns.value).sum()
    }
}
