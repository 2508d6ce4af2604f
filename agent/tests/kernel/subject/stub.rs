//! A stub of a graphics processor's driver that is loaded, CUDA's, HIP's or Level Zero's: its functions by
//! name, and its own log.

use std::{
    ffi::{CString, c_int, c_void},
    ptr,
};

use crate::{
    Subject,
    clerk::{Clerk, clock_ns},
};

pub(crate) const SPIN: usize = 0;
pub(crate) const BLOCK: usize = 1;
pub(crate) const BOTH: usize = 2;
pub(crate) const EXIT: usize = 3;
pub(crate) const NESTED: usize = 4;
/// It calls what `stub_call` was given.
pub(crate) const CALL: usize = 7;

/// Calls of a phase.
pub(crate) const CALLS: usize = 20;
/// Time of a call, ns: that of a small inference.
pub(crate) const CALL_NS: usize = 2_000_000;

/// A handle that says how a function waits, and for how long.
pub(crate) fn handle(order: usize, ns: usize) -> *const c_void {
    ptr::without_provenance(ns << 3 | order)
}

/// As the stubs have it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Log {
    calls: u64,
    inside_ns: u64,
    cpu_ns: u64,
}

/// What is called from inside a function.
pub(crate) type Wanted = extern "C-unwind" fn(*mut c_void);
pub(crate) type Copier = unsafe extern "C" fn(*mut u8, *const u8, usize, *const c_void) -> c_int;
type OfNothing = unsafe extern "C-unwind" fn() -> c_int;
type OfHandle = unsafe extern "C-unwind" fn(*const c_void) -> c_int;
type Timed = unsafe extern "C-unwind" fn(*const c_void, u64) -> c_int;
type Next = unsafe extern "C" fn(*const c_void);

/// A function that waits.
#[derive(Clone, Copy)]
pub(crate) enum Waits {
    /// It takes a stream or an event.
    OfHandle(OfHandle),
    /// It also takes the longest time to wait.
    Timed(Timed),
    /// It takes nothing: the second one says how it waits.
    OfNothing(OfNothing, Next),
}

impl Waits {
    /// Calls it with this handle.
    pub(crate) fn call(self, handle: *const c_void) {
        // SAFETY: the stubs take any handle.
        unsafe {
            match self {
                Self::OfHandle(function) => function(handle),
                Self::Timed(function) => function(handle, u64::MAX),
                Self::OfNothing(function, next) => {
                    next(handle);
                    function()
                }
            };
        }
    }

    /// Calls it as often as a phase has calls.
    pub(crate) fn calls(self, order: usize) {
        for _ in 0..CALLS {
            self.call(handle(order, CALL_NS));
        }
    }
}

/// The library whose path is the first argument.
#[derive(Clone, Copy)]
pub(crate) struct Stub {
    library: *mut c_void,
    log: unsafe extern "C" fn() -> Log,
    call: unsafe extern "C" fn(Wanted, *mut c_void),
}

// SAFETY: a library that stays loaded, and functions of it that any thread may call.
unsafe impl Send for Stub {}
// SAFETY: as above.
unsafe impl Sync for Stub {}

impl Stub {
    pub(crate) fn load(subject: &Subject) -> Self {
        let path = CString::new(subject.arguments[0].as_str()).expect("a path has no zero byte");
        // SAFETY: the library is the tests' own, and its functions have these types.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null(), "the stub is there: {path:?}");
            Self { library, log: function(library, "stub_log"), call: function(library, "stub_call") }
        }
    }

    /// A function that waits, by its name.
    pub(crate) fn waits(self, name: &str) -> Waits {
        // SAFETY: functions of these names have these types.
        unsafe {
            match name {
                "cuCtxSynchronize" | "hipDeviceSynchronize" | "hipCtxSynchronize" => {
                    Waits::OfNothing(function(self.library, name), function(self.library, "stub_next"))
                }
                _ if name.starts_with("ze") => Waits::Timed(function(self.library, name)),
                _ => Waits::OfHandle(function(self.library, name)),
            }
        }
    }

    /// A function that copies, by its name.
    pub(crate) fn copies(self, name: &str) -> Copier {
        // SAFETY: functions that copy have this type.
        unsafe { function(self.library, name) }
    }

    /// What functions of this thread call that are asked to by their handle.
    pub(crate) fn wants(self, wanted: Wanted, argument: *mut c_void) {
        // SAFETY: the stub calls it on this thread, in calls of this program.
        unsafe { (self.call)(wanted, argument) };
    }

    /// Runs calls in a phase; then notes what lay inside the stub and around it, under names that end with
    /// the number.
    pub(crate) fn book(self, subject: &Subject, clerk: &mut Clerk, number: u64, calls: impl FnOnce()) {
        let mut notes = Vec::new();
        clerk.book("calls", number, || notes = self.noted(number, calls));
        // Not in the phase, whose sleeps are all inside the stub.
        for (name, value) in notes {
            subject.fact(&name, value);
        }
    }

    /// Runs calls. Returns the notes of them.
    pub(crate) fn noted(self, number: u64, calls: impl FnOnce()) -> Vec<(String, u64)> {
        let clocks = || [libc::CLOCK_MONOTONIC, libc::CLOCK_THREAD_CPUTIME_ID].map(clock_ns);
        // SAFETY: the functions of the stub have these types.
        let log = || unsafe { (self.log)() };
        let (before, logged) = (clocks(), log());
        calls();
        let (after, now) = (clocks(), log());
        let notes = [
            ("calls", now.calls - logged.calls),
            ("inside", now.inside_ns - logged.inside_ns),
            ("inside_cpu", now.cpu_ns - logged.cpu_ns),
            ("around", after[0] - before[0]),
            ("around_cpu", after[1] - before[1]),
        ];
        notes.map(|(name, value)| (format!("{name}{number}"), value)).to_vec()
    }
}

/// A function of a library.
///
/// # Safety
/// `F` is the type of a pointer to it.
unsafe fn function<F: Copy>(library: *mut c_void, name: &str) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let name = CString::new(name).expect("a name has no zero byte");
    // SAFETY: the library is loaded; the caller's.
    unsafe {
        let found = libc::dlsym(library, name.as_ptr());
        assert!(!found.is_null(), "{name:?}");
        std::mem::transmute_copy(&found)
    }
}
