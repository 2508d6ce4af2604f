//! Durations of I/Os, compared with the kernel's own counters of a device that only this test uses.

use rstest::rstest;

use crate::{
    accounts::compared,
    agreement::{self, up_to},
    harness::Case,
    machine::{TICK_NS, steal_ns},
};

/// Bytes of a sector in /sys/block/loopN/stat.
const SECTOR: u64 = 512;
/// ns of a millisecond: the kernel's times are whole milliseconds, rounded down at both readings.
const MS: u64 = 1_000_000;
/// Batches that the second case submits.
const BATCHES: u64 = 100;
/// The kernel's time of an I/O runs from the allocation of its request until all its pages are handed back,
/// ours from when it is filled in until the device has finished it: measured 0.6 to 1.5 us less for each, and
/// on a slower processor 41 to 52 ns for each page, with 128 or 256 pages to an I/O.
const EDGES_NS: u64 = 3_000;
const PAGE_NS: u64 = 60;
const SECTORS_OF_A_PAGE: u64 = 8;
/// On 6.18 the ends of some I/Os reach no BPF program (the summary counts those whose place another one
/// took): 2 of 400 seen.
const UNSEEN_SHARE: u64 = 100;

/// One by one, and many at once, half of which are merged.
#[rstest]
#[case::one_by_one("loop_reads", false)]
#[case::one_by_one_without_types("loop_reads", true)]
#[case::in_batches("loop_batches", false)]
fn ios_are_counted_with_their_time(#[case] name: &'static str, #[case] is_raw: bool) {
    up_to(8, || {
        let mut case = Case::new(name);
        if is_raw {
            case = case.by_file("/sys/kernel/btf/vmlinux");
        }
        let before_ns = steal_ns();
        let Some(seen) = compared(case, name, 1, 0) else { return };
        // The kernel's clock of an I/O ends after the wakeup of its thread, ours before it. A wakeup by an
        // interrupt to another CPU, which the hypervisor has to deliver, took 17 to 130 us, and as much was
        // stolen.
        let stolen_ns = match steal_ns() - before_ns {
            0 => 0,
            stolen_ns => stolen_ns + TICK_NS,
        };
        let (counts, [ios, sectors, ms]) =
            (seen.request(1).counts, ["ios", "sectors", "ms"].map(|name| seen.book.fact(name)));
        agreement::count_again_within(name, "ios", counts.block_io, (ios, ios), ios / UNSEEN_SHARE);
        let unseen_ns = ms * MS / ios.max(1) * ios.saturating_sub(counts.block_io);
        agreement::count_again(name, "bytes", counts.block_read_bytes, (sectors * SECTOR, sectors * SECTOR));
        let took_ns = counts.block_queue_ns + counts.block_device_ns;
        // The kernel reads the clock once for all I/Os that are submitted together, before the last of them
        // exists.
        let too_early_ns = seen.book.fact("submitting") * ios / BATCHES;
        let bounds = ((ms.saturating_sub(1) * MS).saturating_sub(too_early_ns), (ms + 1) * MS);
        let edges_ns = ios * EDGES_NS + sectors / SECTORS_OF_A_PAGE * PAGE_NS + unseen_ns + stolen_ns;
        agreement::time(name, "io time", took_ns, bounds, edges_ns);
        assert!(counts.block_device_ns > 0, "the device took its time: {counts:?}");
        assert!(counts.block_queue_ns > 0, "it did not have them at once: {counts:?}");
        assert_eq!(seen.pairing.late_ios, 0);
    });
}
