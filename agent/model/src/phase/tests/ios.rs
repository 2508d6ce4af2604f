//! I/Os that are done: to which phases their times are added, and which come too late for that.

use guestscope_contract::{Header, IO_OF_RING, IO_WRITES, IoRecord, Kind, ledger::Ledger};
use insta::assert_snapshot;

use super::{
    play,
    script::{self, Line},
};

/// An I/O that is done here: `from=TIME issued=TIME`, never issued without the second. One of io_uring with
/// `ring=read` or `ring=write`.
pub(super) fn record(line: &Line<'_>, ledger: &Ledger) -> IoRecord {
    let number = |key: &str| line.value(key).map_or(0, |value| value.parse().unwrap());
    let flags = match line.value("ring=") {
        None => 0,
        Some("read") => IO_OF_RING,
        Some("write") => IO_OF_RING | IO_WRITES,
        Some(unknown) => panic!("no direction: {unknown}"),
    };
    IoRecord {
        header: Header { kind: Kind::Io as u32, flags, time_ns: line.time_ns },
        born_ns: ledger.born_ns,
        submitted_ns: number("from="),
        issued_ns: number("issued="),
        tid: ledger.tid,
        tgid: ledger.tgid,
    }
}

#[test]
fn an_io_belongs_to_the_phases_that_it_was_submitted_in() {
    assert_snapshot!(play("
        0   10/10 adopt
        50  10/10 io from=20 issued=21
        100 10/10 request 262144 job #1
        130 10/10 io from=110 issued=112 +reads 1
        140 10/10 begin 262145 inner
        180 10/10 io from=150 issued=155 +reads 1
        190 10/10 end 262145
        200 10/10 end 262144
        230 10/10 exit
    "), @"
    request job #1    10/10  100..200  cpu 100, block.read 2, block.io 2, block.queue_ns 7, block.device_ns 43
      phase inner #1  10/10  140..190  cpu 50, block.read 1, block.io 1, block.queue_ns 5, block.device_ns 25
    thread python     10/10  0..230    cpu 230, block.read 2, block.io 3, block.queue_ns 8, block.device_ns 72, phases 2, exited
    process python    10/10  0..230    cpu 230, block.read 2, block.io 3, block.queue_ns 8, block.device_ns 72
    ");
}

#[test]
fn what_is_done_after_its_phase_is_added_until_the_request_is_over() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 request 262144 job #1
        110 10/10 begin 262145 writes
        130 10/10 end 262145 +reads 3
        140 10/10 begin 262146 other
        150 10/10 io from=115 issued=117
        160 10/10 io from=116 issued=150
        180 10/10 end 262146
        200 10/10 end 262144
        210 10/10 io from=120 issued=121
        220 10/10 io from=205 issued=206
    "), @"
    request job #1     10/10  100..200  cpu 100, block.read 3, block.io 2, block.queue_ns 36, block.device_ns 43
      phase writes #1  10/10  110..130  cpu 20, block.read 3, block.io 2, block.queue_ns 36, block.device_ns 43
      phase other #1   10/10  140..180  cpu 40
    losses: late I/Os 1
    ");
}

#[test]
fn an_io_of_a_phase_that_was_left_is_added_wherever_it_is_now() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1
        120 10/10 leave 262144 +reads 2
        130 10/10 io from=110 issued=111
        140 10/11 enter 262144
        150 10/10 io from=115 issued=140
        155 10/10 io from=145 issued=150
        160 10/11 io from=145 issued=146
        200 10/11 end 262144
    "), @"
    request job #1  10/10  100..200  cpu 80, suspended 20, block.read 2, block.io 3, block.queue_ns 27, block.device_ns 43
    ");
}

#[test]
fn a_flush_is_the_devices_and_damaged_times_are_cut() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 request 262144 job #1
        130 10/10 io from=110
        140 10/10 io from=135 issued=160
        150 10/10 io from=170 issued=120
        200 10/10 end 262144
    "), @"
    request job #1  10/10  100..200  cpu 100, block.io 3, block.queue_ns 5, block.device_ns 20
    ");
}

