//! Which processes are observed: those that fit the configuration, also those that start later.
//!
//! A process is examined when it is first seen, and again after 1, 2, 4, ... s, at last every few minutes: it
//! may execute another program, join a control group or open a port. Children of an observed process are
//! followed by the kernel side, whatever they run. What it says of itself is read by a thread that is given
//! up if the process holds it up; that process is passed over until it has answered.

use std::{
    collections::{HashMap, HashSet},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use guestscope_base::{Hint as _, wildcard};
use guestscope_kernel::attach::{Choice, Target, TargetError, Wanted};

use super::{
    shared::{Shared, locked},
    tables::Program,
};
use crate::{
    guarded,
    loader::marks::MarkedFiles,
    out,
    patient::{self, NoAnswer},
    session::possible,
    sources::mapped,
};

/// First time between two examinations of a process.
const FIRST: Duration = Duration::from_secs(1);
/// Longest such time: 10,000 processes cost some 0.2 % of a CPU.
const LONGEST: Duration = Duration::from_secs(256);
/// Time limit for examining processes. Nobody drains the rings meanwhile, and at full load they hold a third
/// of a second.
const LIMIT: Duration = Duration::from_millis(200);
/// Time after a look that came to its limit: the rings are drained, and no other look of this second is held
/// up as well.
const REST: Duration = Duration::from_millis(500);
/// Most warnings about processes that hold up a look: any number may come and go.
const MOST_TOLD: usize = 64;
/// Most processes examined in one look: the others have their turn in the next ones.
const AT_ONCE: usize = 4096;
/// Most bytes read of a command line, and of a list of control groups.
const COMMAND_BYTES: u64 = 4096;
const GROUPS_BYTES: u64 = 64 << 10;
/// Time between two searches for a container that is not there.
const CONTAINERS: Duration = Duration::from_secs(5);
/// What the kernel puts behind the path of a file that was removed or replaced, as by an update, while a
/// program runs it.
const DELETED: &[u8] = b" (deleted)";

/// The choice of processes.
pub(super) struct Selection {
    shared: Arc<Shared>,
    programs: Arc<Vec<Program>>,
    seen: HashMap<u32, Seen>,
    /// Processes that held up a look and have not answered since.
    passed_over: HashMap<u32, PassedOver>,
    /// Those of which that was said.
    told: HashSet<u32>,
    /// No process is examined before this.
    rests_until: Instant,
    containers: Vec<Container>,
    /// Files that were looked at for the marker.
    marked: Arc<MarkedFiles>,
}

/// What is known of a process.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// See [`inode`]: it tells the process from a later one of the same number.
    inode: u64,
    is_chosen: bool,
    /// When it is examined next, and how long after that again.
    next: Instant,
    between: Duration,
}

/// A process that held up a look.
struct PassedOver {
    inode: u64,
    /// Where its answer will be, should it come.
    answers: Arc<Mutex<Answers>>,
}

/// What a look finds out, as it comes.
struct Answers {
    /// Processes in their order, and whether they are chosen.
    known: Vec<(u32, bool)>,
    /// Since when the next one is examined.
    since: Instant,
    /// Nobody waits for further ones.
    is_given_up: bool,
}

/// A container that is chosen as a whole.
#[derive(Debug)]
struct Container {
    name: String,
    target: Option<Target>,
    next: Instant,
    /// Why it cannot be found was said.
    is_told: bool,
}

impl Answers {
    fn new(now: Instant) -> Self {
        Self { known: Vec::new(), since: now, is_given_up: false }
    }

    /// Adds one. Returns whether somebody waits for the next one.
    fn add(&mut self, pid: u32, is_chosen: bool, now: Instant) -> bool {
        self.known.push((pid, is_chosen));
        self.since = now;
        !self.is_given_up
    }

    /// The first one without an answer, if it is what the look waited for: without CPU time, or with many
    /// processes, a look may be late though none of them holds it up.
    fn holder(&self, due: &[(u32, u64)], now: Instant) -> Option<(u32, u64)> {
        let is_long = now.saturating_duration_since(self.since) >= LIMIT / 2;
        due.get(self.known.len()).copied().filter(|_| is_long)
    }

    fn has(&self, pid: u32) -> bool {
        self.known.iter().any(|(known, _)| *known == pid)
    }
}

impl Container {
    fn new(name: String) -> Self {
        Self { name, target: None, next: Instant::now(), is_told: false }
    }

