//! How long I/Os took, against the kernel's own counters of a device that nobody else uses.

use rstest::rstest;

use crate::{
    accounts::compared,
    agreement::{self, up_to},
    harness::Case,
};

/// A sector of /sys/block/loopN/stat.
const SECTOR: u64 = 512;
/// Their time is in whole milliseconds, cut off at both readings.
const MS: u64 = 1_000_000;
/// In which the second case submits.
const BATCHES: u64 = 100;
/// Theirs is from the allocation of a request until all of its pages are handed back, ours from when it is filled in until the
/// device says that it is done: measured 0.6 to 1.5 us less for each.
const EDGES_NS: u64 = 3_000;

/// One by one, and many at once, of which half are merged into others.
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
        let Some(seen) = compared(case, name, 1, 0) else { return };
        let (counts, [ios, sectors, ms]) =
            (seen.request(1).counts, ["ios", "sectors", "ms"].map(|name| seen.book.fact(name)));
        agreement::count(name, "ios", counts.block_io, (ios, ios));
        agreement::count(name, "bytes", counts.block_read_bytes, (sectors * SECTOR, sectors * SECTOR));
        let took_ns = counts.block_queue_ns + counts.block_device_ns;
        // The kernel reads the clock once for all that are submitted together: by then the last of them was not there yet.
        let too_early_ns = seen.book.fact("submitting") * ios / BATCHES;
        let bounds = ((ms.saturating_sub(1) * MS).saturating_sub(too_early_ns), (ms + 1) * MS);
        agreement::time(name, "io time", took_ns, bounds, ios * EDGES_NS);
        assert!(counts.block_device_ns > 0, "the device took its time: {counts:?}");
        assert!(counts.block_queue_ns > 0, "it did not have them at once: {counts:?}");
        assert_eq!(seen.pairing.late_ios, 0);
    });
}
