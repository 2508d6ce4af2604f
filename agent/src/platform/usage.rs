//! What a program was seen to use while it ran: the CPUs that its threads were allowed, and graphics processors.
//!
//! Affinity may be asked for from outside, in the program's own options, or by a library, thread by thread: what counts is what
//! the threads had when they were looked at, each as it was last seen. It asks nobody who used how much.

use std::collections::HashMap;

use super::{
    Guest,
    cores::CpuList,
    root::{Root, field},
};
use crate::kernel::gpu;

/// Threads of a process that are looked at: each costs 10 us a second.
const THREADS: usize = 256;
/// Threads that are remembered, and descriptors of a process that are looked at.
const MOST: usize = 4096;

/// The threads of a program, as they were last seen.
#[derive(Debug)]
pub struct Usage {
    root: Root,
    /// Major numbers of graphics processors' drivers.
    majors: Vec<u32>,
    allowed: HashMap<u32, CpuList>,
    gpu: bool,
}

impl Usage {
    /// Of programs of the guest below this root.
    pub fn below(root: Root) -> Self {
        let majors = gpu::majors(&root).into_iter().filter(|major| *major > 0).collect();
        Self { root, majors, allowed: HashMap::new(), gpu: false }
    }

    /// Looks at a process: one that has ended and was not waited for still has its main thread.
    pub fn look(&mut self, pid: u32) {
        for thread in self.root.names(&format!("/proc/{pid}/task")).into_iter().take(THREADS) {
            let Ok(tid) = thread.parse() else { continue };
            let status = self.root.text(&format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
            let allowed = field(&status, "Cpus_allowed_list", ':').and_then(CpuList::parse);
            if let Some(allowed) = allowed
                && (self.allowed.len() < MOST || self.allowed.contains_key(&tid))
            {
                self.allowed.insert(tid, allowed);
            }
        }
        self.gpu = self.gpu || (!self.majors.is_empty() && self.has_gpu(pid));
    }

    /// Whether it holds a device open.
    fn has_gpu(&self, pid: u32) -> bool {
        let folder = format!("/proc/{pid}/fd");
        self.root.names(&folder).into_iter().take(MOST).any(|number| {
            let device = self.root.device(&format!("{folder}/{number}"));
            device.is_some_and(|device| self.majors.contains(&libc::major(device)))
        })
    }

    /// Puts what was seen into the guest's facts. Nothing was seen: they stay.
    pub fn apply(&self, guest: &mut Guest) {
        guest.gpu_used = self.gpu;
        let online = &guest.cores.online;
        let seen: Vec<CpuList> = self.allowed.values().map(|allowed| allowed.and(online)).collect();
        let Some(all) = seen.iter().cloned().reduce(|all, one| all.or(&one)) else { return };
        guest.cores.pinned = seen.iter().all(|one| one.count() < online.count());
        guest.cores.allowed = all;
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rstest::rstest;

    use super::Usage;
    use crate::platform::{Guest, Root, Subject};

    fn put(tree: &Path, path: &str, text: &str) {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Four CPUs; what threads are allowed, in the order of two looks; cores and pinning.
    #[rstest]
    #[case::free(&["0-3", "0-3"], "4/VNL")]
    #[case::pinned_together(&["1", "1"], "1/PIN")]
    #[case::pinned_one_by_one(&["0", "3"], "2/PIN")]
    #[case::one_is_free(&["0", "0-3"], "4/VNL")]
    #[case::offline_cpus_do_not_count(&["0-7", "0-7"], "4/VNL")]
    #[case::nothing_was_seen(&[], "4/VNL")]
    fn the_scenario_says_what_threads_were_allowed(#[case] allowed: &[&str], #[case] expected: &str) {
        let tree = tempfile::tempdir().unwrap();
        put(tree.path(), "sys/devices/system/cpu/online", "0-3\n");
        let root = Root::at(tree.path());
        let mut guest = Guest::read(&root, None, Subject::Own);
        let mut usage = Usage::below(root);
        // Before they pinned themselves.
        for round in [None, Some(allowed)] {
            for (number, allowed) in allowed.iter().enumerate() {
                let allowed = round.map_or("0-3", |_| *allowed);
                let path = format!("proc/7/task/{}/status", number + 7);
                put(tree.path(), &path, &format!("Name:\tx\nCpus_allowed_list:\t{allowed}\n"));
            }
            usage.look(7);
        }
        usage.apply(&mut guest);
        assert!(guest.scenario().ends_with(&format!("/{expected}/CPU")), "{}", guest.scenario());
    }

    #[test]
    fn a_device_that_is_open_is_used() {
        let mut usage = Usage::below(Root::system());
        // /dev/null stands for one: its major number is 1 everywhere.
        usage.majors = vec![1];
        let mut guest = Guest::here();
        let null = fs::File::open("/dev/null").unwrap();
        usage.look(std::process::id());
        usage.apply(&mut guest);
        assert!(guest.scenario().ends_with("/GPU"), "{}", guest.scenario());
        drop(null);
        assert!(Guest::here().scenario().ends_with("/CPU"));
    }
}
