//! Tasks that are too short to be phases: an edge costs about as much as the shortest of them takes. A task's
//! length is known at its end only and a phase begins at its begin, so it is decided by kind, from how long
//! the first ones of the kind took. The first ones of a library's inside compile, so such a kind is looked at
//! again and again while it is shown; what a program marks itself is decided once. Yields whether a task is
//! shown. A kind that was found too short stays hidden.

use core::{
    ffi::c_int,
    ptr,
    sync::atomic::{
        AtomicI32, AtomicU64,
        Ordering::{AcqRel, Relaxed},
    },
};

/// Kinds of which most take less are no phases. Not the mean: the first one of a kind compiles, and some wait
/// for a CPU.
const SHORTEST_NS: u64 = 20_000;
/// Tasks of a kind that are measured.
const LOOKED_AT: i32 = 64;
/// After so many, most of which are long, a kind is known to be long enough.
const EARLY: i32 = 8;
const EARLY_LONG: u64 = 6;
/// Added to the count of a kind that is shown.
const SHOWN: i32 = 1 << 16;
/// The count of a kind that is not.
const HIDDEN: i32 = 2 << 16;

/// What is known of a kind, in two fields that ITT's structures have for a tool: how many were measured, and
/// how long they took.
#[repr(C)]
pub(crate) struct Kind {
    count: AtomicI32,
    long: AtomicU64,
}

const _: () = assert!(size_of::<c_int>() == size_of::<AtomicI32>());

/// A task as its kind has it.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    /// Null: it is not measured.
    kind: *const Kind,
    /// Since then. The lowest bit tells that it is not shown.
    begun_ns: u64,
}

/// `struct timespec`.
#[repr(C)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    // The C library's asks the kernel for nothing where that lets it.
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

    /// A task of this kind begins. `is_doubtful`: it is not shown until its kind is known.
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
    /// It is shown, whatever its kind.
    pub(crate) const NOT: Self = Self { kind: ptr::null(), begun_ns: 0 };

    pub(crate) const fn is_shown(self) -> bool {
        self.begun_ns & 1 == 0
    }

    /// It ended: its kind, if that was found to be too short just now.
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
            // From here on others are counted.
            kind.long.store(0, Relaxed);
        }
        (is_decided && decided == HIDDEN).then_some(self.kind)
    }
}
