//! Cases under a CPU quota: alone in a group, in a group inside a limited one, two processes that share one,
//! one that is moved, one that is taken out of its group.
//!
//! The truth is the limited group's `cpu.stat`, read outside and inside the phase on both sides, as the clerk
//! reads the thread's counters. No thread is throttled while it reads, so all throttled time is complete
//! then: every case but the last has one CPU.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, fork},
};

use crate::{
    Case, Subject,
    clerk::now_ns,
    spin,
    switches::{cpus, pin},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("quota", quota),
    ("quota_nested", quota_nested),
    ("quota_shared", quota_shared),
    ("quota_moved", quota_moved),
    ("quota_left", quota_left),
];

/// CPU time per period: so little that it runs out beside any number of neighbours.
const QUOTA_US: u64 = 5_000;
const PERIOD_US: u64 = 100_000;
/// Time between two moves: shorter than a throttled time, and no divisor of the period.
const MOVE_EVERY: Duration = Duration::from_millis(13);
/// Groups that the thread is taken out of, one after the other.
const LEFT: u32 = 8;
/// Time in a group until the thread is taken out: the quota is used up by then, and not yet refilled.
const LEFT_AFTER: Duration = Duration::from_millis(40);
/// Least duration of each phase: 15 periods.
const WALL_NS: u64 = 1_500_000_000;

/// The controller `cpu`, of either version.
pub(crate) struct Controller {
    /// The group of this process.
    pub(crate) home: PathBuf,
    pub(crate) is_v1: bool,
}

impl Controller {
    /// The controller of this process.
    pub(crate) fn find() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts: Vec<Vec<&str>> = mounts.lines().map(|line| line.split(' ').collect()).collect();
        let groups: Vec<Vec<&str>> = groups.lines().map(|line| line.splitn(3, ':').collect()).collect();
        let has_cpu = |words: &str| words.split(',').any(|word| word == "cpu");
        let v1 = mounts.iter().find(|mount| mount[2] == "cgroup" && has_cpu(mount[3]));
        let (mount, group) = match v1 {
            Some(mount) => (mount, groups.iter().find(|group| has_cpu(group[1]))?),
            None => (
                mounts.iter().find(|mount| mount[2] == "cgroup2")?,
                groups.iter().find(|group| group[0] == "0")?,
            ),
        };
        let home = Path::new(mount[1]).join(group[2].trim_start_matches('/'));
        if v1.is_none() {
            fs::write(home.join("cgroup.subtree_control"), "+cpu").ok()?;
        }
        Some(Self { home, is_v1: v1.is_some() })
    }

    /// Gives the group priority over all others.
    fn prefer(&self, group: &Path) -> std::io::Result<()> {
        if self.is_v1 {
            fs::write(group.join("cpu.shares"), "262144")
        } else {
            fs::write(group.join("cpu.weight"), "10000")
        }
    }

    fn limit(&self, group: &Path) -> std::io::Result<()> {
        if self.is_v1 {
            fs::write(group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            fs::write(group.join("cpu.cfs_quota_us"), QUOTA_US.to_string())
        } else {
            fs::write(group.join("cpu.max"), format!("{QUOTA_US} {PERIOD_US}"))
        }
    }
}

/// A group with a quota, and one inside it. Both are removed when dropped.
struct Group {
    controller: Controller,
    limited: PathBuf,
    inner: PathBuf,
}

impl Group {
    /// None if groups cannot be made.
    fn make() -> Option<Self> {
        let controller = Controller::find()?;
        let limited = controller.home.join(format!("guestscope-test-{}", std::process::id()));
        let inner = limited.join("inner");
        fs::create_dir(&limited).ok()?;
        let group = Self { controller, limited, inner };
        group.controller.limit(&group.limited).ok()?;
        Some(group)
    }

    fn make_inner(&self) {
        if !self.controller.is_v1 {
            fs::write(self.limited.join("cgroup.subtree_control"), "+cpu").expect("the group is ours");
        }
        fs::create_dir(&self.inner).expect("the group is ours");
    }

    /// Moves the calling process.
    fn enter(group: &Path) {
        fs::write(group.join("cgroup.procs"), std::process::id().to_string()).expect("the group is ours");
    }

    fn leave(&self) {
        Self::enter(&self.controller.home);
    }

    fn statistics(&self) -> Statistics {
        Statistics(File::open(self.limited.join("cpu.stat")).expect("a limited group has it"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The groups must not stay, whatever happened; some may never have been made.
        self.leave();
        let _ = fs::remove_dir(&self.inner);
        let _ = fs::remove_dir(&self.limited);
    }
}

/// `cpu.stat` of a group.
struct Statistics(File);

impl Statistics {
    /// Throttled time in ns, and the number of throttled periods.
    fn read(&self) -> [u64; 2] {
        let mut text = [0_u8; 1024];
        let bytes = self.0.read_at(&mut text, 0).expect("the file can be read");
        let text = std::str::from_utf8(&text[..bytes]).expect("the file is text");
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|line| line.0 == name).and_then(|line| line.1.parse::<u64>().ok())
        };
        let us = field("throttled_usec").map(|us| us * 1_000);
        [us.or_else(|| field("throttled_time")), field("nr_throttled")].map(|value| value.unwrap_or(0))
    }
}

