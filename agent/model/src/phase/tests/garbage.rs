//! Garbage in: records of any bytes, and records that are nearly right. Nothing may panic (these tests run
//! with overflow checks), every phase that began comes out once, and sums hold.

use guestscope_contract::{
    EdgeRecord, FORK_LATE, IoRecord, Kind, QueueRecord, TOKEN_CHILD_BITS, TaskRecord, WaitRecord,
    ledger::Ledger,
};
use proptest::{collection::vec, prelude::*};

use super::{check_invariants, phases};
use crate::{
    phase::{PhaseKind, pairing::Pairing},
    record::{Record, decode},
};

/// Words that meet the edges of integers often.
fn word() -> impl Strategy<Value = u64> {
    let high_half = (0..4_u64).prop_map(|word| word << 32);
    prop_oneof![Just(0_u64), 0..4_u64, high_half, u64::MAX - 2..=u64::MAX, any::<u64>()]
}

/// A record of any bytes, but of a known kind and the length of that kind.
fn any_record() -> impl Strategy<Value = Record> {
    let kind = prop_oneof![5 => Just(1), 1 => 2..=7_u32];
    // Eleven words, over and over: an edge has 77, so each field meets any of them, and drawing stays cheap.
    (kind, vec(word(), 11)).prop_map(|(kind, words)| {
        let words = words.into_iter().cycle().take(size_of::<EdgeRecord>() / 8);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes.truncate(match Kind::from_number(kind) {
            Some(Kind::Edge) => size_of::<EdgeRecord>(),
            Some(Kind::Wait) => size_of::<WaitRecord>(),
            Some(Kind::Io) => size_of::<IoRecord>(),
            Some(Kind::Queue) => size_of::<QueueRecord>(),
            _ => size_of::<TaskRecord>(),
        });
        decode(&bytes).expect("kind and length are right")
    })
}

/// The same, with few threads, tokens, times and operations, so that records meet.
fn meeting_record() -> impl Strategy<Value = Record> {
    let token = prop_oneof![
        0..4_u64,
        (1..3_u64, 0..3_u64).prop_map(|(root, child)| root << TOKEN_CHILD_BITS | child)
    ];
    let tokens = (token.clone(), prop_oneof![Just(0), token]);
    let time_ns = prop_oneof![0..10_u64, Just(u64::MAX)];
    (any_record(), (0..3_u32, 0..2_u32, 0..2_u64, 0..3_u32), (1..9_u64, 0..2_u64, 0..9_u64), tokens, time_ns)
        .prop_map(
            |(record, (tid, tgid, born_ns, other_tid), (operation, instance, number), tokens, time_ns)| {
                let meet = |ledger: &mut Ledger| {
                    (ledger.tid, ledger.tgid, ledger.born_ns) = (tid, tgid, born_ns);
                    ledger.since_ns = ledger.since_ns.min(time_ns);
                };
                match record {
                    Record::Edge(mut edge) => {
                        meet(&mut edge.ledger);
                        edge.operation = operation | instance << 16 | number << 32;
                        edge.token = tokens.0;
                        // The token that a begin joins, and that of a phase that ends with an end.
                        (edge.arguments[3], edge.arguments[1]) = (tokens.1, tokens.1);
                        edge.header.time_ns = time_ns;
                        Record::Edge(edge)
                    }
                    Record::Task(kind, mut task) => {
                        meet(&mut task.ledger);
                        (task.other_tid, task.other_tgid, task.other_born_ns) = (other_tid, tgid, born_ns);
                        task.header.time_ns = time_ns;
                        Record::Task(kind, task)
                    }
                    Record::Wait(mut wait) => {
                        (wait.tid, wait.tgid, wait.born_ns) = (tid, tgid, born_ns);
                        wait.header.time_ns = time_ns;
                        Record::Wait(wait)
                    }
                    Record::Queue(mut queue) => {
                        (queue.tid, queue.tgid, queue.born_ns) = (tid, tgid, born_ns);
                        queue.header.time_ns = time_ns;
                        Record::Queue(queue)
                    }
                    Record::Io(mut io) => {
                        (io.tid, io.tgid, io.born_ns) = (tid, tgid, born_ns);
                        io.header.time_ns = time_ns;
                        Record::Io(io)
                    }
                }
            },
        )
}

fn check(records: &[Record], ledgers: &[Ledger], stop_ns: u64) -> Result<(), TestCaseError> {
    let mut pairing = Pairing::new([1; 16]);
    let mut begun = 0;
    // Phases within a request that began before its thread was adopted are none.
    let mut is_all_seen = true;
    for record in records {
        if let Record::Task(Kind::Fork, task) = record {
            is_all_seen &= task.header.flags & FORK_LATE == 0;
        }
        if let Record::Edge(edge) = record {
            begun += usize::from(matches!(edge.operation as u8, 1 | 2));
        }
        pairing.record(record);
    }
    // Ledgers of threads that are known, of others, and twice.
    let known = records.iter().map(ledger_of);
    let ledgers: Vec<Ledger> = known.take(5).chain(ledgers.iter().copied()).collect();
    // Details outside all phases are none, and counted.
    let alone: u64 = pairing.sources.made.iter().map(|made| made.alone).sum();
    begun -= usize::try_from(alone).unwrap();
    pairing.stop(stop_ns, &ledgers);
    let outputs = pairing.take();
    check_invariants(&outputs);
    let came_out =
        phases(&outputs).filter(|phase| matches!(phase.kind, PhaseKind::Request | PhaseKind::Phase));
    let came_out = came_out.count();
    prop_assert!(
        came_out == begun || !is_all_seen && came_out < begun,
        "each comes out once: {came_out} of {begun}"
    );
    prop_assert!(pairing.open.is_empty() && pairing.live_threads().next().is_none());
    Ok(())
}

fn any_ledger() -> impl Strategy<Value = Ledger> {
    meeting_record().prop_map(|record| ledger_of(&record))
}

fn ledger_of(record: &Record) -> Ledger {
    match record {
        Record::Edge(edge) => edge.ledger,
        Record::Task(_, task) => task.ledger,
        Record::Wait(wait) => {
            Ledger { tid: wait.tid, tgid: wait.tgid, born_ns: wait.born_ns, ..Ledger::EMPTY }
        }
        Record::Queue(queue) => {
            Ledger { tid: queue.tid, tgid: queue.tgid, born_ns: queue.born_ns, ..Ledger::EMPTY }
        }
        Record::Io(io) => Ledger { tid: io.tid, tgid: io.tgid, born_ns: io.born_ns, ..Ledger::EMPTY },
    }
}

proptest! {
    #[test]
    fn records_of_any_bytes(
        records in vec(any_record(), 0..12), ledgers in vec(any_ledger(), 0..4), stop_ns in word(),
    ) {
        check(&records, &ledgers, stop_ns)?;
    }

    #[test]
    fn records_that_meet_in_the_wrong_order(
        records in vec(meeting_record(), 0..40), ledgers in vec(any_ledger(), 0..4), stop_ns in word(),
    ) {
        check(&records, &ledgers, stop_ns)?;
    }
}
