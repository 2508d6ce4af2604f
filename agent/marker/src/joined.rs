//! Roots that joined one of the program's own traces, and tokens whose IDs the agent has been sent. Yields
//! the joined trace of a root. Two fixed tables without locks, so that no call allocates or waits. Entries
//! are deliberately dropped: a root at its end, and the oldest ones when thousands are in flight.

use core::{
    hint::spin_loop,
    sync::atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

use crate::{
    ids::{TraceId, mix},
    token,
};

const PLACES: usize = 4096;
const WAYS: usize = 16;
/// Value of `Place::root` for a free place. No root has it, since a thread ordinal is never 0.
const EMPTY: u64 = 0;

/// A place is written under a sequence number that is odd during the write; readers write nothing.
struct Place {
    sequence: AtomicU64,
    root: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
}

/// Content of a place, as a reader found it.
#[derive(Clone, Copy)]
struct Held {
    sequence: u64,
    root: u64,
    trace: TraceId,
}

impl Place {
    const fn new() -> Self {
        let [sequence, root, high, low] = [const { AtomicU64::new(0) }; 4];
        Self { sequence, root, high, low }
    }

    /// None while it is being written. A writer that was preempted, or lost in a fork, is awaited only
    /// briefly.
    fn read(&self) -> Option<Held> {
        for _ in 0..64 {
            let sequence = self.sequence.load(Acquire);
            let root = self.root.load(Relaxed);
            let trace = TraceId { high: self.high.load(Relaxed), low: self.low.load(Relaxed) };
            fence(Acquire);
            if sequence.is_multiple_of(2) && self.sequence.load(Relaxed) == sequence {
                return Some(Held { sequence, root, trace });
            }
            spin_loop();
        }
        None
    }

    /// Replaces the content that a reader found; false if another writer changed it.
    fn replace(&self, held: Held, root: u64, trace: TraceId) -> bool {
        let free = self.sequence.compare_exchange(held.sequence, held.sequence + 1, Acquire, Relaxed);
        if free.is_ok() {
            fence(Release);
            self.root.store(root, Relaxed);
            self.high.store(trace.high, Relaxed);
            self.low.store(trace.low, Relaxed);
            self.sequence.store(held.sequence + 2, Release);
        }
        free.is_ok()
    }
}

/// Roots that joined a trace. A root lies in one of `WAYS` places from the one that its hash names; when all
/// are taken, the newcomer takes one over.
pub(crate) struct Joined {
    places: [Place; PLACES],
    /// Spares a program that never joins the search at the end of its roots.
    taken: AtomicUsize,
}

pub(crate) static JOINED: Joined = Joined::new();

impl Joined {
    #[expect(clippy::large_stack_arrays, reason = "evaluated by the compiler, for a static")]
    pub(crate) const fn new() -> Self {
        Self { places: [const { Place::new() }; PLACES], taken: AtomicUsize::new(0) }
    }

    fn ways(&self, root: u64) -> impl Iterator<Item = &Place> {
        let first = mix(root) as usize;
        (0..WAYS).map(move |way| &self.places[first.wrapping_add(way) % PLACES])
    }

    /// Remembers that `root` joined `trace`; a second time replaces the first.
    pub(crate) fn insert(&self, root: u64, trace: TraceId) {
        // Root numbers grow, so their low bits choose the places to give up in turn.
        let turn = (root >> token::CHILD_BITS) as usize % WAYS;
        let put = |wanted: u64| {
            self.ways(root).any(|place| {
                place.read().is_some_and(|held| held.root == wanted && place.replace(held, root, trace))
            })
        };
        if put(root) {
            return;
        }
        if put(EMPTY) {
            self.taken.fetch_add(1, Relaxed);
            return;
        }
        let _ = self
            .ways(root)
            .skip(turn)
            .any(|place| place.read().is_some_and(|held| place.replace(held, root, trace)));
    }

    /// The trace that `root` joined.
    pub(crate) fn get(&self, root: u64) -> Option<TraceId> {
        if self.taken.load(Relaxed) == 0 {
            return None;
        }
        self.ways(root).find_map(|place| place.read().filter(|held| held.root == root)).map(|held| held.trace)
    }

    /// Forgets `root`, which has ended.
    #[inline]
    pub(crate) fn remove(&self, root: u64) {
        if self.taken.load(Relaxed) != 0 {
            self.search_and_remove(root);
        }
    }

    #[cold]
    fn search_and_remove(&self, root: u64) {
        let nothing = TraceId { high: 0, low: 0 };
        for place in self.ways(root) {
            if place.read().is_some_and(|held| held.root == root && place.replace(held, EMPTY, nothing)) {
                self.taken.fetch_sub(1, Relaxed);
            }
        }
    }
}

/// Tokens whose IDs the agent has been sent. An entry may be lost (to another token of the same hash), and
/// the IDs are then sent again; they are never withheld.
pub(crate) struct Told {
    tokens: [AtomicU64; 1024],
}

pub(crate) static TOLD: Told = Told::new();

impl Told {
    pub(crate) const fn new() -> Self {
        Self { tokens: [const { AtomicU64::new(0) }; 1024] }
    }

    /// Whether the agent must be sent that `token` is in `trace`; from then on it counts as sent.
    pub(crate) fn is_new(&self, token: u64, trace: TraceId) -> bool {
        // The trace is part of the entry: a root that joins a trace after a header was made has new IDs.
        let told = mix(token) ^ mix(trace.high) ^ trace.low;
        self.tokens[mix(token) as usize % self.tokens.len()].swap(told, Relaxed) != told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token;

    fn trace(number: u64) -> TraceId {
        TraceId { high: number, low: !number }
    }

    #[test]
    fn remembers_until_the_end() {
        let joined = Box::new(Joined::new());
        let roots: Vec<u64> = (1..=1000).map(|number| token::pack(3, number, 0)).collect();
        for root in &roots {
            joined.insert(*root, trace(*root));
        }
        assert!(roots.iter().all(|root| joined.get(*root) == Some(trace(*root))));
        joined.insert(roots[0], trace(7));
        assert_eq!(joined.get(roots[0]), Some(trace(7)));
        for root in &roots {
            joined.remove(*root);
            assert_eq!(joined.get(*root), None);
        }
        assert_eq!(joined.taken.load(Relaxed), 0);
    }

    #[test]
    fn newest_root_is_never_the_forgotten_one() {
        let joined = Box::new(Joined::new());
        for number in 1..=3 * PLACES as u64 {
            let root = token::pack(1, number, 0);
            joined.insert(root, trace(number));
            assert_eq!(joined.get(root), Some(trace(number)));
        }
        assert!(joined.taken.load(Relaxed) <= PLACES);
    }

    #[test]
    fn readers_never_see_half_a_trace() {
        let joined = Box::new(Joined::new());
        let root = token::pack(1, 1, 0);
        joined.insert(root, trace(0));
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100_000).for_each(|number| joined.insert(root, trace(number))));
            for _ in 0..100_000 {
                if let Some(TraceId { high, low }) = joined.get(root) {
                    assert_eq!(high, !low);
                }
            }
        });
    }

    #[test]
    fn tells_once_per_token_and_trace() {
        let told = Told::new();
        let token = token::pack(1, 1, 5);
        assert!(told.is_new(token, trace(1)));
        assert!(!told.is_new(token, trace(1)));
        assert!(told.is_new(token, trace(2)));
    }
}