/// Notes one phase of the calling process, and the group's statistics on both sides of its edges.
fn book(subject: &Subject, group: &Group, number: u64) {
    let statistics = group.statistics();
    subject.clerk(|clerk| {
        let before = statistics.read();
        let mut inside = [[0; 2]; 2];
        clerk.book("work", number, || {
            inside[0] = statistics.read();
            let start_ns = now_ns();
            while now_ns() - start_ns < WALL_NS {
                spin(Duration::from_millis(1));
            }
            inside[1] = statistics.read();
        });
        let after = statistics.read();
        for (index, name) in ["throttled_ns", "periods"].into_iter().enumerate() {
            clerk.fact(&format!("{name}_low_{number}"), inside[1][index] - inside[0][index]);
            clerk.fact(&format!("{name}_high_{number}"), after[index] - before[index]);
        }
    });
}

fn limited(subject: &Subject, body: impl FnOnce(&Group)) {
    match Group::make() {
        Some(group) => {
            pin(cpus()[0]);
            body(&group);
        }
        None => subject.fact("refused", 1),
    }
}

fn quota(subject: &Subject) {
    limited(subject, |group| {
        Group::enter(&group.limited);
        book(subject, group, 1);
    });
}

fn quota_nested(subject: &Subject) {
    limited(subject, |group| {
        group.make_inner();
        Group::enter(&group.inner);
        book(subject, group, 1);
    });
}

/// Two processes on one CPU use up one quota.
fn quota_shared(subject: &Subject) {
    limited(subject, |group| {
        Group::enter(&group.limited);
        // SAFETY: this program has one thread, so the child may do what it likes.
        match unsafe { fork() }.expect("processes are left") {
            ForkResult::Child => {
                book(subject, group, 2);
                // SAFETY: ends the child without undoing what is the parent's.
                unsafe { libc::_exit(0) };
            }
            ForkResult::Parent { child } => {
                book(subject, group, 1);
                waitpid(child, None).expect("the child is ours");
            }
        }
    });
}

/// A process outside the group moves the thread between two CPUs, mostly while it is throttled.
fn quota_moved(subject: &Subject) {
    let all = cpus();
    let &[here, there, ..] = all.as_slice() else { return subject.fact("refused", 1) };
    limited(subject, |group| {
        group.controller.prefer(&group.limited).expect("the group is ours");
        let own = Pid::this();
        // SAFETY: this program has one thread, so the child may do what it likes.
        match unsafe { fork() }.expect("processes are left") {
            ForkResult::Child => {
                // SAFETY: no memory is involved. Its parent may panic, and its process ID be reused.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                for cpu in [there, here].into_iter().cycle() {
                    std::thread::sleep(MOVE_EVERY);
                    let mut set = CpuSet::new();
                    // The child ends when the thread is gone, in case nothing else ends it.
                    if set.set(cpu).and_then(|()| sched_setaffinity(own, &set)).is_err() {
                        break;
                    }
                }
                // SAFETY: ends the child without undoing what is the parent's.
                unsafe { libc::_exit(0) };
            }
            ForkResult::Parent { child } => {
                Group::enter(&group.limited);
                book(subject, group, 1);
                group.leave();
                kill(child, Signal::SIGKILL).expect("the child is ours");
                waitpid(child, None).expect("the child is ours");
            }
        }
    });
}

/// A process takes the thread out of a throttled group, and removes the group; then comes the next group.
fn quota_left(subject: &Subject) {
    let Some(first) = Group::make() else { return subject.fact("refused", 1) };
    let limited = first.limited.clone();
    let home = first.controller.home.join("cgroup.procs");
    drop(first);
    let all = cpus();
    pin(all[0]);
    let own = Pid::this();
    // SAFETY: this program has one thread, so the child may do what it likes.
    match unsafe { fork() }.expect("processes are left") {
        ForkResult::Child => {
            // SAFETY: no memory is involved. Its parent may panic, and its process ID be reused then.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            pin(*all.last().unwrap_or(&all[0]));
            loop {
                let members = fs::read_to_string(limited.join("cgroup.procs")).unwrap_or_default();
                if members.is_empty() {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                std::thread::sleep(LEFT_AFTER);
                fs::write(&home, own.to_string()).expect("both are ours");
                // A group may be busy for a moment after its last member left.
                while fs::remove_dir(&limited).is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        ForkResult::Parent { child } => {
            subject.clerk(|clerk| {
                clerk.book("work", 1, || {
                    for _ in 0..LEFT {
                        let group = Group::make().expect("one could be made before");
                        group.controller.prefer(&group.limited).expect("the group is ours");
                        Group::enter(&group.limited);
                        let start_ns = now_ns();
                        // If the thread was not taken out, there is no wait to compare.
                        while group.limited.exists() && now_ns() - start_ns < WALL_NS {
                            spin(Duration::from_millis(1));
                        }
                    }
                });
            });
            kill(child, Signal::SIGKILL).expect("the child is ours");
            waitpid(child, None).expect("the child is ours");
        }
    }
}
