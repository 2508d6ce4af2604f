//! An excess is divided among its causes without remainder; only what exceeds chance gets a name.

use guestscope_contract::Source;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::analyze::samples::Sample;

const CPU: usize = Account::Cpu as usize;
const MS: u64 = 1_000_000;

fn split(cpu_ns: u64, stolen_ns: u64, samples: [u64; Overlay::ALL.len()]) -> Split {
    let mut split = Split::default();
    split.accounts[CPU] = cpu_ns;
    split.steal = stolen_ns;
    split.sampled = samples.map(|samples| samples * SAMPLE_NS);
    split
}

/// Off its thread a request of a socket may well run, on another one: it is not said to be suspended.
#[rstest]
#[case(Source::Python, Cause::Suspended)]
#[case(Source::Socket, Cause::Handoff)]
fn time_off_the_thread_is_called_by_what_is_known_of_it(#[case] source: Source, #[case] cause: Cause) {
    let request = Sample::new(1, 0, Vec::new()).build();
    let split = Split::of(&Phase { source, suspended_ns: MS, ..request.root().clone() });
    let found: Vec<(Cause, u64)> = split.time().filter(|part| part.1 > 0).collect();
    assert_eq!(found, [(cause, MS)]);
}

/// Where the slow requests together have a share, one with few samples has it as well, up to what chance may
/// have hidden; one whose samples tell enough goes by these.
#[rstest]
#[case::few(split(14 * MS, 0, [1, 0, 0, 0]), &[("cpu", 2), ("cpu.spin", 2)])]
#[case::none_of_few(split(14 * MS, 0, [0, 0, 0, 0]), &[("cpu", 2), ("cpu.spin", 2)])]
#[case::none_of_many(split(410 * MS, 0, [0, 0, 0, 0]), &[("cpu", 396), ("cpu.spin", 4)])]
#[case::enough(split(110 * MS, 0, [45, 0, 0, 0]), &[("cpu", 10), ("cpu.spin", 90)])]
#[case::less_than_usual(split(9 * MS, 0, [0, 0, 0, 0]), &[("cpu", -1)])]
fn shares_of_the_group_hold_for_each(#[case] slow: Split, #[case] expected: &[(&str, i64)]) {
    let typical = split(10 * MS, 0, [0; 4]);
    let parts = slow.excess(&typical, &[0.5, 0.0, 0.0, 0.0]).filter(|part| part.1 != 0);
    let parts: Vec<_> =
        parts.map(|(cause, ns)| (cause.name(), (ns as f64 / MS as f64).round() as i64)).collect();
    assert_eq!(parts, expected);
}

fn excess_ms(slow: &Split, typical: &Split) -> Vec<(&'static str, i64)> {
    let parts = slow.excess(typical, &[0.0; 4]).filter(|part| part.1 != 0);
    parts.map(|(cause, ns)| (cause.name(), (ns as f64 / MS as f64).round() as i64)).collect()
}

#[rstest]
#[case::own_code(split(30 * MS, 0, [0, 0, 0, 0]), &[("cpu", 20)])]
#[case::busy_waiting(split(30 * MS, 0, [20, 1, 0, 0]), &[("cpu.spin", 20)])]
#[case::faults_and_the_calls_around_them(split(35 * MS, 0, [0, 8, 5, 0]), &[("cpu", 1), ("cpu.fault", 14), ("cpu.syscall", 10)])]
#[case::what_interrupts_left(split(30 * MS, 0, [0, 1, 0, 6]), &[("cpu", 8), ("cpu.irq", 12)])]
// Three samples may be chance.
#[case::too_few_samples(split(14 * MS, 0, [3, 0, 0, 0]), &[("cpu", 4)])]
// What the hypervisor took was nobody's doing; samples cannot claim more than what is left.
#[case::after_what_was_stolen(split(30 * MS, 15 * MS, [0, 20, 0, 0]), &[("steal", 15), ("cpu.fault", 5)])]
fn what_samples_found_more_of_has_a_name(#[case] slow: Split, #[case] expected: &[(&str, i64)]) {
    let typical = split(10 * MS, 0, [0, 1, 0, 0]);
    assert_eq!(excess_ms(&slow, &typical), expected);
}

/// A pause is taken from the causes with the largest excess; the rest is still to be explained.
#[test]
fn a_pause_explains_whichever_accounts_it_lies_in() {
    let lock = Account::Lock as usize;
    let typical = split(10 * MS, 0, [0; 4]);
    let mut slow = split(110 * MS, 0, [0; 4]);
    slow.pause = 98 * MS;
    assert_eq!(excess_ms(&slow, &typical), [("cpu", 2), ("pause", 98)]);
    // Most of it while the thread waited, the rest while it ran.
    (slow.accounts[lock], slow.accounts[CPU], slow.pause) = (80 * MS, 40 * MS, 100 * MS);
    assert_eq!(excess_ms(&slow, &typical), [("cpu", 10), ("pause", 100)]);
    // What always happens explains no excess, and no more is explained than there is.
    let mut usual = typical;
    usual.pause = 90 * MS;
    assert_eq!(excess_ms(&slow, &usual), [("cpu", 30), ("lock", 70), ("pause", 10)]);
    slow.accounts[lock] = 0;
    assert_eq!(excess_ms(&slow, &typical), [("pause", 30)]);
}

