//! The control groups of a process and their limits: version 1, version 2, or both.
//!
//! Yields [`Cgroup`] with the tightest limit on the way up to the topmost visible group. A container sees its
//! own group as the top: limits above it are invisible here, and the kernel side reads them instead.

use super::{
    evidence::{About, Notes},
    root::{Root, Subject},
};
use crate::{
    mounts::{Membership, Mount},
    untrusted::Shown as _,
};

/// Most levels of groups that are looked at.
const LEVELS: usize = 64;
/// Version 1 expresses "no limit" by the largest number of pages, in bytes.
pub(super) const UNLIMITED_BYTES: u64 = 1 << 62;

/// A quota of CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    /// CPU time per period, ns.
    pub quota_ns: u64,
    /// The period, ns.
    pub period_ns: u64,
    /// The group with this quota, as the guest names it.
    pub group: String,
}

impl CpuQuota {
    /// The quota in CPUs.
    pub fn cpus(&self) -> f64 {
        self.quota_ns as f64 / self.period_ns.max(1) as f64
    }
}

/// The groups and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroup {
    /// Path of the group that controls CPU time, as the guest names it.
    pub path: Option<String>,
    /// Version of the hierarchy that controls CPU time: 1 or 2.
    pub version: Option<u8>,
    /// The tightest quota; none if there is none.
    pub cpu: Option<CpuQuota>,
    /// CPUs that the groups allow, in the kernel's list notation.
    pub cpuset: Option<String>,
    /// The file with this value.
    pub cpuset_file: Option<String>,
    /// The tightest limit of memory, bytes; none if there is none.
    pub memory_bytes: Option<u64>,
    /// The file with this value.
    pub memory_file: Option<String>,
}

/// Where a group of the process is in the file system.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) version: u8,
    /// Path of the group in /proc.
    path: String,
    /// Where the hierarchy is mounted.
    mount: String,
    /// Path from the mount to the group, without slashes at the ends.
    below: String,
}

impl Cgroup {
    pub(super) fn read(root: &Root, subject: Subject) -> Self {
        let groups = root.text(&subject.file("cgroup")).unwrap_or_default();
        let mounts = root.bytes("/proc/self/mountinfo").unwrap_or_default();
        let place = |controller: &str| Place::find(&groups, &mounts, controller);
        let cpu = place("cpu");
        let (cpuset_file, cpuset) = place("cpuset").and_then(|place| place.cpuset(root)).unzip();
        let (memory_file, memory_bytes) =
            place("memory").and_then(|place| place.tightest_memory(root)).unzip();
        Self {
            path: cpu.as_ref().map(|place| place.path.clone()),
            version: cpu.as_ref().map(|place| place.version),
            cpu: cpu.and_then(|place| place.tightest_quota(root)),
            cpuset,
            cpuset_file,
            memory_bytes,
            memory_file,
        }
    }

    /// Notes the limits other than of CPU time.
    pub(super) fn note_limits(&self, notes: &mut Notes) {
        if let (Some(cpus), Some(file)) = (&self.cpuset, &self.cpuset_file) {
            notes.add(About::Limits, file, format!("CPUs {cpus}"));
        }
        if let (Some(bytes), Some(file)) = (self.memory_bytes, &self.memory_file) {
            notes.add(About::Limits, file, format!("{bytes} bytes of memory"));
        }
    }
}

/// Mount point of the hierarchy that controls CPU time.
pub(super) fn cpu_mount(root: &Root) -> Option<String> {
    let groups = root.text(&Subject::Own.file("cgroup"))?;
    Place::find(&groups, &root.bytes("/proc/self/mountinfo")?, "cpu").map(|place| place.mount)
}

