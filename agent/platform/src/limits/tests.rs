//! Limits and counts of both versions of control groups, from recorded files, and of this guest.

use rstest::rstest;
use tempfile::TempDir;

use super::*;
use crate::samples::unpack;

/// The parent has quota and memory limit, the process's own group the limit of I/O and a wider quota.
const FIRST: &str = "\
== file /proc/7/cgroup
5:cpuset:/p/c
4:blkio:/p/c
3:memory:/p/c
2:cpu,cpuacct:/p/c
== file /proc/self/mountinfo
30 23 0:26 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct
31 23 0:27 / /cg/memory rw - cgroup cgroup rw,memory
32 23 0:28 / /cg/blkio rw - cgroup cgroup rw,blkio
33 23 0:29 / /cg/cpuset rw - cgroup cgroup rw,cpuset
== file /cg/cpu/cpu.cfs_quota_us
-1
== file /cg/cpu/cpu.cfs_period_us
100000
== file /cg/cpu/p/cpu.cfs_quota_us
50000
== file /cg/cpu/p/cpu.cfs_period_us
100000
== file /cg/cpu/p/cpu.stat
nr_periods 300
nr_throttled 120
throttled_time 4500000000
== file /cg/cpu/p/c/cpu.cfs_quota_us
150000
== file /cg/cpu/p/c/cpu.cfs_period_us
100000
== file /cg/cpu/p/c/cpu.stat
nr_periods 300
nr_throttled 0
throttled_time 0
== file /cg/memory/memory.limit_in_bytes
9223372036854771712
== file /cg/memory/p/memory.limit_in_bytes
314572800
== file /cg/memory/p/memory.failcnt
1512345
== file /cg/memory/p/memory.stat
workingset_refault_anon 1
workingset_refault_file 2
total_workingset_refault_anon 30
total_workingset_refault_file 400
== file /cg/memory/p/c/memory.limit_in_bytes
9223372036854771712
== file /cg/blkio/blkio.throttle.read_bps_device
254:0 1
== file /cg/blkio/p/blkio.throttle.read_bps_device
254:0 2
== file /cg/blkio/p/c/blkio.throttle.read_bps_device
254:0 40000000
== file /cg/blkio/p/c/blkio.throttle.write_iops_device
254:16 100
== file /cg/blkio/p/c/blkio.throttle.io_service_bytes
254:0 Read 81920
254:0 Write 4096
254:0 Total 86016
Total 86016
== file /cg/blkio/p/c/blkio.throttle.io_serviced
254:0 Read 20
";

const SECOND: &str = "\
== file /proc/7/cgroup
0::/p/c
== file /proc/self/mountinfo
30 23 0:26 / /cg rw - cgroup2 cgroup2 rw
== file /cg/p/cpu.max
50000 100000
== file /cg/p/cpu.stat
usage_usec 100
nr_periods 300
nr_throttled 120
throttled_usec 4500000
== file /cg/p/c/cpu.max
max 100000
== file /cg/p/memory.max
314572800
== file /cg/p/memory.high
209715200
== file /cg/p/memory.events
low 0
high 900
max 800
oom 0
== file /cg/p/memory.events.local
low 0
high 90
max 80
oom 0
== file /cg/p/memory.stat
workingset_refault_anon 30
workingset_refault_file 400
== file /cg/p/memory.pressure
some avg10=0.00 avg60=0.00 avg300=0.00 total=2500
full avg10=0.00 avg60=0.00 avg300=0.00 total=1500
== file /cg/p/c/memory.max
max
== file /cg/p/io.max
254:0 rbps=40000000 wbps=max riops=max wiops=100
== file /cg/p/io.stat
254:0 rbytes=81920 wbytes=4096 rios=20 wios=1 dbytes=0 dios=0
";

fn found(tree: &TempDir) -> Vec<(Bound, Option<Count>)> {
    let root = Root::at(tree.path());
    bounds(&root, 7).into_iter().map(|bound| (bound.clone(), bound.count(&root))).collect()
}

/// File, group, value, device; hits, periods, ns without quota, amount.
type Told<'a> = ((&'a str, &'a str, u64, &'a str), [u64; 4]);