/// Waits for the lock of the address space come out of page faults first, then out of calls, and no more than
/// is there; helpers explain only what is left.
#[rstest]
#[case::faults_alone(30, 0, 20, 0, &[("fault", 10), ("address_space", 20)])]
#[case::faults_and_calls(30, 20, 40, 0, &[("other", 10), ("address_space", 40)])]
#[case::more_than_there_is(5, 0, 9, 0, &[("address_space", 5)])]
#[case::before_helpers(0, 30, 20, 30, &[("address_space", 20), ("helper.runq", 10)])]
fn waits_for_the_address_space_are_one_cause(
    #[case] fault: u64,
    #[case] other: u64,
    #[case] waited: u64,
    #[case] kept: u64,
    #[case] expected: &[(&str, i64)],
) {
    let mut slow = split(10 * MS, 0, [0; 4]);
    slow.accounts[Account::Fault as usize] = fault * MS;
    slow.accounts[Account::Other as usize] = other * MS;
    (slow.address_space, slow.kept_waiting[0]) = (waited * MS, kept * MS);
    assert_eq!(excess_ms(&slow, &split(10 * MS, 0, [0; 4])), expected);
}

/// A stop comes out of what has no account, no more than is there, and before helpers.
#[rstest]
#[case::all_of_it(30, 30, 20, &[("stopped", 30)])]
#[case::more_than_there_is(5, 9, 0, &[("stopped", 5)])]
#[case::the_rest_may_be_helpers(30, 20, 4, &[("other", 6), ("stopped", 20), ("helper.runq", 4)])]
fn stops_are_a_cause(
    #[case] other: u64,
    #[case] stopped: u64,
    #[case] kept: u64,
    #[case] expected: &[(&str, i64)],
) {
    let mut slow = split(10 * MS, 0, [0; 4]);
    slow.accounts[Account::Other as usize] = other * MS;
    (slow.stopped, slow.kept_waiting[0]) = (stopped * MS, kept * MS);
    assert_eq!(excess_ms(&slow, &split(10 * MS, 0, [0; 4])), expected);
}

/// Waits for reads get what the kernel and then the hypervisor did meanwhile, the largest first, up to the
/// time for which the reads were under way.
#[rstest]
#[case::a_disk_of_its_own_cpus(2, 0, 30, [0, 0, 5, 6], 10, &[("block_io", 30), ("steal", 4)])]
#[case::reads_that_ended_sooner(2, 0, 15, [0, 0, 5, 6], 10, &[("block_io", 15), ("steal", 10), ("cpu.syscall", 9)])]
#[case::faults_that_read(2, 9, 40, [0, 8, 0, 0], 0, &[("block_io", 2), ("fault", 25)])]
#[case::calls_are_no_faults(0, 9, 40, [0, 0, 8, 0], 0, &[("fault", 9), ("cpu.syscall", 16)])]
#[case::own_code_is_its_own(2, 0, 40, [0, 0, 0, 0], 0, &[("cpu", 20), ("block_io", 2)])]
#[case::no_wait_for_them(0, 0, 40, [0, 0, 8, 0], 0, &[("cpu.syscall", 16)])]
#[case::no_reads(9, 0, 0, [0, 0, 8, 0], 0, &[("block_io", 9), ("cpu.syscall", 16)])]
fn reads_take_the_work_that_they_are(
    #[case] block_io: u64,
    #[case] fault: u64,
    #[case] reading: u64,
    #[case] samples: [u64; Overlay::ALL.len()],
    #[case] stolen: u64,
    #[case] expected: &[(&str, i64)],
) {
    let sampled = 2 * samples.iter().sum::<u64>();
    let own = if sampled == 0 { 20 } else { 0 };
    let mut slow = split((10 + sampled + stolen + own) * MS, stolen * MS, samples);
    slow.accounts[Account::BlockIo as usize] = block_io * MS;
    slow.accounts[Account::Fault as usize] = fault * MS;
    slow.reading = reading * MS;
    assert_eq!(excess_ms(&slow, &split(10 * MS, 0, [0; 4])), expected);
}

/// Where a phase reads and writes, its reads have the part of the I/Os' time that they have of the bytes.
#[rstest]
#[case::reads_alone(4096, 0, 30)]
#[case::both(4096, 8192, 10)]
#[case::writes_alone(0, 8192, 0)]
#[case::no_bytes(0, 0, 0)]
fn time_of_reads_goes_by_bytes(#[case] read: u64, #[case] written: u64, #[case] expected_ms: u64) {
    let mut phase = Sample::new(1, 0, Vec::new()).build().root().clone();
    (phase.counts.block_queue_ns, phase.counts.block_device_ns) = (10 * MS, 20 * MS);
    (phase.counts.block_read_bytes, phase.counts.block_write_bytes) = (read, written);
    assert_eq!(Split::of(&phase).reading, expected_ms * MS);
}

#[test]
fn what_is_always_sampled_explains_no_excess() {
    let typical = split(40 * MS, 0, [20, 0, 0, 0]);
    assert_eq!(excess_ms(&split(60 * MS, 0, [22, 0, 0, 0]), &typical), [("cpu", 20)]);
}

fn any_split() -> impl Strategy<Value = Split> {
    proptest::collection::vec(0..1_u64 << 40, CELLS).prop_map(|numbers| {
        let mut split = Split::default();
        split.cells_mut().zip(numbers).for_each(|(cell, number)| *cell = number);
        split
    })
}

proptest! {
    #[test]
    fn parts_add_up_to_the_difference(slow in any_split(), typical in any_split()) {
        let parts: i128 = slow.excess(&typical, &[0.0; 4]).map(|(_, ns)| i128::from(ns)).sum();
        prop_assert_eq!(parts, slow.total_ns() as i128 - typical.total_ns() as i128);
    }
}
