//! The whole path from the library's end of the ring to phases.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use guestscope_contract::Kind;
use guestscope_marker::ring::RECORD_WORDS;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::phase::{
    Phase,
    pairing::{Output, Pairing},
};

/// A number that no process or thread has.
const NOBODYS: u64 = 0x3f_fed0;

/// The words of an edge of a process that no system has.
fn words(operation: u64, token: u64, number: u64, time_ns: u64, cpu_ns: u64) -> [u64; RECORD_WORDS] {
    let mut words = [0; RECORD_WORDS];
    (words[0], words[1]) = (operation | 0x0100 | number << 32, token);
    (words[3], words[16]) = (4, u64::from_ne_bytes(*b"work\0\0\0\0"));
    (words[6], words[7], words[8]) = (time_ns, cpu_ns, u64::MAX);
    words[9] = NOBODYS | NOBODYS << 32;
    words
}

fn pair(pairing: &mut Pairing, records: &[Record]) {
    for record in records {
        pairing.record(record);
    }
}

fn phases(pairing: &mut Pairing) -> Vec<Phase> {
    let requests = pairing.take().into_iter().filter_map(|output| match output {
        Output::Request(request) => Some(request.phases),
        Output::Thread(_) | Output::Mark(_) | Output::Wait(_) | Output::GpuWork(_) | Output::Pause(_) => None,
    });
    requests.flatten().collect()
}

#[test]
fn edges_in_the_ring_become_phases() {
    let mut procfs = Procfs::new(8, 8).expect("memory can be had");
    let (mut pairing, mut records) = (Pairing::new([1; 16]), Vec::new());
    let writer = procfs.ring.writer();
    let write = |words: [u64; RECORD_WORDS]| writer.commit(writer.claim().expect("there is room"), &words);
    let t0 = procfs.begun_ns;
    write(words(2, 1 << 18, 1, t0, 10));
    write(words(3, 1 << 18, 2, t0 + 50, 40));
    assert!(!procfs.read(&mut records));
    pair(&mut pairing, &records);
    let [phase] = &phases(&mut pairing)[..] else { panic!("one phase: {records:?}") };
    assert_eq!((phase.name.stored(), phase.duration_ns), ("work", 50));
    assert_eq!((phase.accounts.0[0], phase.accounts.total_ns()), (30, 50));
    assert!(phase.helpers.partial, "nobody saw the other threads");
    assert_eq!((procfs.edges_read, procfs.undecodable, procfs.losses()), (2, 0, KernelLosses::default()));
}

#[test]
fn what_cannot_be_is_counted() {
    let mut procfs = Procfs::new(8, 1).expect("memory can be had");
    let writer = procfs.ring.writer();
    let t0 = procfs.begun_ns;
    let good = words(1, 1 << 18, 1, t0, 0);
    let mut other_abi = good;
    other_abi[0] = 0x0201;
    let mut nobody = good;
    nobody[9] = 0;
    let mut another = good;
    another[9] = NOBODYS | (NOBODYS + 1) << 32;
    let before = words(1, 1 << 18, 1, t0 - 1, 0);
    let after = words(1, 1 << 18, 1, t0 + 3_600_000_000_000, 0);
    for words in [good, other_abi, nobody, another, before, after] {
        writer.commit(writer.claim().expect("there is room"), &words);
    }
    let _died = writer.claim().expect("there is room");
    let mut records = Vec::new();
    assert!(procfs.stop(&mut records).is_empty());
    assert_eq!((procfs.edges_read, procfs.undecodable), (6, 3));
    let losses = KernelLosses {
        unknown_abi: 1,
        tasks_missed: 1,
        edges_unfinished: 1,
        marks_untracked: 1,
        requests_untracked: 1,
        ..KernelLosses::default()
    };
    assert_eq!(procfs.losses(), losses);
}

