//! Observed use by a program: the CPUs that its threads were allowed, and graphics processors.
//!
//! Affinity may be set from outside, by the program's own options, or by a library, thread by thread: what
//! counts is what the threads had at the last look. It does not measure how much was used.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::patient;

use super::{
    cores::CpuList,
    guest::Guest,
    root::{Root, field},
};

/// Most threads per look, over all processes: each costs 10 us.
const THREADS: usize = 1024;
/// Most processes that are remembered.
const PROCESSES: usize = 4096;
/// Files that only programs that compute on a device open: `nvidia0` alone is also opened by monitoring
/// tools.
const DEVICES: [&str; 4] = ["/dev/nvidia-uvm", "/dev/kfd", "/dev/dri/renderD", "/dev/accel/"];
/// A device beside those, which does not count.
const TOOLS: &str = "/dev/nvidia-uvm-tools";

/// The processes of a program at the last look.
#[derive(Debug)]
pub struct Usage {
    root: Root,
    /// The CPU sets that their threads were allowed, each once.
    allowed: HashMap<u32, Vec<CpuList>>,
    gpu: bool,
    /// Some of them mark phases: the others, such as a shell in front of the program, do not count.
    are_met: bool,
    /// A process made a look wait: none is looked at any more.
    pub is_held_up: bool,
    /// The processes of the last look by `look_now_and_then`, its time, and the time until the next one.
    last: Option<(Vec<u32>, Instant, Duration)>,
}

/// Findings of one look.
#[derive(Debug, Default)]
struct Seen {
    allowed: Vec<(u32, Vec<CpuList>)>,
    gpu: bool,
}

/// First and longest time between looks at the same processes: a program with 500 threads takes 5 ms each.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(8);
/// Limit of a look, which takes some milliseconds unless a process amid an exec makes it wait.
const LOOK: Duration = Duration::from_secs(1);

impl Usage {
    /// Use by programs of the guest below this root, none so far.
    pub fn below(root: Root) -> Self {
        Self { root, allowed: HashMap::new(), gpu: false, are_met: false, is_held_up: false, last: None }
    }

    /// Looks at processes now and then: at new ones at once, at the same ones after 1, 2, 4, 8, 8, ... s.
    pub fn look_now_and_then(&mut self, processes: &[u32], are_met: bool) {
        let mut processes = processes.to_vec();
        processes.sort_unstable();
        let known = self.last.as_ref().filter(|(before, ..)| *before == processes && are_met == self.are_met);
        let between = match known {
            Some((_, at, between)) if at.elapsed() < *between => return,
            Some((_, _, between)) => (*between * 2).min(LONGEST),
            None => FIRST,
        };
        self.look(&processes, are_met);
        self.last = Some((processes, Instant::now(), between));
    }

    /// Looks at processes that mark phases, or do not. A process that has ended and was not waited for still
    /// has its main thread.
    pub fn look(&mut self, processes: &[u32], are_met: bool) {
        if are_met && !self.are_met {
            self.are_met = true;
            self.allowed.clear();
        }
        if are_met != self.are_met || self.is_held_up {
            return;
        }
        let (root, processes) = (self.root.clone(), processes.to_vec());
        let (is_known, mut left) = (self.gpu, THREADS);
        let look = move || {
            let mut seen = Seen { gpu: is_known, ..Seen::default() };
            for pid in processes {
                seen.look_at(&root, pid, &mut left);
            }
            seen
        };
        let Ok(seen) = patient::answer(LOOK, look) else {
            self.is_held_up = true;
            return;
        };
        self.gpu = seen.gpu;
        for (pid, allowed) in seen.allowed {
            if self.allowed.contains_key(&pid) || self.allowed.len() < PROCESSES {
                self.allowed.insert(pid, allowed);
            }
        }
    }

    /// Writes the findings into the guest's facts; without findings they stay unchanged. `has_waited`:
    /// whether threads waited for a device.
    pub fn apply(&self, guest: &mut Guest, has_waited: bool) {
        guest.gpu_used = self.gpu || has_waited;
        let online = &guest.cores.online;
        let seen: Vec<CpuList> = self.allowed.values().flatten().map(|allowed| allowed.and(online)).collect();
        let Some(all) = seen.iter().cloned().reduce(|all, one| all.or(&one)) else { return };
        guest.cores.pinned = seen.iter().all(|one| one.count() < online.count());
        guest.cores.allowed = all;
    }
}

impl Seen {
    fn look_at(&mut self, root: &Root, pid: u32, left: &mut usize) {
        let mut threads: Vec<u32> =
            root.names(&format!("/proc/{pid}/task")).iter().filter_map(|tid| tid.parse().ok()).collect();
        threads.sort_unstable();
        threads.truncate(*left);
        *left -= threads.len();
        let allowed = |tid: u32| {
            let status = root.text(&format!("/proc/{pid}/task/{tid}/status"))?;
            field(&status, "Cpus_allowed_list", ':').and_then(CpuList::parse)
        };
        let mut seen: Vec<CpuList> = Vec::new();
        for one in threads.into_iter().filter_map(allowed) {
            if !seen.contains(&one) {
                seen.push(one);
            }
        }
        if !seen.is_empty() {
            self.allowed.push((pid, seen));
        }
        self.gpu = self.gpu || has_gpu(root, pid);
    }
}

