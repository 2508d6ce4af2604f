//! Hides tasks that are too short to be phases: an edge costs about as much as the shortest of them takes. A
//! task's length is known only at its end and a phase begins at its start, so the decision is made by kind,
//! from the length of the first tasks. The first tasks inside a library include compilation, so such a kind
//! is measured again and again while it is shown; for the program's own marks the decision is made once.
//! Yields whether a task is shown. A kind found too short stays hidden.

use core::{
    ffi::c_int,
    ptr,
    sync::atomic::{
        AtomicI32, AtomicU64,
        Ordering::{AcqRel, Relaxed},
    },
};

/// A kind is hidden if most of its tasks take less. Not the mean: the first task of a kind compiles, and some
/// wait for a CPU.
const SHORTEST_NS: u64 = 20_000;
/// Tasks of a kind that are measured.
const LOOKED_AT: i32 = 64;
/// Tasks after which a kind is long enough, if `EARLY_LONG` of them are.
const EARLY: i32 = 8;
const EARLY_LONG: u64 = 6;
/// Added to the count of a kind that is shown.
const SHOWN: i32 = 1 << 16;
/// The count of a hidden kind.
const HIDDEN: i32 = 2 << 16;

/// Measurement of a kind, in two fields that ITT's structures have for a tool: how many tasks were measured,
/// and how many of them were long.
#[repr(C)]
pub(crate) struct Kind {
    count: AtomicI32,
    long: AtomicU64,
}

const _: () = assert!(size_of::<c_int>() == size_of::<AtomicI32>());

/// The measurement of one task.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    /// Its kind; null if it is not measured.
    kind: *const Kind,
    /// Start. The lowest bit is set if the task is not shown.
    begun_ns: u64,
}

/// `struct timespec`.
#[repr(C)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    // The C library's version makes no system call where the vDSO allows it.
    fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
}

fn now_ns() -> u64 {
    const MONOTONIC: c_int = 1;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the structure is the kernel's, and lives across the call.
    unsafe { clock_gettime(MONOTONIC, &raw mut time) };
    (time.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(time.nanoseconds as u64)
}

impl Kind {
    pub(crate) const fn new() -> Self {
        Self { count: AtomicI32::new(0), long: AtomicU64::new(0) }
    }

    /// A task of this kind begins. `is_doubtful`: hidden until its kind is decided.
    #[inline]
    pub(crate) fn begin(&self, is_doubtful: bool) -> Measured {
        let count = self.count.load(Relaxed);
        if count >= HIDDEN {
            return Measured { begun_ns: 1, ..Measured::NOT };
        }
        let is_shown = count >= SHOWN;
        if is_shown && !is_doubtful {
            return Measured::NOT;
        }
        Measured { kind: self, begun_ns: now_ns() & !1 | u64::from(is_doubtful && !is_shown) }
    }
}

impl Measured {
    /// A task that is shown, whatever its kind.
    pub(crate) const NOT: Self = Self { kind: ptr::null(), begun_ns: 0 };

    pub(crate) const fn is_shown(self) -> bool {
        self.begun_ns & 1 == 0
    }

    /// The task ended; returns its kind, if that was found too short just now.
    #[inline]
    pub(crate) fn end(self) -> Option<*const Kind> {
        if self.kind.is_null() {
            return None;
        }
        // SAFETY: a structure of ITT's, which are never freed.
        let kind = unsafe { &*self.kind };
        let is_long = now_ns().saturating_sub(self.begun_ns) >= SHORTEST_NS;
        let long = kind.long.fetch_add(u64::from(is_long), Relaxed) + u64::from(is_long);
        let known = kind.count.load(Relaxed);
        if known >= HIDDEN {
            return None;
        }
        let (shown, count) = (known & SHOWN, (known & !SHOWN) + 1);
        let decided = match count {
            LOOKED_AT if 2 * long < u64::from(LOOKED_AT.unsigned_abs()) => HIDDEN,
            LOOKED_AT => SHOWN,
            EARLY if shown == 0 && long >= EARLY_LONG => SHOWN,
            count => shown | count,
        };
        let is_decided = kind.count.compare_exchange(known, decided, AcqRel, Relaxed).is_ok();
        if is_decided && decided >= SHOWN && decided & !SHOWN & !HIDDEN == 0 {
            // From now on other tasks are counted.
            kind.long.store(0, Relaxed);
        }
        (is_decided && decided == HIDDEN).then_some(self.kind)
    }
}
