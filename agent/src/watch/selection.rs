//! Which processes are observed: those that fit the configuration, also those that start later.
//!
//! A process is examined when it is first seen, and again after 1, 2, 4, ... s, at last every few minutes: it
//! may execute another program, join a control group or open a port. Children of an observed process are
//! followed by the kernel side, whatever they run. What it says of itself is read by a
//! thread that is given up if the process holds it up.

use std::{
    collections::{HashMap, HashSet},
    os::unix::ffi::OsStrExt as _,
    sync::Arc,
    time::{Duration, Instant},
};

use guestscope_base::wildcard;
use guestscope_kernel::attach::{Choice, Target, Wanted};

use super::{shared::Shared, tables::Program};
use crate::{guarded, loader::marks::MarkedFiles, patient, session::possible, sources::mapped};

/// First time between two examinations of a process.
const FIRST: Duration = Duration::from_secs(1);
/// Longest such time: 10,000 processes cost some 0.2 % of a CPU.
const LONGEST: Duration = Duration::from_secs(256);
/// Time limit for examining processes.
const LIMIT: Duration = Duration::from_secs(2);
/// Most processes examined in one look: the others have their turn in the next ones.
const AT_ONCE: usize = 4096;
/// Most bytes read of a command line, and of a list of control groups.
const COMMAND_BYTES: u64 = 4096;
const GROUPS_BYTES: u64 = 64 << 10;
/// Time between two searches for a container that is not there.
const CONTAINERS: Duration = Duration::from_secs(5);

/// The choice of processes.
pub(super) struct Selection {
    shared: Arc<Shared>,
    programs: Arc<Vec<Program>>,
    seen: HashMap<u32, Seen>,
    containers: Vec<Container>,
    /// Files that were looked at for the marker.
    marked: Arc<MarkedFiles>,
}

/// What is known of a process.
#[derive(Clone, Copy, Debug)]
struct Seen {
    is_chosen: bool,
    /// When it is examined next, and how long after that again.
    next: Instant,
    between: Duration,
}

/// A container that is chosen as a whole.
#[derive(Debug)]
struct Container {
    name: String,
    target: Option<Target>,
    next: Instant,
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
        self.containers = names.map(|name| Container { name, target: None, next: Instant::now() }).collect();
    }

    /// Processes by container of the configuration.
    fn contained(&mut self) -> HashMap<String, HashSet<u32>> {
        let now = Instant::now();
        let processes = self.containers.iter_mut().map(|container| {
            let mut processes = container.target.as_mut().map(Target::processes).unwrap_or_default();
            if processes.is_empty() && now >= container.next {
                container.next = now + CONTAINERS;
                container.target = Target::find(Wanted::Container(&container.name)).ok();
                processes = container.target.as_mut().map(Target::processes).unwrap_or_default();
            }
            (container.name.clone(), processes.into_iter().collect())
        });
        processes.collect()
    }

    /// Those that are to be examined now.
    fn due(&mut self, there: &HashSet<u32>, now: Instant) -> Vec<u32> {
        self.seen.retain(|pid, _| there.contains(pid));
        let is_due = |pid: &&u32| self.seen.get(pid).is_none_or(|seen| seen.next <= now);
        let mut due: Vec<u32> = there.iter().filter(is_due).copied().collect();
        // New ones first.
        due.sort_unstable_by_key(|pid| (self.seen.contains_key(pid), *pid));
        due.truncate(AT_ONCE);
        due
    }

    fn note(&mut self, pid: u32, is_chosen: bool, now: Instant) {
        let between = self.seen.get(&pid).map_or(FIRST, |seen| (seen.between * 2).min(LONGEST));
        // Within a look others are examined that are as old: their turns shall not stay together.
        let spread = between.mul_f64(f64::from(pid % 16) / 64.0);
        self.seen.insert(pid, Seen { is_chosen, next: now + between + spread, between });
    }
}

impl Choice for Selection {
    fn processes(&mut self) -> Vec<u32> {
        self.take_over();
        let (now, there) = (Instant::now(), numbers());
        let due = self.due(&there, now);
        if !due.is_empty() {
            let contained = self.contained();
            let (programs, marked) = (Arc::clone(&self.programs), Arc::clone(&self.marked));
            let asked = due.clone();
            let examined = patient::answer(LIMIT, move || {
                let fits = |pid: &u32| is_chosen(*pid, &programs, &contained, &marked);
                asked.into_iter().filter(fits).collect::<HashSet<u32>>()
            });
            for pid in due {
                // One that holds up the look is examined again like the others.
                let before = self.seen.get(&pid).is_some_and(|seen| seen.is_chosen);
                let is_chosen = examined.as_ref().map_or(before, |chosen| chosen.contains(&pid));
                self.note(pid, is_chosen, now);
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
        let is_file = |pattern: &String| wildcard::matches(pattern, executable.as_os_str().as_bytes());
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
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/system.slice/web.service", "system.slice/web.service", true)]
    #[case("/system.slice/web.service/inner", "/system.slice/web.service", true)]
    #[case("/system.slice/web.service2", "system.slice/web.service", false)]
    #[case("/kubepods/burstable/pod1/abc", "kubepods/*/pod1", true)]
    #[case("/", "a", false)]
    fn groups(#[case] group: &str, #[case] pattern: &str, #[case] is_inside: bool) {
        assert_eq!(is_in(group.as_bytes(), pattern), is_inside);
    }

    #[test]
    fn a_process_is_chosen_by_all_that_is_given() {
        let own = std::process::id();
        let program = |text: &str| -> Vec<Program> { vec![toml::from_str(text).expect("it is a table")] };
        let fits = |text: &str| is_chosen(own, &program(text), &HashMap::new(), &MarkedFiles::default());
        assert!(fits("executable = '*'"));
        assert!(fits("executable = '*deps*'\ncommand = '*'"));
        assert!(!fits("executable = '*deps*'\ncommand = 'no such command'"));
        assert!(!fits("container = 'web'"));
        assert!(!fits("marked = true"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has one").port();
        assert!(fits(&format!("port = {port}")));
        drop(listener);
        assert!(!fits(&format!("port = {port}")));
    }
}