/// Whether the process holds a device open. Only names are read: a stat of a file on a lost server would
/// wait.
fn has_gpu(root: &Root, pid: u32) -> bool {
    let folder = format!("/proc/{pid}/fd");
    root.names(&folder).iter().any(|number| {
        let file = root.link(&format!("{folder}/{number}")).unwrap_or_default();
        DEVICES.iter().any(|device| file.starts_with(device)) && !file.starts_with(TOOLS)
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rstest::rstest;

    use super::Usage;
    use crate::{Guest, Root, Subject};

    fn put(tree: &Path, path: &str, text: &str) {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn allow(tree: &Path, pid: u32, tid: usize, allowed: &str) {
        let text = format!("Name:\tx\nCpus_allowed_list:\t{allowed}\n");
        put(tree, &format!("proc/{pid}/task/{tid}/status"), &text);
    }

    fn of_four(tree: &Path) -> (Usage, Guest) {
        put(tree, "sys/devices/system/cpu/online", "0-3\n");
        let guest = Guest::read(&Root::at(tree), None, Subject::Own);
        (Usage::below(Root::at(tree)), guest)
    }

    fn scenario(usage: &Usage, mut guest: Guest) -> String {
        usage.apply(&mut guest, false);
        guest.scenario().split_once('/').unwrap().1.to_owned()
    }

    /// CPU sets of threads at the last look; expected cores and pinning.
    #[rstest]
    #[case::free(&["0-3", "0-3"], "4/VNL/CPU")]
    #[case::pinned_together(&["1", "1"], "1/PIN/CPU")]
    #[case::pinned_one_by_one(&["0", "3"], "2/PIN/CPU")]
    #[case::one_is_free(&["0", "0-3"], "4/VNL/CPU")]
    #[case::offline_cpus_do_not_count(&["0-7", "0-7"], "4/VNL/CPU")]
    #[case::nothing_was_seen(&[], "4/VNL/CPU")]
    fn the_scenario_says_what_threads_were_allowed(#[case] allowed: &[&str], #[case] expected: &str) {
        let tree = tempfile::tempdir().unwrap();
        let (mut usage, guest) = of_four(tree.path());
        // Before they pinned themselves; one of them ends.
        for (number, _) in allowed.iter().enumerate() {
            allow(tree.path(), 7, 7 + number, "0-3");
            allow(tree.path(), 7, 99, "0-3");
        }
        usage.look(&[7], true);
        let _ = fs::remove_dir_all(tree.path().join("proc/7/task/99"));
        for (number, allowed) in allowed.iter().enumerate() {
            allow(tree.path(), 7, 7 + number, allowed);
        }
        usage.look(&[7], true);
        // The process has ended, and nothing is left of it.
        let _ = fs::remove_dir_all(tree.path().join("proc/7"));
        usage.look(&[7], true);
        assert_eq!(scenario(&usage, guest), expected);
    }

    #[test]
    fn a_shell_in_front_of_a_program_does_not_count() {
        let tree = tempfile::tempdir().unwrap();
        let (mut usage, guest) = of_four(tree.path());
        allow(tree.path(), 5, 5, "0-3");
        allow(tree.path(), 6, 6, "2");
        usage.look(&[5], false);
        assert_eq!(scenario(&usage, guest.clone()), "4/VNL/CPU");
        usage.look(&[6], true);
        usage.look(&[5], false);
        assert_eq!(scenario(&usage, guest), "1/PIN/CPU");
    }

    #[test]
    fn the_same_processes_are_not_looked_at_again_at_once() {
        let tree = tempfile::tempdir().unwrap();
        let (mut usage, guest) = of_four(tree.path());
        let mut look = |processes: &[u32], allowed| {
            allow(tree.path(), 7, 7, allowed);
            usage.look_now_and_then(processes, true);
            scenario(&usage, guest.clone())
        };
        assert_eq!(look(&[7], "2"), "1/PIN/CPU");
        assert_eq!(look(&[7], "0-3"), "1/PIN/CPU");
        assert_eq!(look(&[7, 8], "0-3"), "4/VNL/CPU");
        assert_eq!(look(&[8, 7], "2"), "4/VNL/CPU");
    }

    #[rstest]
    #[case("/dev/nvidia-uvm", "GPU")]
    #[case("/dev/dri/renderD128", "GPU")]
    #[case("/dev/nvidia-uvm-tools", "CPU")]
    #[case("/dev/nvidia0", "CPU")]
    #[case("/dev/null", "CPU")]
    fn a_device_that_is_open_is_used(#[case] file: &str, #[case] expected: &str) {
        let tree = tempfile::tempdir().unwrap();
        let (mut usage, guest) = of_four(tree.path());
        fs::create_dir_all(tree.path().join("proc/7/fd")).unwrap();
        std::os::unix::fs::symlink(file, tree.path().join("proc/7/fd/3")).unwrap();
        usage.look(&[7], true);
        assert_eq!(scenario(&usage, guest), format!("4/VNL/{expected}"));
    }

    #[test]
    fn who_waited_for_a_device_used_it() {
        let tree = tempfile::tempdir().unwrap();
        let (usage, mut guest) = of_four(tree.path());
        usage.apply(&mut guest, true);
        assert!(guest.scenario().ends_with("/GPU"), "{}", guest.scenario());
    }
}
