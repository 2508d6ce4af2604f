//! Open calls of probed functions on a thread, by the place of their frames: pure, `no_std`, tested on the
//! host.
//!
//! A stack grows downward, so a frame below a new event's is gone: the call was left without a return
//! (longjmp, an exception, a jump that is not probed). The end of its phase is lost. This module uses no maps
//! and no clocks.
//!
//! Everything is read and written through the map's value: a verifier that knows a value follows every
//! possible case of it.
#![expect(
    clippy::inline_always,
    reason = "a call costs a BPF program more than the body, and some kernels' verifiers refuse it"
)]

use crate::NAME_BYTES;

/// Offsets of the integer arguments in x86-64's `pt_regs`, bytes: di, si, dx, cx, r8, r9.
pub const ARGUMENTS_X86_64: [usize; 6] = [112, 104, 96, 88, 72, 64];
/// Most open calls of one thread; of deeper recursion the outermost are followed. A power of two, since it is
/// also a mask.
pub const OPEN_CALLS: usize = 32;
/// Most functions and USDT probes at once.
pub const FUNCTIONS: u32 = 256;
/// Calls of one function that are shown within [`WINDOW_NS`]; further ones are only counted.
pub const SHOWN_PER_WINDOW: u64 = 1_000;
/// The window, ns, in which calls of a thousand threads are counted like those of one.
pub const WINDOW_NS: u64 = 100_000_000;

/// Flag in a probe's cookie, beside the function's number: a place within a function, which has no frame of
/// its own.
pub const COOKIE_PLACE: u64 = 1 << 32;
/// Flag in a probe's cookie: a function of Go's, whose calls are open on a goroutine, not on a thread.
pub const COOKIE_GO: u64 = 1 << 33;
/// The event of a probe in Go's scheduler stands above these bits of its cookie.
pub const COOKIE_EVENT_SHIFT: u32 = 34;
/// A thread looks for another goroutine to run (`runtime.schedule`).
pub const GO_SCHEDULE: u64 = 1;
/// The thread continues with the goroutine in the first argument (`runtime.execute`).
pub const GO_EXECUTE: u64 = 2;
/// The goroutine in the first argument has ended (`runtime.goexit0`).
pub const GO_EXIT: u64 = 3;
/// Most goroutines, over all programs, that are inside probed functions or have received a request. Their
/// open calls are the elements 1 to `GOROUTINES` of the table of open calls; those of threads come after
/// them.
pub const GOROUTINES: u32 = 1024;

/// A goroutine, as the key of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Goroutine {
    /// Address of its `runtime.g`.
    pub g: u64,
    /// Process ID in the lower half; in the upper half, the number of times that the process has called exec:
    /// after it, goroutines differ though their addresses may be equal.
    pub program: u64,
}

/// For kernels without cookies: positions of entries in a page, then those of exits.
pub const PLACES_IN_PAGE: u32 = 4096;
/// Flag of an edge: the phase in its fourth argument (at an end: the phase that it ends) was left without an
/// end.
pub const EDGE_CALL_LOST: u32 = 8;

/// Where the function has the argument that holds the request's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Argument {
    /// An [`ArgumentKind`].
    pub kind: u32,
    /// Offset of the register in the probe's context, bytes.
    pub register: u32,
    /// The constant, or the offset that is added to the register.
    pub value: u64,
    /// Size of the argument: 1, 2, 4 or 8 bytes.
    pub bytes: u32,
    /// 1 if its sign is extended.
    pub signed: u32,
}

/// Kinds of [`Argument`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ArgumentKind {
    /// No argument.
    None = 0,
    /// A constant.
    Constant = 1,
    /// In a register.
    Register = 2,
    /// In memory that a register points to.
    Memory = 3,
}

/// A function whose calls are phases, and its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Function {
    /// The phase's name.
    pub name: [u8; NAME_BYTES],
    /// Length of the name, bytes.
    pub name_bytes: u32,
    /// Number of the edges' source, by the contract.
    pub source: u32,
    /// Number of the request.
    pub argument: Argument,
    /// 1 if a call is a point in time.
    pub is_mark: u64,
    /// Start of the window.
    pub window_ns: u64,
    /// Calls within the window.
    pub in_window: u64,
    /// Calls of tracked threads.
    pub calls: u64,
    /// Calls that were not shown because there were too many.
    pub thinned: u64,
    /// Calls that were not shown because too many others were open on their thread.
    pub too_deep: u64,
    /// Calls that were left without a return.
    pub lost: u64,
}