    /// Looks for it. Says once why it will not be found by waiting for it.
    fn find(&mut self) {
        match Target::find(Wanted::Container(&self.name)) {
            Ok(target) => self.target = Some(target),
            Err(error) => {
                self.target = None;
                if !may_come(&error) && !std::mem::replace(&mut self.is_told, true) {
                    let hint = error.hint().map_or_else(String::new, |hint| format!(": {hint}"));
                    out::say(&format!(
                        "warning: a container of [[programs]] selects nothing: {error}{hint}\n"
                    ));
                }
            }
        }
    }
}

/// Whether the container is only not there yet.
const fn may_come(error: &TargetError) -> bool {
    matches!(error, TargetError::NoContainer { .. } | TargetError::NotRunning(_) | TargetError::Empty(_))
}

impl std::fmt::Debug for Selection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Selection").field("seen", &self.seen.len()).finish_non_exhaustive()
    }
}

impl Selection {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let mut selection = Self {
            shared,
            programs: Arc::default(),
            seen: HashMap::new(),
            passed_over: HashMap::new(),
            told: HashSet::new(),
            rests_until: Instant::now(),
            containers: Vec::new(),
            marked: Arc::default(),
        };
        selection.take_over();
        selection
    }

    /// Takes over a configuration that has changed: all processes are examined anew.
    fn take_over(&mut self) {
        let config = self.shared.config();
        if *self.programs == config.programs {
            return;
        }
        self.programs = Arc::new(config.programs.clone());
        self.seen.clear();
        // One that asks for more than a container is judged by process.
        let names = self.programs.iter().filter_map(|program| program.container.clone());
        self.containers = names.map(Container::new).collect();
    }

    /// Processes by container of the configuration.
    fn contained(&mut self) -> HashMap<String, HashSet<u32>> {
        let now = Instant::now();
        let processes = self.containers.iter_mut().map(|container| {
            let mut processes = container.target.as_mut().map(Target::processes).unwrap_or_default();
            if processes.is_empty() && now >= container.next {
                container.next = now + CONTAINERS;
                container.find();
                processes = container.target.as_mut().map(Target::processes).unwrap_or_default();
            }
            (container.name.clone(), processes.into_iter().collect())
        });
        processes.collect()
    }

    /// Forgets processes that have ended. Their numbers may be those of others by now, which matters where
    /// they are chosen or their turn has come.
    fn forget(&mut self, there: &HashSet<u32>, now: Instant) {
        self.seen.retain(|pid, seen| {
            let matters = seen.is_chosen || seen.next <= now;
            there.contains(pid) && (!matters || inode(*pid) == Some(seen.inode))
        });
        self.passed_over.retain(|pid, one| {
            let is_there = there.contains(pid) && inode(*pid) == Some(one.inode);
            is_there && !locked(&one.answers).has(*pid)
        });
    }

    /// Those that are to be examined now, with their inodes.
    fn due(&self, there: &HashSet<u32>, now: Instant) -> Vec<(u32, u64)> {
        let is_due = |pid: &u32| {
            !self.passed_over.contains_key(pid) && self.seen.get(pid).is_none_or(|seen| seen.next <= now)
        };
        let mut due: Vec<u32> = there.iter().copied().filter(is_due).collect();
        // New ones first.
        due.sort_unstable_by_key(|pid| (self.seen.contains_key(pid), *pid));
        due.truncate(AT_ONCE);
        due.into_iter().filter_map(|pid| Some((pid, inode(pid)?))).collect()
    }

    /// Examines these.
    fn examine(&mut self, due: &[(u32, u64)]) {
        let contained = self.contained();
        let (programs, marked) = (Arc::clone(&self.programs), Arc::clone(&self.marked));
        let answers = Arc::new(Mutex::new(Answers::new(Instant::now())));
        let (asked, theirs) = (due.to_vec(), Arc::clone(&answers));
        let done = patient::answer(LIMIT, move || {
            for (pid, _) in asked {
                let is_chosen = is_chosen(pid, &programs, &contained, &marked);
                if !locked(&theirs).add(pid, is_chosen, Instant::now()) {
                    break;
                }
            }
        });
        self.take_in(due, &answers, done, Instant::now());
    }

    /// Takes note of what a look found out. One that held it up is passed over; others without an answer
    /// have their turn in the next look.
    fn take_in(
        &mut self,
        due: &[(u32, u64)],
        answers: &Arc<Mutex<Answers>>,
        done: Result<(), NoAnswer>,
        now: Instant,
    ) {
        let mut found = locked(answers);
        found.is_given_up = done.is_err();
        let known: HashMap<u32, bool> = found.known.iter().copied().collect();
        let holder = found.holder(due, now).filter(|_| done == Err(NoAnswer::Late));
        drop(found);
        for &(pid, inode) in due {
            if let Some(is_chosen) = known.get(&pid) {
                self.note((pid, inode), *is_chosen, now);
            }
        }
        if done.is_err() {
            self.rests_until = now + REST;
        }
        if let Some(holder) = holder {
            self.pass_over(holder, Arc::clone(answers), now);
        }
    }

    /// Passes over a process until it has answered: another try would hold up another look, and a thread.
    fn pass_over(&mut self, (pid, inode): (u32, u64), answers: Arc<Mutex<Answers>>, now: Instant) {
        let before = self.seen.get(&pid).is_some_and(|seen| seen.is_chosen);
        self.note((pid, inode), before, now);
        self.passed_over.insert(pid, PassedOver { inode, answers });
        if self.told.len() < MOST_TOLD && self.told.insert(pid) {
            out::say(&format!(
                "warning: process {pid} holds up reading /proc/{pid}: it is passed over until it answers\n"
            ));
        }
    }

    fn note(&mut self, (pid, inode): (u32, u64), is_chosen: bool, now: Instant) {
        let between = self.seen.get(&pid).map_or(FIRST, |seen| (seen.between * 2).min(LONGEST));
        // Within a look others are examined that are as old: their turns shall not stay together.
        let spread = between.mul_f64(f64::from(pid % 16) / 64.0);
        self.seen.insert(pid, Seen { inode, is_chosen, next: now + between + spread, between });
    }
}

