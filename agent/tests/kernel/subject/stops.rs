//! Cases in which another process keeps the program from running: by a stop signal, or by the freezer of its
//! cgroup.
//!
//! A forked child does it to its parent, checks that it happened, and notes how long it lasted at least.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, fork, getppid},
};

use crate::{Case, Subject, clerk::now_ns, spin};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("stop", |subject| stop(subject, busy)),
    ("stop_calling", |subject| stop(subject, calling)),
    ("stop_asleep", |subject| stop(subject, asleep)),
    ("trace", trace),
    ("freeze", |subject| freeze(subject, busy)),
    ("freeze_asleep", |subject| freeze(subject, asleep)),
];

/// Time for which the parent is kept from running.
const KEPT: Duration = Duration::from_millis(150);
/// Limit of every wait here.
const PATIENCE_NS: u64 = 5_000_000_000;

/// How long the parent sleeps at a time.
const ASLEEP: Duration = Duration::from_millis(500);

/// The parent's work until it was kept from running: it uses the CPU, or sleeps.
fn busy() {
    spin(Duration::from_millis(5));
}

/// Quick calls of `write`, one after the other.
fn calling() {
    let mut nowhere = fs::File::create("/dev/null").expect("it is everywhere");
    let start_ns = now_ns();
    while now_ns() - start_ns < 5_000_000 {
        nowhere.write_all(&[0]).expect("it takes all");
    }
}

fn asleep() {
    thread::sleep(ASLEEP);
}

/// Notes the parent's phase while the child keeps it from running with `keep`.
fn keep_parent(subject: &Subject, work: fn(), keep: impl FnOnce(Pid)) {
    let (mut begun, mut begin) = io::pipe().expect("descriptors are free");
    // SAFETY: this program has one thread, so the child may do what it likes.
    match unsafe { fork() }.expect("processes are left") {
        ForkResult::Child => {
            // Waits until the parent is inside its phase.
            begun.read_exact(&mut [0]).expect("the parent begins");
            keep(getppid());
            // SAFETY: ends the child without running what the parent registered for its own end.
            unsafe { libc::_exit(0) };
        }
        ForkResult::Parent { child } => {
            subject.clerk(|clerk| {
                clerk.book("work", 1, || {
                    begin.write_all(&[0]).expect("the child reads");
                    // Waits until the child has written its line.
                    let start_ns = now_ns();
                    while subject.lines() == 0 && now_ns() - start_ns < PATIENCE_NS {
                        work();
                    }
                });
            });
            waitpid(child, None).expect("the child is ours");
        }
    }
}

/// Waits until it is true, up to a limit.
fn wait_until(true_now: impl Fn() -> bool) -> bool {
    let start_ns = now_ns();
    while !true_now() {
        if now_ns() - start_ns > PATIENCE_NS {
            return false;
        }
        thread::sleep(Duration::from_micros(200));
    }
    true
}

/// State letter of a process.
fn state(process: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

fn stop(subject: &Subject, work: fn()) {
    keep_parent(subject, work, |parent| {
        thread::sleep(Duration::from_millis(20));
        kill(parent, Signal::SIGSTOP).expect("it is ours");
        let stopped = wait_until(|| state(parent) == Some('T'));
        let start_ns = now_ns();
        thread::sleep(KEPT);
        let kept_ns = now_ns() - start_ns;
        kill(parent, Signal::SIGCONT).expect("it is ours");
        subject.fact("kept_ns", if stopped { kept_ns } else { 0 });
    });
}

/// A debugger holds the parent.
fn trace(subject: &Subject) {
    keep_parent(subject, busy, |parent| {
        thread::sleep(Duration::from_millis(20));
        // SAFETY: these requests read no memory of this process.
        let ask = |what| unsafe { libc::ptrace(what, parent.as_raw(), 0, 0) } == 0;
        let stopped = ask(libc::PTRACE_SEIZE)
            && ask(libc::PTRACE_INTERRUPT)
            && wait_until(|| state(parent) == Some('t'));
        let start_ns = now_ns();
        thread::sleep(KEPT);
        let kept_ns = now_ns() - start_ns;
        ask(libc::PTRACE_DETACH);
        subject.fact("kept_ns", if stopped { kept_ns } else { 0 });
    });
}

/// Files of a freezer: the group to make, its switch, the word to write, and the file that confirms it.
struct Freezer {
    group: PathBuf,
    switch: &'static str,
    words: [&'static str; 2],
    shows: (&'static str, &'static str),
    /// The group to return to.
    home: PathBuf,
}

/// The freezer of the hierarchy that the first argument names (`v1`, `v2`).
fn freezer(version: &str) -> Option<Freezer> {
    let name = format!("guestscope-test-{}", std::process::id());
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount =
        mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|fields| match version {
            "v1" => fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "freezer"),
            _ => fields[2] == "cgroup2",
        })?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own =
        groups.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>()).find(|fields| match version {
            "v1" => fields[1] == "freezer",
            _ => fields[0] == "0",
        })?;
    let home = Path::new(mount[1]).join(own[2].trim_start_matches('/'));
    Some(Freezer {
        group: home.join(name),
        switch: if version == "v1" { "freezer.state" } else { "cgroup.freeze" },
        words: if version == "v1" { ["FROZEN", "THAWED"] } else { ["1", "0"] },
        shows: if version == "v1" { ("freezer.state", "FROZEN") } else { ("cgroup.events", "frozen 1") },
        home,
    })
}

/// Notes `refused` if there is no such freezer.
fn freeze(subject: &Subject, work: fn()) {
    let Some(freezer) = freezer(&subject.arguments[0]) else { return subject.fact("refused", 1) };
    if fs::create_dir(&freezer.group).is_err() {
        return subject.fact("refused", 1);
    }
    keep_parent(subject, work, |parent| {
        thread::sleep(Duration::from_millis(20));
        let member = parent.to_string();
        let moved = fs::write(freezer.group.join("cgroup.procs"), &member);
        let switch = freezer.group.join(freezer.switch);
        let frozen = moved.and_then(|()| fs::write(&switch, freezer.words[0]));
        let shows = || {
            let text = fs::read_to_string(freezer.group.join(freezer.shows.0)).unwrap_or_default();
            text.lines().any(|line| line == freezer.shows.1)
        };
        let is_kept = frozen.is_ok() && wait_until(shows);
        let start_ns = now_ns();
        thread::sleep(KEPT);
        let kept_ns = now_ns() - start_ns;
        let _ = fs::write(&switch, freezer.words[1]);
        let _ = fs::write(freezer.home.join("cgroup.procs"), &member);
        subject.fact("kept_ns", if is_kept { kept_ns } else { 0 });
    });
    fs::remove_dir(&freezer.group).expect("the group is empty");
}