/// An open call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Call {
    /// Place of its frame on the stack; [`PLACE`] if it has none.
    pub frame: u64,
    /// Number of the function.
    pub function: u32,
    /// 1 if its start was handed over, so its end will be too.
    pub shown: u32,
}

/// Stands for the frame of a call without one: it is gone only with its own end or the return of the call
/// around it.
pub const PLACE: u64 = u64::MAX;

/// A [`Found`] for a call that was not recorded because the thread's table was full.
pub const TOO_DEEP: u64 = 1 << 24;

/// The open calls of a thread, the outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Calls {
    /// Number of open calls.
    pub depth: u64,
    /// Part of [`Found`] for the present event.
    lost: u64,
    lost_all: u64,
    own: u64,
    stack: [Call; OPEN_CALLS],
}

/// Effect of an event, in one word: a function in the kernel returns no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found(pub u64);

impl Found {
    /// Place of the call that began or ended here, from 1; 0 if it is not shown as a phase.
    #[inline(always)]
    #[must_use]
    pub const fn own(self) -> u64 {
        self.0 & 0xff
    }

    /// Place of the outermost shown call that was left without a return, from 1; 0 if there is none.
    #[inline(always)]
    #[must_use]
    pub const fn lost(self) -> u64 {
        self.0 >> 8 & 0xff
    }

    /// Number of shown calls that are gone without an end.
    #[inline(always)]
    #[must_use]
    pub const fn lost_calls(self) -> u64 {
        self.0 >> 16 & 0xff
    }

    /// There was no room for the call.
    #[inline(always)]
    #[must_use]
    pub const fn is_too_deep(self) -> bool {
        self.0 >> 24 & 1 != 0
    }
}

/// Element, in the table of open calls, of the thread with this slot.
#[inline(always)]
#[must_use]
pub const fn carrier_of(slot: u16) -> u64 {
    GOROUTINES as u64 + 1 + slot as u64
}

/// Token of a call: unique among the open ones of all threads and goroutines, and no root's token.
#[inline(always)]
#[must_use]
pub const fn token(carrier: u64, place: u64) -> u64 {
    carrier << 6 | place
}

macro_rules! get {
    ($of:ident.$field:ident) => {
        core::ptr::read_volatile(&raw const (*$of).$field)
    };
}
macro_rules! set {
    ($of:ident.$field:ident = $value:expr) => {{
        let value = $value;
        core::ptr::write_volatile(&raw mut (*$of).$field, value)
    }};
}

/// The call below this depth.
#[inline(always)]
unsafe fn below(calls: *mut Calls, depth: u64) -> *mut Call {
    // SAFETY: the mask keeps the index inside the array.
    unsafe {
        (&raw mut (*calls).stack)
            .cast::<Call>()
            .add((depth.wrapping_sub(1) & (OPEN_CALLS as u64 - 1)) as usize)
    }
}

/// Notes that the call at this depth is gone without an end.
#[inline(always)]
unsafe fn lose(calls: *mut Calls, call: *mut Call, depth: u64, gone: impl Fn(u32)) {
    // SAFETY: the caller's.
    unsafe {
        gone(get!(call.function));
        if get!(call.shown) != 0 {
            set!(calls.lost = depth);
            set!(calls.lost_all = get!(calls.lost_all).wrapping_add(1));
        }
    }
}

/// The result, once `depth` is final.
#[inline(always)]
unsafe fn found(calls: *mut Calls, own: u64) -> Found {
    // SAFETY: the caller's.
    unsafe { Found(own & 0xff | (get!(calls.lost) & 0xff) << 8 | (get!(calls.lost_all) & 0xff) << 16) }
}