impl Place {
    /// Finds the group of version 1 if it has the controller, else that of version 2.
    pub(super) fn find(groups: &str, mounts: &[u8], controller: &str) -> Option<Self> {
        let old = Membership::all(groups).find(|group| group.is_version_1_of(controller));
        let (version, path) = match old {
            Some(group) => (1, group.path),
            None => (2, Membership::all(groups).find(Membership::is_version_2)?.path),
        };
        let is_it = |mount: &Mount<'_>| {
            if version == 1 { mount.is_version_1_of(controller) } else { mount.is_version_2() }
        };
        let first = Mount::all(mounts).find(is_it)?.at;
        // The last mount at this place is the visible one: a `/sys` that Docker's user asked for covers
        // Docker's own.
        let visible = Mount::all(mounts).rfind(|mount| is_it(mount) && mount.at == first)?;
        let (mounted, mount) = (visible.root.shown(), visible.at.shown());
        let (mounted, mount) = (mounted.stored(), mount.stored().to_owned());
        // In a container without a cgroup namespace, the mount shows only what is below its root.
        let inside = path.strip_prefix(mounted.trim_end_matches('/'));
        let inside = inside.filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let below = inside.unwrap_or(path).trim_matches('/');
        // A group outside the namespace is `/../..`: not to be followed.
        let below = if below.split('/').any(|part| part == "..") { "" } else { below };
        Some(Self { version, path: path.to_owned(), mount, below: below.to_owned() })
    }

    /// The group's directory and those above it, the group's own first, with their names below the mount.
    pub(super) fn levels(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let mut below = Some(self.below.as_str());
        let groups = std::iter::from_fn(move || {
            let this = below?;
            below = if this.is_empty() {
                None
            } else {
                Some(this.rsplit_once('/').map_or("", |(above, _)| above))
            };
            Some(this)
        });
        let directory = |below: &str| format!("{}/{below}", self.mount).trim_end_matches('/').to_owned();
        groups.take(LEVELS).map(move |below| (directory(below), format!("/{below}")))
    }

    fn tightest_quota(&self, root: &Root) -> Option<CpuQuota> {
        let quotas = self.levels().filter_map(|(directory, group)| {
            let (quota_us, period_us) = self.quota_us(root, &directory)?;
            let ns = |us: u64| us.checked_mul(1000);
            Some(CpuQuota { quota_ns: ns(quota_us)?, period_ns: ns(period_us).filter(|&ns| ns > 0)?, group })
        });
        quotas.min_by(|a, b| a.cpus().total_cmp(&b.cpus()))
    }

    /// `max` and -1 do not parse as microseconds: no quota.
    pub(super) fn quota_us(&self, root: &Root, directory: &str) -> Option<(u64, u64)> {
        if self.version == 1 {
            let number = |file: &str| root.value(&format!("{directory}/{file}"))?.parse().ok();
            return Some((number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?));
        }
        let both = root.value(&format!("{directory}/cpu.max"))?;
        let (quota, period) = both.split_once(' ')?;
        Some((quota.parse().ok()?, period.parse().ok()?))
    }

    /// The tightest limit: its file and value.
    fn tightest_memory(&self, root: &Root) -> Option<(String, u64)> {
        let name = if self.version == 1 { "memory.limit_in_bytes" } else { "memory.max" };
        let limits = self.levels().filter_map(|(directory, _)| {
            let file = format!("{directory}/{name}");
            let bytes: u64 = root.value(&file)?.parse().ok()?;
            Some((file, bytes))
        });
        limits.filter(|&(_, bytes)| bytes < UNLIMITED_BYTES).min_by_key(|&(_, bytes)| bytes)
    }

    /// The cpuset of the nearest group that has one: its file and value.
    fn cpuset(&self, root: &Root) -> Option<(String, String)> {
        let files = if self.version == 1 {
            ["cpuset.effective_cpus", "cpuset.cpus"]
        } else {
            ["cpuset.cpus.effective", "cpuset.cpus"]
        };
        self.levels().find_map(|(directory, _)| {
            let files = files.iter().map(|file| format!("{directory}/{file}"));
            files.into_iter().find_map(|file| root.value(&file).map(|cpus| (file, cpus)))
        })
    }
}
