//! The ring between threads of a program and the agent, with loom's atomics: the orders in which they may
//! run, and may see each other's writes. The code of both ends is the one that runs, from its files.
#![expect(dead_code, unreachable_pub, reason = "as much of both ends as needs no memory of the kernel's")]

use std::{ptr::NonNull, time::Duration};

use loom::{model::Builder, thread};

/// In the place of the processor's.
mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}
#[path = "../../sources/src/procfs/ring/reader.rs"]
mod reader;
#[path = "../src/ring/slots.rs"]
mod slots;

use reader::Reader;
use slots::{HEADER_BYTES, LOST, RECORD_WORDS, Ring, SLOT_WORDS};

const SLOTS: usize = 2;
/// No model waits so long: a slot that is not done stays so.
const PATIENT: Duration = Duration::from_hours(1);

/// A ring's memory, and both its ends. It is kept until the process ends: threads of the model hold the
/// writer.
fn ring() -> (&'static [atomic::AtomicU64], Ring, Reader) {
    let words = HEADER_BYTES / 8 + SLOTS * SLOT_WORDS;
    let memory: Vec<_> = (0..words).map(|_| atomic::AtomicU64::new(0)).collect();
    let memory: &'static [atomic::AtomicU64] = memory.leak();
    // SAFETY: the memory holds a header and as many slots, is never given back, and is of atomics.
    let reader = unsafe { Reader::new(NonNull::from(&memory[0]), SLOTS) };
    // SAFETY: as above.
    (memory, unsafe { Ring::new(memory.as_ptr(), SLOTS as u64) }, reader)
}

/// Record `number` of a thread.
fn record(thread: u64, number: u64) -> [u64; RECORD_WORDS] {
    let mut words = [thread; RECORD_WORDS];
    words[RECORD_WORDS - 1] = number;
    words
}

fn write(ring: Ring, thread: u64, records: u64) {
    for number in 0..records {
        if let Some(position) = ring.claim() {
            ring.commit(position, &record(thread, number));
        }
    }
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(body);
}

/// Reads until this many records were read or counted as lost, while threads write.
fn read(memory: &[atomic::AtomicU64], reader: &mut Reader, records: usize) -> Vec<[u64; RECORD_WORDS]> {
    let mut read = Vec::new();
    while read.len() + (memory[LOST].load(atomic::Ordering::Relaxed) as usize) < records {
        match reader.next(PATIENT) {
            Some(words) => read.push(words),
            None => thread::yield_now(),
        }
    }
    assert_eq!((reader.next(PATIENT), reader.unfinished), (None, 0));
    read
}

/// One more record than there is room for: each is read whole and in its order, or counted as lost.
#[test]
fn what_one_thread_writes_is_read_or_counted() {
    const RECORDS: usize = SLOTS + 1;
    model(3, || {
        let (memory, ring, mut reader) = ring();
        let writer = thread::spawn(move || write(ring, 1, RECORDS as u64));
        let read = read(memory, &mut reader, RECORDS);
        writer.join().expect("it ends");
        let numbers: Vec<u64> = read.iter().map(|words| words[RECORD_WORDS - 1]).collect();
        assert!(numbers.is_sorted() && read.iter().all(|words| *words == record(1, words[RECORD_WORDS - 1])));
    });
}

/// Two threads never get the same slot.
#[test]
fn two_threads_write_side_by_side() {
    model(2, || {
        let (memory, ring, mut reader) = ring();
        let writers = [1, 2].map(|number| thread::spawn(move || write(ring, number, 1)));
        let mut read = read(memory, &mut reader, writers.len());
        for writer in writers {
            writer.join().expect("it ends");
        }
        read.sort_unstable();
        assert_eq!(read, [record(1, 0), record(2, 0)]);
    });
}
