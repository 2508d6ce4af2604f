//! Ends processes that a verb has started: politely first, and with everything they started themselves.
//!
//! Yields [`end`] and [`end_tree`], and [`end_with_parent`] and [`kill_with_parent`] for processes that must
//! not outlive their verb. They take a process number and never a name, so that nothing else on the machine
//! can be hit.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        prctl::set_pdeathsig,
        signal::{Signal, kill},
    },
    unistd::{Pid, getpid, getppid},
};

/// How long a process may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes a command end when this process does, even if it is killed. The kernel watches the thread that
/// starts the command: it must not end before the command.
pub(crate) fn end_with_parent(command: &mut Command) {
    signal_with_parent(command, Signal::SIGTERM);
}

/// The same with SIGKILL, for a command that may be stopped then and ignore anything milder.
pub(crate) fn kill_with_parent(command: &mut Command) {
    signal_with_parent(command, Signal::SIGKILL);
}

fn signal_with_parent(command: &mut Command, signal: Signal) {
    let parent = getpid();
    // SAFETY: the closure runs between fork and exec in a child with one thread; it makes two system calls
    // (prctl and getppid) and takes no lock and no memory.
    unsafe {
        command.pre_exec(move || {
            set_pdeathsig(signal)?;
            // The kernel sends no signal for a parent that was killed before the call.
            if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
        });
    }
}

/// Ends one process: SIGTERM, then SIGKILL.
pub(crate) fn end(pid: u32) {
    end_all(&[pid]);
}

/// Ends a process and its descendants.
pub(crate) fn end_tree(pid: u32) {
    let mut tree = vec![pid];
    let parents = parents();
    let mut at = 0;
    while at < tree.len() {
        let parent = tree[at];
        tree.extend(parents.iter().filter(|(_, its_parent)| *its_parent == parent).map(|(child, _)| *child));
        at += 1;
    }
    end_all(&tree);
}

fn end_all(pids: &[u32]) {
    for &pid in pids {
        signal(pid, Signal::SIGTERM);
    }
    let started = Instant::now();
    while started.elapsed() < PATIENCE && pids.iter().any(|&pid| is_running(pid)) {
        thread::sleep(Duration::from_millis(20));
    }
    for &pid in pids.iter().filter(|&&pid| is_running(pid)) {
        signal(pid, Signal::SIGKILL);
    }
}

fn signal(pid: u32, signal: Signal) {
    // 0 and 1 are never ours, and 0 would mean the whole process group.
    if let Ok(pid @ 2..) = i32::try_from(pid) {
        // An error says that the process has ended meanwhile, which is what was asked for.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Whether the process exists and is more than an exit status that nobody has collected.
pub(crate) fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat_fields(&stat))
        .is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat_fields(&stat).map(|(_, parent)| (pid, parent))
        })
        .collect()
}

/// State and parent of a `/proc/PID/stat` line; the name before them may hold blanks and brackets.
fn stat_fields(stat: &str) -> Option<(char, u32)> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::stat_fields;

    #[rstest]
    #[case("12 (sh) S 7 12 12", Some(('S', 7)))]
    #[case("12 (a) R) b) Z 1 12", Some(('Z', 1)))]
    #[case("", None)]
    #[case("12 (sh) S", None)]
    fn the_name_may_hold_anything(#[case] stat: &str, #[case] expected: Option<(char, u32)>) {
        assert_eq!(stat_fields(stat), expected);
    }
}
