//! The ring between the library's end and the agent's: nothing lost uncounted, nothing twice, nobody blocked
//! for good.

use std::time::Duration;

use guestscope_marker::ring as theirs;
use proptest::{collection::vec, prelude::*};

use super::{atomic::Ordering::Relaxed, reader::*, *};

/// No test waits so long: slots that are not done stay so.
const PATIENT: Duration = Duration::from_hours(1);

/// Record `number` of a thread.
fn record(thread: u64, number: u64) -> Words {
    let mut words = [thread; RECORD_WORDS];
    words[RECORD_WORDS - 1] = number;
    words
}

/// Everything that can be read now.
fn rest(ring: &mut Ring, patience: Duration) -> Vec<Words> {
    std::iter::from_fn(|| ring.next(patience)).collect()
}

#[test]
fn both_ends_have_the_same_ring() {
    assert_eq!(
        (MAGIC, HEADER_BYTES, HEAD, LOST, TAKEN, SLOT_WORDS, RECORD_WORDS),
        (
            theirs::MAGIC,
            theirs::HEADER_BYTES,
            theirs::HEAD,
            theirs::LOST,
            theirs::TAKEN,
            theirs::SLOT_WORDS,
            theirs::RECORD_WORDS
        )
    );
    assert_eq!(super::super::edge::UNKNOWN, theirs::UNKNOWN);
    assert_eq!(checksum(77, &record(1, 2)), theirs::checksum(77, &record(1, 2)));
}

#[test]
fn memory_that_is_shared_cannot_be_cut_off() {
    let ring = Ring::new(4).expect("memory can be had");
    for bytes in [0, 1 << 20] {
        assert_eq!(nix::unistd::ftruncate(ring.descriptor(), bytes), Err(nix::errno::Errno::EPERM));
    }
    assert!(Ring::new(3).is_err());
}

#[test]
fn memory_is_not_to_be_executed_where_the_kernel_knows_of_that() {
    let flags = libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL;
    // SAFETY: the name is a C string.
    let is_known = checked(unsafe { libc::memfd_create(c"probe".as_ptr(), flags) }).map(|probe| {
        // SAFETY: just made, and nobody else's.
        drop(unsafe { OwnedFd::from_raw_fd(probe) });
    });
    let ring = Ring::new(4).expect("memory can be had");
    let mode = nix::sys::stat::fstat(ring.descriptor()).expect("it is open").st_mode;
    assert_eq!(mode & 0o111 == 0, is_known.is_ok(), "{mode:o}");
}

#[test]
fn an_overflow_is_counted_exactly() {
    let mut ring = Ring::new(64).expect("memory can be had");
    let writer = ring.writer();
    for number in 0..1_000 {
        if let Some(position) = writer.claim() {
            writer.commit(position, &record(1, number));
        }
    }
    let read = rest(&mut ring, PATIENT);
    assert_eq!(read, (0..64).map(|number| record(1, number)).collect::<Vec<_>>());
    assert_eq!((ring.lost(), ring.unfinished), (936, 0));
}

#[test]
fn threads_lose_nothing_uncounted_and_keep_their_order() {
    const THREADS: u64 = 4;
    const EACH: u64 = 20_000;
    let mut ring = Ring::new(64).expect("memory can be had");
    let writer = ring.writer();
    let write = |thread: u64| {
        for number in 0..EACH {
            if let Some(position) = writer.claim() {
                writer.commit(position, &record(thread, number));
            }
        }
    };
    let mut next = [0; THREADS as usize];
    let mut read = 0;
    std::thread::scope(|scope| {
        let write = &write;
        let writers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
        loop {
            let done = writers.iter().all(std::thread::ScopedJoinHandle::is_finished);
            for words in rest(&mut ring, PATIENT) {
                let (thread, number) = (words[0], words[RECORD_WORDS - 1]);
                assert!(words[..RECORD_WORDS - 1].iter().all(|word| *word == thread), "{words:?}");
                assert!(number >= next[thread as usize], "{number} of {thread} after {next:?}");
                next[thread as usize] = number + 1;
                read += 1;
            }
            if done {
                break;
            }
        }
    });
    assert_eq!((read + ring.lost(), ring.unfinished), (THREADS * EACH, 0));
}

