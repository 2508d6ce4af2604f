//! CPUs that a process may use: affinity, online CPUs, quota.
//!
//! Yields [`Cores`], the two middle words of a scenario. It reads the affinity of the process's main thread;
//! later changes by threads are seen by [`Usage`](super::Usage).

use super::{
    cgroup::Cgroup,
    evidence::{About, Notes},
    root::{Root, Subject, field},
};

/// CPU numbers above this are damage: the kernel's own limit is 8,192.
const CPUS: u32 = 1 << 16;

/// A set of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(Vec<(u32, u32)>);

impl CpuList {
    /// Parses the kernel's notation: `0-3,8,10-11`. Returns none for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut ranges = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last >= CPUS {
                return None;
            }
            ranges.push((first, last));
        }
        Some(Self::merged(ranges))
    }

    fn merged(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                Some(_) | None => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// Number of CPUs.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<u32> {
        self.0.first().map(|range| range.0)
    }

    /// The highest CPU.
    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|range| range.1)
    }

    /// Whether the set contains this CPU.
    pub fn has(&self, cpu: u32) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&cpu))
    }

    /// The CPUs in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let overlaps = self.0.iter().flat_map(|&(first, last)| {
            other
                .0
                .iter()
                .map(move |&(other_first, other_last)| (first.max(other_first), last.min(other_last)))
        });
        Self(overlaps.filter(|(first, last)| first <= last).collect())
    }

    /// The CPUs in either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self::merged(self.0.iter().chain(&other.0).copied().collect())
    }

    /// The CPUs of this set that are not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let all = self.0.iter().flat_map(|&(first, last)| first..=last);
        Self::merged(all.filter(|&cpu| !other.has(cpu)).map(|cpu| (cpu, cpu)).collect())
    }

    /// The set in the kernel's notation.
    pub fn text(&self) -> String {
        let range = |&(first, last): &(u32, u32)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        self.0.iter().map(range).collect::<Vec<_>>().join(",")
    }
}

/// CPUs that a process may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cores {
    /// CPUs online in the guest; empty if unknown.
    pub online: CpuList,
    /// CPUs that are online and allowed by the affinity.
    pub allowed: CpuList,
    /// The quota in CPUs; none without one.
    pub quota: Option<f64>,
    /// The affinity excludes some online CPU.
    pub pinned: bool,
}

impl Cores {
    pub(super) fn read(root: &Root, subject: Subject, cgroup: &Cgroup, notes: &mut Notes) -> Self {
        let online_file = "/sys/devices/system/cpu/online";
        let online = root.value(online_file).and_then(|text| CpuList::parse(&text));
        let status = root.text(&subject.file("status")).unwrap_or_default();
        let affinity = field(&status, "Cpus_allowed_list", ':').and_then(CpuList::parse);
        // Where /sys is hidden there is no list of online CPUs: only the affinity is known.
        let online = online.or_else(|| affinity.clone()).unwrap_or_default();
        // The affinity may name CPUs that are not online.
        let allowed = affinity.map_or_else(|| online.clone(), |affinity| affinity.and(&online));
        let pinned = allowed.count() < online.count();
        notes.add(About::Cores, online_file, format!("{} online: {}", online.count(), online.text()));
        let says = if pinned { "pinned" } else { "all of them" };
        notes.add(About::Cores, subject.file("status"), format!("{} allowed, {says}", allowed.count()));
        let quota = cgroup.cpu.as_ref();
        if let Some(quota) = quota {
            let (used_ms, period_ms) = (quota.quota_ns as f64 / 1e6, quota.period_ns as f64 / 1e6);
            let says = format!("quota of {used_ms} ms per {period_ms} ms in {}", quota.group);
            notes.add(About::Cores, subject.file("cgroup"), says);
        }
        Self { online, allowed, quota: quota.map(super::CpuQuota::cpus), pinned }
    }

    /// CPUs usable at a time: those allowed, or the quota where that is less.
    pub fn usable(&self) -> f64 {
        let allowed = f64::from(self.allowed.count());
        self.quota.map_or(allowed, |quota| quota.min(allowed))
    }

    /// The same with at most two decimals, as in a scenario: `4`, `0.5`.
    pub fn usable_text(&self) -> String {
        let text = format!("{:.2}", self.usable());
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// The container-host core ratio of Samani & Salehi: the CPUs usable at a time over the CPUs of the
    /// machine, as far as the guest sees them. 1 where nothing limits the process, and where the machine's
    /// CPUs are not known.
    pub fn host_ratio(&self) -> f64 {
        match self.online.count() {
            0 => 1.0,
            online => self.usable() / f64::from(online),
        }
    }
}
