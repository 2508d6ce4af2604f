//! What is seen of limits on recorded files, step by step, and on this guest.

use std::fs;

use tempfile::TempDir;

use super::{watch::Watch, *};
use crate::{
    limits::{Kind, Limit},
    platform::unpack,
};

const STEP_NS: u64 = 100_000_000;

const GROUPS: &str = "\
== file /proc/7/cgroup
0::/a
== file /proc/self/mountinfo
30 23 0:26 / /cg rw - cgroup2 cgroup2 rw
";

struct Guest {
    tree: TempDir,
    watch: Watch,
    steps: u64,
}

impl Guest {
    fn new(files: &str) -> Self {
        let tree = unpack(&format!("{GROUPS}{files}"));
        let watch = Watch::new(Root::at(tree.path()), 0);
        let mut guest = Self { tree, watch, steps: 0 };
        guest.watch.look(&[7]);
        guest
    }

    fn put(&mut self, path: &str, text: &str) -> &mut Self {
        fs::write(self.tree.path().join(path), text).unwrap();
        self
    }

    fn step(&mut self) {
        self.steps += 1;
        self.watch.step(self.steps * STEP_NS);
    }

    fn only(self) -> Limit {
        let mut limits = self.watch.so_far();
        assert_eq!(limits.len(), 1, "{limits:?}");
        limits.remove(0)
    }
}

fn memory(max: u64) -> String {
    format!("low 0\nhigh 0\nmax {max}\n")
}

#[test]
fn memory_that_is_full_is_seen_step_by_step_and_what_was_before_does_not_count() {
    let files = "== file /cg/a/memory.max\n1000\n== file /cg/a/memory.events.local\nmax 70\n\
                 == file /cg/a/memory.stat\nworkingset_refault_file 5\n";
    let mut guest = Guest::new(files);
    for (max, refaults) in [(70, 5), (170, 25), (170, 90), (171, 95)] {
        guest.put("cg/a/memory.events.local", &memory(max));
        guest.put("cg/a/memory.stat", &format!("workingset_refault_file {refaults}\n")).step();
    }
    let limit = guest.only();
    assert_eq!((limit.kind, limit.hits, limit.refaults), (Kind::Memory, 101, 90));
    assert_eq!((limit.when.amounts, limit.when_refaults.amounts), (vec![0, 100, 0, 1], vec![0, 20, 0, 70]));
}

#[test]
fn a_quota_that_runs_out_and_one_that_does_not() {
    let files = "== file /cg/a/cpu.max\n50000 100000\n\
                 == file /cg/a/cpu.stat\nnr_periods 10\nnr_throttled 3\nthrottled_usec 40\n";
    let mut guest = Guest::new(files);
    guest.step();
    guest.put("cg/a/cpu.stat", "nr_periods 12\nnr_throttled 4\nthrottled_usec 90\n").step();
    let limit = guest.only();
    assert_eq!((limit.hits, limit.periods, limit.hit_ns, limit.period_ns), (1, 2, 50_000, STEP_NS));
    let mut guest = Guest::new(files);
    guest.step();
    let limit = guest.only();
    assert_eq!((limit.hits, limit.hit_ns, limit.when.is_empty()), (0, 0, true), "it is there, and not hit");
}

/// Bytes of each step, at 10 MB/s: 1 MB is what passes in a step.
fn at_device(each: &[u64]) -> Limit {
    let mut guest = Guest::new("== file /cg/a/io.max\n254:0 rbps=10000000 wbps=max\n== file /cg/a/io.stat\n");
    let mut sum = 0;
    for bytes in each {
        sum += bytes;
        guest.put("cg/a/io.stat", &format!("254:0 rbytes={sum} wbytes=0 rios=1 wios=0\n")).step();
    }
    guest.only()
}

#[test]
fn an_io_limit_is_reached_by_a_rate_or_by_what_is_asked_for_at_once() {
    let mb = 1_000_000;
    let steady = at_device(&[mb; 10]);
    assert_eq!((steady.hit_ns, steady.value, &*steady.device), (7 * STEP_NS, 10_000_000, "254:0"));
    assert_eq!(at_device(&[mb / 2; 10]).hit_ns, 0, "half of what it may");
    let burst = at_device(&[0, 5 * mb, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(burst.when.amounts, [0, STEP_NS, STEP_NS, STEP_NS, STEP_NS], "four steps to work off");
}

#[test]
fn a_queue_of_pinned_threads_is_weighed_with_the_idle_time_of_the_other_cpu() {
    let files = "== file /sys/devices/system/cpu/online\n0-1\n\
                 == file /proc/7/task/7/status\nCpus_allowed_list:\t0\n\
                 == file /proc/7/task/7/schedstat\n1 1000 1\n\
                 == file /proc/stat\ncpu0 0 0 0 100 0\ncpu1 0 0 0 100 0\n";
    let mut guest = Guest::new(files);
    for (queued, idle) in [(1000, 110), (80_001_000, 118), (90_001_000, 118)] {
        guest.put("proc/7/task/7/schedstat", &format!("1 {queued} 1\n"));
        guest.put("proc/stat", &format!("cpu0 0 0 0 100 0\ncpu1 0 0 0 {idle} 0\n")).step();
    }
    let limit = guest.only();
    assert_eq!((&*limit.cpus, &*limit.other_cpus, &*limit.file), ("0", "1", "Cpus_allowed_list"));
    assert_eq!((limit.hit_ns, limit.idle_ns), (90_000_000, 64_000_000));
    assert_eq!(limit.when.amounts, [0, 64_000_000]);
}

#[test]
fn without_a_mask_no_queue_is_read() {
    let files = "== file /sys/devices/system/cpu/online\n0-1\n\
                 == file /proc/7/task/7/status\nCpus_allowed_list:\t0-1\n\
                 == file /proc/7/task/7/schedstat\n1 1000 1\n";
    let mut guest = Guest::new(files);
    guest.put("proc/7/task/7/schedstat", "1 900000000 1\n").step();
    assert_eq!(guest.watch.so_far(), []);
}

#[test]
fn the_thread_ends_when_it_is_asked_to() {
    let mut limits = Limits::start(vec![std::process::id()], None, || ());
    limits.observe(vec![std::process::id()]);
    let found = limits.finish();
    assert!(found.iter().all(|limit| !limit.file.is_empty()), "{found:?}");
    assert_eq!(limits.finish(), []);
}
