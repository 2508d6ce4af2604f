//! Limits on observed processes, and how often and when each was hit: memory, I/O and CPU time of control
//! groups, the CPUs that threads may use, and what others and its clocks leave of a graphics processor.
//!
//! Yields [`Limit`], plain data that a run folder keeps. Whether one explains a cause is decided in
//! [`analyze`](crate::analyze).

mod timeline;

use serde::{Deserialize, Serialize};

pub use timeline::Timeline;

/// What is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Memory of a group.
    #[default]
    Memory,
    /// Bytes or I/Os per second of a group, by device and direction.
    Io,
    /// CPU time of a group per period.
    Quota,
    /// CPUs that threads may use.
    Cpus,
    /// A graphics processor that another process uses as well.
    GpuShared,
    /// Clocks of a graphics processor that were held down.
    GpuClock,
}

impl Kind {
    /// Whether it is one of a graphics processor.
    pub const fn is_of_gpu(self) -> bool {
        matches!(self, Kind::GpuShared | Kind::GpuClock)
    }

    /// Key of its advice, and its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Memory => "limit.memory",
            Kind::Io => "limit.io",
            Kind::Quota => "limit.quota",
            Kind::Cpus => "limit.cpus",
            Kind::GpuShared => "gpu.shared",
            Kind::GpuClock => "gpu.clock",
        }
    }
}

/// A limit, and what was seen of it during a run. Times and counts are those of the group and all groups
/// below it, observed or not; of a mask those of the observed threads that have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// What is limited.
    pub kind: Kind,
    /// Name of the file that sets it, in the words of its version of control groups: `cpu.max`,
    /// `memory.limit_in_bytes`. `Cpus_allowed_list` for CPUs that no group limits; of clocks, NVML's words
    /// for the reasons.
    pub file: String,
    /// The group that has it, as the guest names it; empty for CPUs that no group limits.
    pub group: String,
    /// Bytes; bytes or I/Os per second; ns of CPU time per period; number of CPUs; lowest clock, MHz.
    pub value: u64,
    /// The period of a quota, ns.
    #[serde(skip_serializing_if = "is_zero")]
    pub period_ns: u64,
    /// The device of an I/O limit, by its name or its numbers; the number of a graphics processor.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// An I/O limit of I/Os instead of bytes.
    #[serde(skip_serializing_if = "is_false")]
    pub is_count: bool,
    /// The CPUs that threads may use, in the kernel's notation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cpus: String,
    /// The online CPUs that they may not use.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub other_cpus: String,
    /// Times that memory could not be charged (`memory.failcnt`, `memory.events`); periods in which a quota
    /// ran out.
    pub hits: u64,
    /// Time at an I/O limit; time without quota, summed over threads as the kernel does; time that threads
    /// stood in run queues of the CPUs that they may use; time for which the other process had a graphics
    /// processor, or that its clocks cost, while requests ran, ns.
    pub hit_ns: u64,
    /// Periods of a quota.
    #[serde(skip_serializing_if = "is_zero")]
    pub periods: u64,
    /// Pages that were pushed out and needed again.
    #[serde(skip_serializing_if = "is_zero")]
    pub refaults: u64,
    /// Time that some task of the group waited for memory (`memory.pressure`), ns; version 2 only.
    #[serde(skip_serializing_if = "is_zero")]
    pub stalled_ns: u64,
    /// Idle time of the other CPUs during `hit_ns`, ns: divided by that, the mean number of idle CPUs.
    #[serde(skip_serializing_if = "is_zero")]
    pub idle_ns: u64,
    /// When it was hit: times of memory and quotas; ns at an I/O limit; ns in run queues while a CPU that the
    /// thread may not use was idle; ns of a graphics processor.
    #[serde(skip_serializing_if = "Timeline::is_empty")]
    pub when: Timeline,
    /// When pages came back.
    #[serde(skip_serializing_if = "Timeline::is_empty")]
    pub when_refaults: Timeline,
    /// Name of the process that uses a graphics processor as well; untrusted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Its process ID.
    #[serde(skip_serializing_if = "is_zero")]
    pub pid: u32,
    /// Time for which a graphics processor was read while requests ran, ns.
    #[serde(skip_serializing_if = "is_zero")]
    pub seen_ns: u64,
    /// The highest clock of a graphics processor, MHz.
    #[serde(skip_serializing_if = "is_zero")]
    pub most_mhz: u64,
}