#[rstest]
#[case::first(FIRST, &[
    (("memory.limit_in_bytes", "/p", 314_572_800, ""), [1_512_345, 0, 0, 0]),
    (("cpu.cfs_quota_us", "/p/c", 150_000_000, ""), [0, 300, 0, 0]),
    (("cpu.cfs_quota_us", "/p", 50_000_000, ""), [120, 300, 4_500_000_000, 0]),
    (("blkio.throttle.read_bps_device", "/p/c", 40_000_000, "254:0"), [0, 0, 0, 81_920]),
    (("blkio.throttle.write_iops_device", "/p/c", 100, "254:16"), [0; 4]),
])]
#[case::second(SECOND, &[
    (("memory.max", "/p", 314_572_800, ""), [80, 0, 0, 0]),
    (("memory.high", "/p", 209_715_200, ""), [90, 0, 0, 0]),
    (("cpu.max", "/p", 50_000_000, ""), [120, 300, 4_500_000_000, 0]),
    (("io.max", "/p", 40_000_000, "254:0"), [0, 0, 0, 81_920]),
    (("io.max", "/p", 100, "254:0"), [0, 0, 0, 1]),
])]
fn limits_have_the_words_of_their_version_and_the_group_that_has_them(
    #[case] files: &str,
    #[case] expected: &[Told<'_>],
) {
    let tree = unpack(files);
    let found = found(&tree);
    let told: Vec<Told<'_>> = found
        .iter()
        .map(|(bound, count)| {
            let Count { hits, periods, without_ns, amount } = count.unwrap();
            let words = (bound.file, bound.group.as_str(), bound.value, bound.device.as_str());
            (words, [hits, periods, without_ns, amount])
        })
        .collect();
    assert_eq!(told, expected);
}

#[rstest]
#[case::first(FIRST, 0)]
#[case::second(SECOND, 2_500_000)]
fn pages_that_came_back_are_counted_over_all_groups_below(#[case] files: &str, #[case] stalled_ns: u64) {
    let tree = unpack(files);
    let memory = found(&tree).remove(0).0;
    assert_eq!(memory.short(&Root::at(tree.path())), Short { refaults: 430, stalled_ns });
}

#[test]
fn a_group_that_is_gone_has_no_counts_and_a_broken_file_no_limit() {
    let tree = unpack(SECOND);
    let before = bounds(&Root::at(tree.path()), 7);
    std::fs::remove_dir_all(tree.path().join("cg/p")).unwrap();
    assert!(before.iter().all(|bound| bound.count(&Root::at(tree.path())).is_none()));
    let broken = FIRST.replace("50000\n", "x\n").replace("314572800", "").replace("254:0 4", "254:0\n");
    let files = bounds(&Root::at(unpack(&broken).path()), 7);
    assert_eq!(files.iter().map(|bound| bound.value).collect::<Vec<_>>(), [100], "{files:?}");
}

const THREADS: &str = "\
== file /sys/devices/system/cpu/online
0-3
== file /proc/7/task/7/status
Cpus_allowed_list:\t0-7
== file /proc/7/task/8/status
Cpus_allowed_list:\t0-1
== file /proc/7/task/9/status
Cpus_allowed_list:\t3
== file /proc/7/task/9/schedstat
100 2500 7
== file /cg/cpuset/cpuset.cpus
0-3
== file /cg/cpuset/p/cpuset.cpus
0-1
== file /cg/cpuset/p/c/cpuset.cpus
0-1
== file /proc/stat
cpu  9 9 9 9 9 9 9 9 9 9
cpu0 1 0 2 30 4 0 0 0 0 0
cpu1 1 0 2 7 0 0 0 0 0 0
intr 7
";

/// Thread 8 has just the CPUs of its set, which the parent limits as well; thread 9 has a mask of its own.
#[test]
fn threads_that_may_not_use_all_cpus_and_who_says_so() {
    let tree = unpack(&format!("{FIRST}{THREADS}"));
    let root = Root::at(tree.path());
    let mut left = 10;
    let masks = masks(&root, 7, &mut left);
    let told: Vec<_> = masks
        .iter()
        .map(|mask| (mask.tid, mask.cpus.text(), mask.others.text(), mask.group.as_deref()))
        .collect();
    let text = |one: &str| one.to_owned();
    assert_eq!(told, [(8, text("0-1"), text("2-3"), Some("/p")), (9, text("3"), text("0-2"), None)]);
    assert_eq!((left, queued_ns(&root, 7, 9), queued_ns(&root, 7, 8)), (7, Some(2_500), None));
    assert_eq!(idle_ns(&root), [(0, 340_000_000), (1, 70_000_000)]);
    let mut none = 0;
    assert_eq!(super::masks(&root, 7, &mut none), []);
}

#[test]
fn this_process_is_read_without_fail() {
    let root = Root::system();
    let own = std::process::id();
    for bound in bounds(&root, own) {
        assert!(bound.count(&root).is_some(), "{bound:?}");
    }
    let mut left = 100;
    let masks = masks(&root, own, &mut left);
    assert!(left < 100 && masks.iter().all(|mask| mask.cpus.count() > 0), "{masks:?}");
    assert!(queued_ns(&root, own, own).is_some() && !idle_ns(&root).is_empty());
}
