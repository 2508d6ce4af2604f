//! A cgroup for one thread, with a CPU quota: by the `cpu` controller of cgroup v1 or v2, as this system has.
//! Yields the kernel's own counters of throttling. It needs root, and removes its groups when dropped; groups
//! that a killed process left behind, the next one removes.
//!
//! v1 moves single threads. v2 does so only below a threaded group, so there the process moves into its own
//! group, and the thread into a threaded child of it. The root's cgroup.subtree_control keeps `cpu` enabled.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use nix::unistd::gettid;

use super::hierarchy::{Hierarchy, Version};
use crate::stall::error::StallError;

const PREFIX: &str = "guestscope-stall-";
/// Names of the threaded children on v2.
const WORKER: &str = "worker";
const ANCHOR: &str = "anchor";
/// The kernel's default period, for the anchor's period and quota.
const USUAL_PERIOD_NS: u64 = 100_000_000;

/// Counters of cpu.stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the quota ran out.
    pub periods: u64,
    pub ns: u64,
}

/// The group.
#[derive(Debug)]
pub struct Group {
    version: Version,
    /// The process's original group, to which it returns.
    home: PathBuf,
    /// Groups made, in order; the last has the quota and the thread.
    made: Vec<PathBuf>,
    /// Number of the thread inside.
    member: Option<String>,
}

impl Group {
    /// Makes the group, without a quota, for a thread of this process.
    pub fn create() -> Result<Self, StallError> {
        let Hierarchy { version, mount, home } = Hierarchy::find()?;
        // On v2 only the root may hold processes and still hand its controllers down.
        let parent = if version == Version::One { &home } else { &mount };
        sweep(parent);
        let mut group = Self { version, home: home.clone(), made: Vec::new(), member: None };
        // An empty group with a quota, for as long as the other group lives: the kernel patches its own code
        // when the system's first quota appears and when the last one goes, perhaps for longer than the
        // fault.
        let (anchor, worker) = match version {
            Version::One => (parent.join(name()), parent.join(name())),
            Version::Two => {
                hand_down(parent)?;
                let domain = parent.join(name());
                group.make(domain.clone())?;
                write(&domain.join("cgroup.procs"), &process::id().to_string())?;
                (domain.join(ANCHOR), domain.join(WORKER))
            }
        };
        group.make(anchor)?;
        group.make_threaded()?;
        group.limit(USUAL_PERIOD_NS, USUAL_PERIOD_NS)?;
        group.make(worker)?;
        group.make_threaded()?;
        Ok(group)
    }

    /// Moves the calling thread in. Threads that it starts later begin inside.
    pub fn join(&mut self) -> Result<(), StallError> {
        let thread = gettid().to_string();
        write(&self.path().join(self.version.threads_file()), &thread)?;
        self.member = Some(thread);
        Ok(())
    }

    /// Sets the CPU time per period.
    pub fn limit(&self, quota_ns: u64, period_ns: u64) -> Result<(), StallError> {
        self.write_limit(&(quota_ns / 1000).to_string(), period_ns)
    }

    /// Removes the limit. The period timer expires once more, in steps of this period.
    pub fn unlimit(&self, period_ns: u64) -> Result<(), StallError> {
        self.write_limit(if self.version == Version::One { "-1" } else { "max" }, period_ns)
    }

    fn write_limit(&self, quota: &str, period_ns: u64) -> Result<(), StallError> {
        let period = (period_ns / 1000).to_string();
        match self.version {
            Version::One => {
                write(&self.path().join("cpu.cfs_period_us"), &period)?;
                write(&self.path().join("cpu.cfs_quota_us"), quota)
            }
            Version::Two => write(&self.path().join("cpu.max"), &format!("{quota} {period}")),
        }
    }

    pub fn throttling(&self) -> Result<Throttling, StallError> {
        let path = self.path().join("cpu.stat");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(parse(&text)),
            Err(source) => Err(StallError::Group { action: "read", path, source }),
        }
    }

    /// The group with the quota.
    pub fn path(&self) -> &Path {
        self.made.last().map_or(Path::new(""), PathBuf::as_path)
    }

    /// On v2 makes the last group threaded: only then may it hold single threads, and have the `cpu`
    /// controller below a parent that holds processes.
    fn make_threaded(&self) -> Result<(), StallError> {
        if self.version == Version::Two {
            write(&self.path().join("cgroup.type"), "threaded")?;
            if let Some(domain) = self.path().parent() {
                hand_down(domain)?;
            }
        }
        Ok(())
    }

    fn make(&mut self, path: PathBuf) -> Result<(), StallError> {
        match fs::create_dir(&path) {
            Ok(()) => {
                self.made.push(path);
                Ok(())
            }
            Err(source) => Err(StallError::Group { action: "make", path, source }),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A failure here leaves an empty group, which costs nothing and is removed by the next run.
        if let (Some(thread), Version::One) = (&self.member, self.version) {
            let _ = write(&self.home.join("tasks"), thread);
        }
        if self.version == Version::Two && !self.made.is_empty() {
            let _ = write(&self.home.join("cgroup.procs"), &process::id().to_string());
        }
        for path in self.made.iter().rev() {
            // The kernel may keep a group busy for some milliseconds after its last thread left.
            for _ in 0..50 {
                if fs::remove_dir(path).is_ok() {
                    break;
                }
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// Name of a group: of this process, and unique among its groups.
fn name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}{}-{}", process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}

/// Removes groups whose process is gone. Nonempty ones stay: the kernel refuses.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if owner.is_some_and(|(process, _)| !Path::new("/proc").join(process).exists()) {
            for child in [WORKER, ANCHOR] {
                let _ = fs::remove_dir(entry.path().join(child));
            }
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Enables the `cpu` controller for the children of a v2 group.
fn hand_down(path: &Path) -> Result<(), StallError> {
    let path = path.join("cgroup.subtree_control");
    let given = fs::read_to_string(&path).unwrap_or_default();
    if given.split_whitespace().any(|controller| controller == "cpu") { Ok(()) } else { write(&path, "+cpu") }
}

fn write(path: &Path, text: &str) -> Result<(), StallError> {
    let written: io::Result<()> = fs::write(path, text);
    written.map_err(|source| StallError::Group { action: "write", path: path.to_owned(), source })
}

/// Parses cpu.stat: v1 counts nanoseconds, v2 microseconds, each under its own name.
fn parse(stat: &str) -> Throttling {
    let mut throttling = Throttling::default();
    for line in stat.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let value = value.trim().parse().unwrap_or(0);
        match name {
            "nr_throttled" => throttling.periods = value,
            "throttled_time" => throttling.ns = value,
            "throttled_usec" => throttling.ns = value * 1000,
            _ => (),
        }
    }
    throttling
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Throttling, parse};

    #[rstest]
    #[case::v1("nr_periods 7\nnr_throttled 3\nthrottled_time 61000123\nnr_bursts 0\n", 3, 61_000_123)]
    #[case::v2("usage_usec 9\nnr_periods 7\nnr_throttled 3\nthrottled_usec 61000\n", 3, 61_000_000)]
    #[case::root_of_v2("usage_usec 9\nuser_usec 9\n", 0, 0)]
    fn both_books_are_read(#[case] stat: &str, #[case] periods: u64, #[case] ns: u64) {
        assert_eq!(parse(stat), Throttling { periods, ns });
    }
}