impl Limit {
    /// Mean number of idle CPUs that the threads may not use, while they stood in run queues.
    pub fn idle_cpus(&self) -> f64 {
        self.idle_ns as f64 / self.hit_ns.max(1) as f64
    }

    /// Part of the time for which a graphics processor is shared or slow anyway: that makes no request slower
    /// than others. 0 of other limits.
    pub fn usual(&self) -> f64 {
        if self.seen_ns == 0 { 0.0 } else { (self.hit_ns as f64 / self.seen_ns as f64).min(1.0) }
    }

    /// Whether both are of the same limit.
    pub fn is_of(&self, other: &Self) -> bool {
        let key = |limit: &Self| (limit.kind, limit.is_count, limit.pid);
        let words = |limit: &Self| {
            [&limit.file, &limit.group, &limit.device, &limit.cpus, &limit.comm].map(String::to_owned)
        };
        key(self) == key(other) && words(self) == words(other)
    }

    /// Forgets what was seen; the limit itself stays.
    pub fn begin_anew(&mut self, now_ns: u64) {
        let of = |line: &Timeline| Timeline::starting(now_ns, line.step_ns);
        (self.when, self.when_refaults) = (of(&self.when), of(&self.when_refaults));
        (self.hits, self.hit_ns, self.periods, self.refaults) = (0, 0, 0, 0);
        (self.stalled_ns, self.idle_ns, self.seen_ns) = (0, 0, 0);
    }

    /// Adds what was seen of the same limit later. Its value is the later one.
    pub fn add_later(&mut self, later: &Self) {
        (self.value, self.period_ns) = (later.value, later.period_ns);
        self.hits = self.hits.saturating_add(later.hits);
        self.hit_ns = self.hit_ns.saturating_add(later.hit_ns);
        self.periods = self.periods.saturating_add(later.periods);
        self.refaults = self.refaults.saturating_add(later.refaults);
        self.stalled_ns = self.stalled_ns.saturating_add(later.stalled_ns);
        self.idle_ns = self.idle_ns.saturating_add(later.idle_ns);
        self.seen_ns = self.seen_ns.saturating_add(later.seen_ns);
        self.most_mhz = self.most_mhz.max(later.most_mhz);
        self.when.add_all(&later.when);
        self.when_refaults.add_all(&later.when_refaults);
    }

    /// CPU time of a quota in CPUs.
    pub fn quota_cpus(&self) -> f64 {
        self.value as f64 / self.period_ns.max(1) as f64
    }
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_in_pieces_adds_up() {
        let mut limit = Limit {
            kind: Kind::Quota,
            value: 50,
            period_ns: 100,
            when: Timeline::starting(1_000, 100),
            ..Limit::default()
        };
        (limit.hits, limit.periods) = (2, 3);
        limit.when.add(1_050, 2);
        let mut sum = limit.clone();
        limit.begin_anew(2_000);
        assert_eq!((limit.hits, limit.periods, limit.value, limit.when.is_empty()), (0, 0, 50, true));
        (limit.hits, limit.periods, limit.value) = (1, 4, 60);
        limit.when.add(2_150, 1);
        assert!(sum.is_of(&limit));
        sum.add_later(&limit);
        assert_eq!((sum.hits, sum.periods, sum.value), (3, 7, 60));
        assert_eq!([(1_000, 1_100), (2_100, 2_200)].map(|(a, b)| sum.when.between(a, b) as u64), [2, 1]);
        assert!(!sum.is_of(&Limit { group: "/b".to_owned(), ..limit }));
    }
}