/// Records a call that begins at stack address `at`. Calls with frames at or below that address are gone: two
/// open calls never share a frame. `gone` gets the function of each.
///
/// # Safety
/// `calls` must point to a whole value that nobody else writes.
#[inline(always)]
pub unsafe fn enter(calls: *mut Calls, at: u64, call: Call, gone: impl Fn(u32)) -> Found {
    // SAFETY: the caller's.
    unsafe {
        set!(calls.lost = 0);
        set!(calls.lost_all = 0);
        let mut turn = 0;
        while turn < OPEN_CALLS {
            let depth = get!(calls.depth);
            if depth == 0 {
                break;
            }
            let top = below(calls, depth);
            let frame = get!(top.frame);
            if frame > at {
                break;
            }
            lose(calls, top, depth, &gone);
            set!(calls.depth = depth.wrapping_sub(1));
            turn += 1;
        }
        let depth = get!(calls.depth);
        if depth >= OPEN_CALLS as u64 {
            return Found(found(calls, 0).0 | TOO_DEEP);
        }
        let own = below(calls, depth.wrapping_add(1));
        set!(own.frame = call.frame);
        set!(own.function = call.function);
        set!(own.shown = call.shown);
        set!(calls.depth = depth.wrapping_add(1));
        found(calls, if call.shown != 0 { depth.wrapping_add(1) } else { 0 })
    }
}

/// A call ends: of `function`, with the frame at `at`; with [`PLACE`], the innermost one of that function.
/// Calls whose frames lie below are gone. An unknown call ends nothing.
///
/// # Safety
/// As for [`enter`].
#[inline(always)]
pub unsafe fn leave(calls: *mut Calls, at: u64, function: u32, gone: impl Fn(u32)) -> Found {
    // SAFETY: the caller's.
    unsafe {
        set!(calls.lost = 0);
        set!(calls.lost_all = 0);
        set!(calls.own = 0);
        let mut depth = get!(calls.depth);
        let mut turn = 0;
        while turn < OPEN_CALLS && depth != 0 {
            let top = below(calls, depth);
            let frame = get!(top.frame);
            if frame == at && get!(top.function) == function {
                set!(calls.own = if get!(top.shown) != 0 { depth } else { 0 });
                forget_to(calls, depth, gone);
                set!(calls.depth = depth.wrapping_sub(1));
                return found(calls, get!(calls.own));
            }
            if frame > at && frame != PLACE {
                break;
            }
            depth = depth.wrapping_sub(1);
            turn += 1;
        }
        forget_below(calls, at, gone)
    }
}

/// The outermost shown open call, by its place from 1 on; 0 if there is none.
///
/// # Safety
/// As for [`enter`].
#[inline(always)]
#[must_use]
pub unsafe fn outermost(calls: *mut Calls) -> u64 {
    // SAFETY: the caller's.
    unsafe {
        let depth = get!(calls.depth);
        let mut place = 1;
        while place <= OPEN_CALLS as u64 && place <= depth {
            let call = below(calls, place);
            if get!(call.shown) != 0 {
                return place;
            }
            place += 1;
        }
        0
    }
}

/// The calls within the call at this depth are gone.
#[inline(always)]
unsafe fn forget_to(calls: *mut Calls, own: u64, gone: impl Fn(u32)) {
    // SAFETY: the caller's.
    unsafe {
        let mut turn = 0;
        while turn < OPEN_CALLS {
            let depth = get!(calls.depth);
            if depth <= own {
                break;
            }
            lose(calls, below(calls, depth), depth, &gone);
            set!(calls.depth = depth.wrapping_sub(1));
            turn += 1;
        }
    }
}

/// An unknown call returns: calls below it are gone all the same, down to the first without a frame.
#[inline(always)]
unsafe fn forget_below(calls: *mut Calls, at: u64, gone: impl Fn(u32)) -> Found {
    // SAFETY: the caller's.
    unsafe {
        let mut turn = 0;
        while turn < OPEN_CALLS && at != PLACE {
            let depth = get!(calls.depth);
            if depth == 0 {
                break;
            }
            let top = below(calls, depth);
            if get!(top.frame) >= at {
                break;
            }
            lose(calls, top, depth, &gone);
            set!(calls.depth = depth.wrapping_sub(1));
            turn += 1;
        }
        found(calls, 0)
    }
}

const _: () = assert!(OPEN_CALLS.is_power_of_two() && OPEN_CALLS < 0x40);
const _: () = assert!(
    size_of::<Calls>() == 32 + 16 * OPEN_CALLS && size_of::<Function>() == NAME_BYTES + 8 + 24 + 8 + 48
);

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
