//! Limits that differ between platforms.

use crate::limits::{Kind, Limit};

/// What limits the runs of a platform, of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct PlatformLimit {
    /// What is limited.
    pub kind: Kind,
    /// The limit in words, such as `1 of 2` or `none`; of runs that differ, all of them.
    pub text: String,
    /// How much it lets through, in the unit of its kind; infinite without one.
    pub size: f64,
    /// The limit that was hit most in these runs; none if none was hit.
    pub hit: Option<Limit>,
}

/// A limit that differs from the baseline's.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitDifference {
    /// That of the baseline.
    pub baseline: PlatformLimit,
    /// That of the platform.
    pub platform: PlatformLimit,
}

impl LimitDifference {
    /// Differences between two platforms; nothing where one of them does not know its limits.
    pub(super) fn all(baseline: &[PlatformLimit], platform: &[PlatformLimit]) -> Vec<Self> {
        let pairs = baseline.iter().filter_map(|one| {
            let other = platform.iter().find(|other| other.kind == one.kind)?;
            Some(Self { baseline: one.clone(), platform: other.clone() })
        });
        pairs.filter(|pair| pair.baseline.text != pair.platform.text).collect()
    }
}

impl PlatformLimit {
    /// Time per request that threads stood in run queues while a CPU was idle that they may not use, ns.
    pub(super) fn queued_ns(&self, requests: u64) -> f64 {
        let limit = self.hit.as_ref().filter(|limit| limit.kind == Kind::Cpus);
        limit.map_or(0.0, |limit| limit.hit_ns as f64 * limit.idle_cpus().min(1.0) / requests.max(1) as f64)
    }
}