/// A thread may have ended with its last edges still in the ring: they come before its end.
#[test]
fn the_end_of_a_thread_comes_after_its_edges() {
    let mut procfs = Procfs::new(8, 1).expect("memory can be had");
    let writer = procfs.ring.writer();
    // SAFETY: takes nothing and cannot fail.
    let number = || unsafe { libc::gettid() }.cast_unsigned();
    let tid = std::thread::spawn(number).join().expect("it only asks for its number");
    while status::is_thread_there(std::process::id(), tid) {
        std::thread::yield_now();
    }
    let t0 = procfs.begun_ns;
    let write = |operation, number, time_ns| {
        let mut words = words(operation, 1 << 18, number, time_ns, 0);
        words[9] = u64::from(std::process::id()) | u64::from(tid) << 32;
        writer.commit(writer.claim().expect("there is room"), &words);
    };
    let mut records = Vec::new();
    write(2, 1, t0);
    procfs.read(&mut records);
    // Found to have ended by the next read, which finds this edge too.
    write(3, 2, t0 + 50);
    procfs.read(&mut records);
    let kinds: Vec<Option<Kind>> = records
        .iter()
        .map(|record| match record {
            Record::Task(kind, _) => Some(*kind),
            Record::Edge(_) | Record::Wait(_) | Record::Io(_) | Record::Queue(_) => None,
        })
        .collect();
    assert_eq!(kinds, [Some(Kind::Fork), None, None, Some(Kind::Exit)]);
}

/// A process that outlives the program goes on writing as fast as it can.
#[test]
fn a_writer_that_never_stops_does_not_keep_the_agent() {
    let mut procfs = Procfs::new(1 << 10, 8).expect("memory can be had");
    let writer = procfs.ring.writer();
    let t0 = procfs.begun_ns;
    let is_over = AtomicBool::new(false);
    let mut records = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                if let Some(position) = writer.claim() {
                    writer.commit(position, &words(8, 0, 1, t0, 0));
                }
            }
        });
        while procfs.ring.claimed() < 1 << 10 {
            std::thread::yield_now();
        }
        // The call returns although there is always more, and nothing comes after it.
        procfs.stop(&mut records);
        let read = procfs.edges_read;
        while procfs.ring.claimed() <= read {
            std::thread::yield_now();
        }
        assert!(!procfs.read(&mut records));
        assert_eq!(procfs.edges_read, read);
        is_over.store(true, Relaxed);
    });
    let most = BATCH as u64 + (1 << 10);
    assert!((1 << 10..=most).contains(&procfs.edges_read), "{}", procfs.edges_read);
}

proptest! {
    /// Whatever is written: accounts and suspensions of each phase add up to its duration.
    #[test]
    fn any_words_make_whole_phases_or_none(
        all in vec((vec(any::<u64>(), RECORD_WORDS), any::<bool>(), 1..9_u64, 0..3_u64, 0..40_u64), 0..40),
    ) {
        let mut procfs = Procfs::new(64, 4).expect("memory can be had");
        let mut pairing = Pairing::new([1; 16]);
        let writer = procfs.ring.writer();
        for (number, (any, is_sane, operation, token, later_ns)) in all.into_iter().enumerate() {
            let mut words: [u64; RECORD_WORDS] = any.try_into().expect("as many as asked for");
            if is_sane {
                let fixed = self::words(operation, token << 18, number as u64, procfs.begun_ns + later_ns, later_ns);
                words[..4].copy_from_slice(&fixed[..4]);
                (words[6], words[9]) = (fixed[6], fixed[9]);
            }
            let position = writer.claim().expect("there is room");
            writer.commit(position, &words);
        }
        let mut records = Vec::new();
        let ledgers = procfs.stop(&mut records);
        pair(&mut pairing, &records);
        pairing.stop(clock::now_ns(), &ledgers);
        for phase in phases(&mut pairing) {
            prop_assert_eq!(phase.accounts.total_ns() + phase.suspended_ns, phase.duration_ns);
        }
    }
}
