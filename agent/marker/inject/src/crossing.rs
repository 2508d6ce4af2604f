//! Ranges that begin on one thread and end on another: their time belongs to no thread. Yields the names of
//! such ranges, learned from the first one that crossed. Before that a range is taken for a phase of the
//! thread that begins it, as most are; its time on that thread is dropped when another thread ends it. It
//! deliberately remembers the last 256 begins only: a forgotten name is learned again from a later range.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Begins remembered.
const BEGINS: usize = 256;
/// Names remembered.
const NAMES: usize = 64;

/// A range that began: its token, inverted once another thread has ended it; and the hash of its name.
struct Begun {
    token: AtomicU64,
    name: AtomicU64,
}

static BEGUN: [Begun; BEGINS] =
    [const { Begun { token: AtomicU64::new(0), name: AtomicU64::new(0) } }; BEGINS];
/// Hashes of names that cross. A new one replaces the old one in its place.
static CROSSING: [AtomicU64; NAMES] = [const { AtomicU64::new(0) }; NAMES];

fn slot(token: u64) -> &'static Begun {
    // A thread's tokens differ in the root's number or the child's.
    &BEGUN[((token ^ token >> 18 ^ token >> 44) % BEGINS as u64) as usize]
}

fn place(name: u64) -> &'static AtomicU64 {
    &CROSSING[(name % NAMES as u64) as usize]
}

/// Whether ranges of this name have ended on other threads.
pub(crate) fn crosses(name: u64) -> bool {
    place(name).load(Relaxed) == name
}

/// A range has begun on this thread, as a phase of it.
pub(crate) fn begun(token: u64, name: u64) {
    let slot = slot(token);
    slot.token.store(0, Relaxed);
    slot.name.store(name, Relaxed);
    slot.token.store(token, Release);
}

/// Another thread ends the range.
pub(crate) fn ended_elsewhere(token: u64) {
    let slot = slot(token);
    if slot.token.load(Acquire) == token {
        let name = slot.name.load(Relaxed);
        slot.token.store(!token, Release);
        place(name).store(name, Relaxed);
    }
}

/// Whether another thread has ended the range, as far as is remembered.
pub(crate) fn has_ended_elsewhere(token: u64) -> bool {
    slot(token).token.load(Acquire) == !token
}
