//! A cgroup of its own for one thread, with a CPU quota: by the `cpu` controller of cgroup v1 or of v2, whichever this
//! system has. Yields the kernel's own books of throttling. It wants root, and removes what it made when dropped; what
//! a killed process left behind, the next one removes.
//!
//! v1 moves single threads. v2 does so only below a threaded group, so there the process moves into a group of its own
//! first, and the thread into a threaded child of it. That the root hands `cpu` down stays switched on.

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
/// The threaded children on v2.
const WORKER: &str = "worker";
const ANCHOR: &str = "anchor";
/// The kernel's own default period, as the anchor's period and quota.
const USUAL_PERIOD_NS: u64 = 100_000_000;

/// What cpu.stat says.
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
    /// Where the process was, and goes back to.
    home: PathBuf,
    /// What was made, in order; the last has the quota and the thread.
    made: Vec<PathBuf>,
    /// The thread inside.
    member: Option<String>,
}

impl Group {
    /// Makes it, without a quota, for a thread of this process.
    pub fn create() -> Result<Self, StallError> {
        let Hierarchy { version, mount, home } = Hierarchy::find()?;
        // On v2 only the root may hold processes and still hand its controllers down.
        let parent = if version == Version::One { &home } else { &mount };
        sweep(parent);
        let mut group = Self { version, home: home.clone(), made: Vec::new(), member: None };
        // An empty group with a quota, for as long as the other one lives: the kernel patches its own code where the first
        // quota of the system comes and where the last one goes, which may take longer than what is to be injected.
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

    /// Moves the calling thread in. Threads that it starts from now on are born inside.
    pub fn join(&mut self) -> Result<(), StallError> {
        let thread = gettid().to_string();
        write(&self.path().join(self.version.threads_file()), &thread)?;
        self.member = Some(thread);
        Ok(())
    }

    /// So much CPU time in each period.
    pub fn limit(&self, quota_ns: u64, period_ns: u64) -> Result<(), StallError> {
        self.write_limit(&(quota_ns / 1000).to_string(), period_ns)
    }

    /// As much CPU time as there is. The timer of the periods runs out once more, in steps of this period.
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

    /// On v2: only then may the last one made hold single threads, and have the `cpu` controller beside a parent that
    /// holds processes.
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
        // Whatever fails here leaves an empty group, which costs nothing and is swept away by the next run.
        if let (Some(thread), Version::One) = (&self.member, self.version) {
            let _ = write(&self.home.join("tasks"), thread);
        }
        if self.version == Version::Two && !self.made.is_empty() {
            let _ = write(&self.home.join("cgroup.procs"), &process::id().to_string());
        }
        for path in self.made.iter().rev() {
            // The kernel may hold a group that was just left for some milliseconds more.
            for _ in 0..50 {
                if fs::remove_dir(path).is_ok() {
                    break;
                }
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// Of this process, and like no other of its groups.
fn name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}{}-{}", process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}

/// Removes groups whose process is gone. One that is not empty stays: the kernel refuses.
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

/// Lets the children of a v2 group have the `cpu` controller.
fn hand_down(path: &Path) -> Result<(), StallError> {
    let path = path.join("cgroup.subtree_control");
    let given = fs::read_to_string(&path).unwrap_or_default();
    if given.split_whitespace().any(|controller| controller == "cpu") { Ok(()) } else { write(&path, "+cpu") }
}

fn write(path: &Path, text: &str) -> Result<(), StallError> {
    let written: io::Result<()> = fs::write(path, text);
    written.map_err(|source| StallError::Group { action: "write", path: path.to_owned(), source })
}

/// v1 counts nanoseconds, v2 microseconds, each under a name of its own.
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
