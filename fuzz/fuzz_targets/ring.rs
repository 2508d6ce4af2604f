//! The ring that programs share where BPF is refused: whatever they write there, the agent reads edges or
//! counts. The input is the low byte of the ring's head, whether checksums are put right, then the words of
//! its slots.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "as much of the agent as reads the ring")]
#[path = "."]
mod procfs {
    mod atomic {
        pub(super) use std::sync::atomic::{AtomicU64, Ordering};
    }
    #[path = "../../agent/sources/src/procfs/edge.rs"]
    mod edge;
    #[path = "../../agent/sources/src/procfs/ring/reader.rs"]
    mod reader;
    mod ring {
        pub(super) use super::reader::Words;
    }

    use std::{ops::RangeInclusive, ptr::NonNull, time::Duration};

    use atomic::{AtomicU64, Ordering::Relaxed};
    use edge::Edge;
    use reader::{HEAD, HEADER_BYTES, Reader, SLOT_WORDS, checksum};

    const SLOTS: usize = 4;
    const TIMES: RangeInclusive<u64> = 1..=1 << 60;

    pub(crate) fn read(bytes: &[u8]) {
        let Some((&[head, is_summed], bytes)) = bytes.split_first_chunk() else { return };
        let words = HEADER_BYTES / 8 + SLOTS * SLOT_WORDS;
        let memory: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: the memory is of a header and as many slots, of atomics, and outlives the reader.
        let mut reader = unsafe { Reader::new(NonNull::from(&memory[0]), SLOTS) };
        let given = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let given: Vec<u64> = given.take(SLOTS * SLOT_WORDS).collect();
        for (word, given) in memory[HEADER_BYTES / 8..].iter().zip(&given) {
            word.store(*given, Relaxed);
        }
        // No input has a checksum that fits by chance.
        for (index, slot) in given.chunks_exact(SLOT_WORDS).enumerate().filter(|_| is_summed % 2 == 1) {
            let sum = checksum(index as u64, &std::array::from_fn(|word| slot[2 + word]));
            memory[HEADER_BYTES / 8 + index * SLOT_WORDS + 1].store(sum, Relaxed);
        }
        // Then a head that is ahead by more than the ring, and one that goes back.
        for head in [u64::from(head), u64::MAX - u64::from(head), 1] {
            memory[HEAD].store(head, Relaxed);
            let mut records = 0;
            while let Some(words) = reader.next(Duration::ZERO) {
                let _ = Edge::decode(&words, TIMES);
                records += 1;
                assert!(records <= SLOTS, "the ring never ends");
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| procfs::read(bytes));