/// Only so many segments are kept, and what may have been in an older one is late.
#[test]
fn after_many_phases_an_io_is_late() {
    let mut world = script::World::default();
    world.play("0 10/10 adopt\n100 10/10 request 262144 job #1");
    for phase in 0..40 {
        let (begin, token) = (200 + phase * 10, 262_145 + phase);
        world.play(&format!("{begin} 10/10 begin {token} step\n{} 10/10 end {token} +reads 1", begin + 5));
    }
    world.play("700 10/10 io from=201 issued=202\n710 10/10 io from=591 issued=592");
    assert_eq!(world.pairing.losses.late_ios, 1);
    let outputs = world.play("800 10/10 end 262144");
    let with_ios: Vec<u64> =
        super::phases(&outputs).map(|phase| phase.counts.block_io).filter(|&ios| ios > 0).collect();
    assert_eq!(with_ios, [2, 1], "both in the request, the later one in the last step");
}

/// A flush and a discard, which no count of reads and writes shows; the same where those are not counted.
#[test]
fn an_io_without_a_read_or_a_write_is_added_or_late() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 request 262144 job #1
        110 10/10 begin 262145 flushes
        130 10/10 end 262145
        150 10/10 io from=115
        200 10/10 end 262144
        210 10/10 io from=120 issued=121
        220 10/10 io from=205 issued=206
    "), @"
    request job #1      10/10  100..200  cpu 100, block.io 1, block.device_ns 35
      phase flushes #1  10/10  110..130  cpu 20, block.io 1, block.device_ns 35
    losses: late I/Os 1
    ");
}

/// They drive out nothing of what is known to have asked for something.
#[test]
fn after_many_phases_without_a_read_an_io_of_an_older_one_is_in_time() {
    let mut world = script::World::default();
    world.play("0 10/10 adopt\n100 10/10 request 262144 job #1");
    world.play("110 10/10 begin 262145 reads\n120 10/10 end 262145 +reads 1");
    world.play("130 10/10 begin 262146 flushes\n140 10/10 end 262146");
    for phase in 0..40 {
        let (begin, token) = (200 + phase * 10, 262_147 + phase);
        world.play(&format!("{begin} 10/10 begin {token} step\n{} 10/10 end {token}", begin + 5));
    }
    world.play("700 10/10 io from=115 issued=116\n710 10/10 io from=591 issued=592");
    assert_eq!(world.pairing.losses.late_ios, 0);
    world.play("720 10/10 io from=135");
    assert_eq!(world.pairing.losses.late_ios, 1, "the phase that it was in is no longer known");
}

#[test]
fn an_io_of_a_thread_that_is_gone_is_added_all_the_same() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1
        105 10/10 leave 262144
        110 10/11 enter 262144
        115 10/11 leave 262144 +reads 2
        121 10/11 io from=112 issued=113 late
        122 10/11 exit
        130 10/10 enter 262144
        200 10/10 end 262144
    "), @"
    thread python   10/11  10..122   cpu 112, block.read 2, exited
    request job #1  10/10  100..200  cpu 80, suspended 20, block.read 2, block.io 1, block.queue_ns 1, block.device_ns 8
    ");
}

#[test]
fn an_io_of_a_request_that_ended_with_its_thread_is_late_and_one_outside_is_nobodys() {
    let script = |from: u64| {
        play(&format!(
            "0   10/10 adopt
            10  10/11 fork 10/10
            100 10/11 request 262144 job #1
            121 10/11 io from={from} issued=121 late
            122 10/11 exit +reads 1"
        ))
    };
    assert_snapshot!(script(110), @"
    request job #1  10/11  100..122  cpu 22, block.read 1, thread_exited
    thread python   10/11  10..122   cpu 112, block.read 1, phases 1, exited
    losses: unended phases 1, late I/Os 1
    ");
    assert_snapshot!(script(50), @"
    request job #1  10/11  100..122  cpu 22, block.read 1, thread_exited
    thread python   10/11  10..122   cpu 112, block.read 1, phases 1, exited
    losses: unended phases 1
    ");
}
