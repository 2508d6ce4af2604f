//! The sentence on each kind of limit, in both versions of control groups.

use guestscope_contract::Account;
use rstest::rstest;

use super::*;
use crate::analyze::{Cause, Overlay};

fn limit(kind: Kind, file: &str, group: &str, value: u64) -> Limit {
    Limit { kind, file: file.to_owned(), group: group.to_owned(), value, ..Limit::default() }
}

fn mask(cpus: &str, other_cpus: &str, idle_ns: u64) -> Limit {
    let cpus = cpus.to_owned();
    let base = limit(Kind::Cpus, "Cpus_allowed_list", "", 1);
    Limit { cpus, other_cpus: other_cpus.to_owned(), hit_ns: 12_000_000_000, idle_ns, ..base }
}

const FAULT: Cause = Cause::Overlay(Overlay::Fault);
const RUNQ: Cause = Cause::Account(Account::Runq);

#[rstest]
#[case::memory_1(FAULT, Limit { hits: 1_512_345, refaults: 345_678, ..limit(Kind::Memory, "memory.limit_in_bytes", "/case09", 300_000_000) },
    "cpu.fault: memory.limit_in_bytes of /case09, 300 MB, was hit 1,512,345 times (memory.failcnt); 345,678 pages that had been pushed out came back")]
#[case::memory_2(FAULT, Limit { hits: 1, stalled_ns: 2_500_000_000, ..limit(Kind::Memory, "memory.max", "/a", 300_000_000) },
    "cpu.fault: memory.max of /a, 300 MB, was hit 1 time (memory.events); tasks waited for memory for 2.50 s")]
#[case::io_1(Cause::Account(Account::BlockIo), Limit { device: "vda".to_owned(), hit_ns: 12_300_000_000, ..limit(Kind::Io, "blkio.throttle.read_bps_device", "/case08", 40_000_000) },
    "block_io: blkio.throttle.read_bps_device of /case08, 40.0 MB/s of vda, was reached for 12.3 s")]
#[case::io_2(Cause::Account(Account::BlockIo), Limit { device: "vda".to_owned(), hit_ns: 12_300_000_000, is_count: true, ..limit(Kind::Io, "io.max", "/a", 1_000) },
    "block_io: io.max of /a, 1,000 I/Os/s of vda, was reached for 12.3 s")]
#[case::io_in_a_burst(Cause::Account(Account::BlockIo), Limit { device: "vda".to_owned(), ..limit(Kind::Io, "io.max", "/a", 20_000_000) },
    "block_io: io.max of /a, 20.0 MB/s of vda, held I/Os back")]
#[case::quota_1(Cause::Account(Account::Throttled), Limit { hits: 120, periods: 300, period_ns: 100_000_000, ..limit(Kind::Quota, "cpu.cfs_quota_us", "/p", 50_000_000) },
    "throttled: cpu.cfs_quota_us of /p, 50.0 ms per 100 ms, ran out in 120 of 300 periods")]
#[case::quota_2(Cause::Helper(Account::Throttled), Limit { hits: 1, periods: 1, period_ns: 100_000_000, ..limit(Kind::Quota, "cpu.max", "/p", 50_000_000) },
    "throttled of threads that were waited for: cpu.max of /p, 50.0 ms per 100 ms, ran out in 1 of 1 period")]
#[case::one_other(
    RUNQ,
    mask("0", "1", 9_600_000_000),
    "runq: threads with a mask of CPU 0 alone (taskset, sched_setaffinity) stood in its run queue for 12.0 s; CPU 1 was idle for 80.0 % of that"
)]
#[case::many_others(
    RUNQ,
    mask("0-1", "2-7", 48_000_000_000),
    "runq: threads with a mask of CPUs 0-1 (taskset, sched_setaffinity) stood in their run queues for 12.0 s; on average 4.0 of CPUs 2-7 were idle meanwhile"
)]
#[case::cpuset(RUNQ, Limit { file: "cpuset.cpus".to_owned(), group: "/p".to_owned(), ..mask("0", "1", 9_600_000_000) },
    "runq: threads with cpuset.cpus of /p, CPU 0 alone, stood in its run queue for 12.0 s; CPU 1 was idle for 80.0 % of that")]
fn each_limit_has_its_words(#[case] cause: Cause, #[case] limit: Limit, #[case] expected: &str) {
    let limited = Limited { cause, limit: &limit, crowded: None };
    assert_eq!(words(&limited), expected);
    let json = serde_json::to_value(json(&limited)).unwrap();
    assert_eq!((json["text"].as_str(), json["hits"].as_u64()), (Some(expected), Some(limit.hits)));
}

const DRIVER: Cause = Cause::InDriver;

/// What others and its clocks leave of a graphics processor.
#[rstest]
#[case::shared(Cause::Account(Account::Gpu), Limit { comm: "python".to_owned(), pid: 71, hit_ns: 9, seen_ns: 20, ..gpu(Kind::GpuShared) },
    "gpu: another process, python (pid 71), had GPU 0 for 45.0 % of the time in which requests ran")]
#[case::shared_by_nobody_known(DRIVER, Limit { pid: 71, hit_ns: 9, seen_ns: 0, ..gpu(Kind::GpuShared) },
    "cpu.gpu: another process, pid 71, had GPU 0 for 0 % of the time in which requests ran")]
#[case::held(DRIVER, Limit { file: "sw_power_cap".to_owned(), value: 700, most_mhz: 1_400, hit_ns: 3, seen_ns: 10, ..gpu(Kind::GpuClock) },
    "cpu.gpu: clocks of GPU 0 were held down (sw_power_cap) to 700 of 1,400 MHz, 30.0 % below that on average")]
fn a_graphics_processor_has_its_words(#[case] cause: Cause, #[case] limit: Limit, #[case] expected: &str) {
    assert_eq!(words(&Limited { cause, limit: &limit, crowded: None }), expected);
}

fn gpu(kind: Kind) -> Limit {
    Limit { kind, device: "0".to_owned(), ..Limit::default() }
}

/// Where threads of the run had the CPUs, how much of them.
#[test]
fn threads_in_each_others_way() {
    let limit = mask("0", "1", 0);
    let text = words(&Limited { cause: RUNQ, limit: &limit, crowded: Some(0.41) });
    assert!(text.ends_with("; threads of this run had 41.0 % of the CPU time that was waited for"), "{text}");
}