impl Choice for Selection {
    fn processes(&mut self) -> Vec<u32> {
        self.take_over();
        let (now, there) = (Instant::now(), numbers());
        self.forget(&there, now);
        if now >= self.rests_until {
            let due = self.due(&there, now);
            if !due.is_empty() {
                self.examine(&due);
            }
        }
        self.seen.iter().filter(|(_, seen)| seen.is_chosen).map(|(pid, _)| *pid).collect()
    }
}

/// Numbers of all processes that /proc shows.
fn numbers() -> HashSet<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Inode of a process's directory in /proc: a later process of the same number has another one. So may the
/// same process once the kernel was short of memory; then it is only examined once more.
fn inode(pid: u32) -> Option<u64> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|directory| directory.ino())
}

/// Whether a process fits any of these.
fn is_chosen(
    pid: u32,
    programs: &[Program],
    contained: &HashMap<String, HashSet<u32>>,
    marked: &MarkedFiles,
) -> bool {
    // A kernel thread has no program.
    let Ok(executable) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return false };
    let (mut command, mut groups, mut ports, mut is_marked) = (None, None, None, None);
    programs.iter().any(|program| {
        let is_file = |pattern: &String| fits_file(executable.as_os_str().as_bytes(), pattern);
        let mut is_command =
            |pattern: &String| wildcard::matches(pattern, command.get_or_insert_with(|| command_line(pid)));
        let mut is_group = |pattern: &String| {
            let groups = groups.get_or_insert_with(|| control_groups(pid));
            groups.iter().any(|group| is_in(group, pattern))
        };
        let mut is_port = |port: u16| ports.get_or_insert_with(|| possible::ports(pid)).contains(&port);
        program.executable.as_ref().is_none_or(is_file)
            && program
                .container
                .as_ref()
                .is_none_or(|name| contained.get(name).is_some_and(|all| all.contains(&pid)))
            && program.command.as_ref().is_none_or(&mut is_command)
            && program.cgroup.as_ref().is_none_or(&mut is_group)
            && program.port.is_none_or(&mut is_port)
            // Last: it reads the maps, and each new file among them.
            && (!program.marked || *is_marked.get_or_insert_with(|| mapped::is_marked(pid.cast_signed(), marked)))
    })
}

/// Whether a link to a program's file fits the pattern, also after the file was replaced.
fn fits_file(link: &[u8], pattern: &str) -> bool {
    let was = link.strip_suffix(DELETED);
    wildcard::matches(pattern, link) || was.is_some_and(|path| wildcard::matches(pattern, path))
}

/// Words of a command line, separated by spaces.
fn command_line(pid: u32) -> Vec<u8> {
    let mut bytes =
        guarded::read_begin(format!("/proc/{pid}/cmdline").as_ref(), COMMAND_BYTES).unwrap_or_default();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    bytes
}

/// Paths of a process's control groups.
fn control_groups(pid: u32) -> Vec<Vec<u8>> {
    let bytes = guarded::read_begin(format!("/proc/{pid}/cgroup").as_ref(), GROUPS_BYTES).unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.splitn(3, |byte| *byte == b':').nth(2)).map(<[u8]>::to_vec).collect()
}

/// Whether a group is the one of the pattern, or below it.
fn is_in(group: &[u8], pattern: &str) -> bool {
    let pattern = format!("/{}", pattern.trim_matches('/'));
    wildcard::matches(&pattern, group) || wildcard::matches(format!("{pattern}/*"), group)
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