/// A writer was killed between claim and commit: the others wait behind it for a bounded time.
#[test]
fn a_writer_that_died_half_way_holds_nobody_for_good() {
    let mut ring = Ring::new(8).expect("memory can be had");
    let writer = ring.writer();
    let write = |number| writer.commit(writer.claim().expect("there is room"), &record(1, number));
    write(0);
    let _dead = writer.claim().expect("there is room");
    write(1);
    let _dead_too = writer.claim().expect("there is room");
    write(2);
    assert_eq!(rest(&mut ring, PATIENT), [record(1, 0)]);
    // Both had been claimed when the first was found, so both have had their time.
    assert_eq!(rest(&mut ring, Duration::ZERO), [record(1, 1), record(1, 2)]);
    assert_eq!((ring.unfinished, ring.lost()), (2, 0));
    (3..20).for_each(|number| {
        write(number);
        assert_eq!(rest(&mut ring, PATIENT), [record(1, number)]);
    });
}

#[test]
fn the_time_of_one_stopped_writer_is_not_the_time_of_the_next() {
    let mut ring = Ring::new(8).expect("memory can be had");
    let writer = ring.writer();
    let slow = writer.claim().expect("there is room");
    assert_eq!(ring.next(PATIENT), None);
    writer.commit(slow, &record(1, 0));
    let _stopped = writer.claim().expect("there is room");
    assert_eq!(rest(&mut ring, PATIENT), [record(1, 0)]);
    assert!(ring.stuck.is_some_and(|(_, claimed)| claimed == 2), "{:?}", ring.stuck);
    assert_eq!(ring.unfinished, 0);
}

/// A writer was stopped for so long that its slot is another writer's when it goes on.
#[test]
fn what_two_writers_have_mixed_is_nobodys() {
    let mut ring = Ring::new(2).expect("memory can be had");
    let writer = ring.writer();
    let late = writer.claim().expect("there is room");
    assert_eq!(rest(&mut ring, Duration::ZERO), Vec::<Words>::new());
    let between = writer.claim().expect("there is room");
    writer.commit(between, &record(1, 1));
    assert_eq!(rest(&mut ring, PATIENT), [record(1, 1)]);
    let again = writer.claim().expect("the slot is free again");
    writer.commit(again, &record(2, 2));
    writer.commit(late, &record(1, 0));
    assert_eq!(rest(&mut ring, PATIENT), Vec::<Words>::new());
    assert_eq!((ring.unfinished, ring.lost()), (2, 0));
    writer.commit(writer.claim().expect("there is room"), &record(1, 3));
    assert_eq!(rest(&mut ring, PATIENT), [record(1, 3)]);
}

proptest! {
    /// Processes that share the memory may write anything: no read goes outside, and each call returns.
    #[test]
    fn any_memory_can_be_read(
        words in vec((0..4096_usize / 8 + 4 * SLOT_WORDS, any::<u64>()), 0..64),
        small in vec((0..5_usize, 0..12_u64), 0..16),
        head in prop_oneof![any::<u64>(), 0..20_u64],
        patience in prop_oneof![Just(Duration::ZERO), Just(PATIENT)],
    ) {
        let mut ring = Ring::new(4).expect("memory can be had");
        for (index, word) in words {
            ring.word(index).store(word, Relaxed);
        }
        for (slot, turn) in small {
            ring.word(HEADER_BYTES / 8 + slot.min(3) * SLOT_WORDS).store(turn, Relaxed);
        }
        ring.word(HEAD).store(head, Relaxed);
        let before = ring.unfinished;
        for _ in 0..20 {
            let read = ring.next(patience);
            prop_assert!(ring.unfinished - before <= 20 * 4);
            if let Some(words) = read {
                prop_assert_eq!(words.len(), RECORD_WORDS);
            }
        }
    }
}
