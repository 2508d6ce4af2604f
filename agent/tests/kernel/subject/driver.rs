//! Calls of a graphics processor's driver, the stub of CUDA's: its own log is noted.

use std::{
    ffi::{CString, c_int, c_void},
    ptr, thread,
    time::Duration,
};

use crate::{
    Case, Subject,
    clerk::{Clerk, clock_ns},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("driver_spins", |subject| waits(subject, SPIN)),
    ("driver_blocks", |subject| waits(subject, BLOCK)),
    ("driver_does_both", |subject| waits(subject, BOTH)),
    ("driver_nests", |subject| waits(subject, NESTED)),
    ("driver_copies", copies),
    ("driver_of_many", of_many),
    ("driver_exits", exits),
];

const SPIN: usize = 0;
const BLOCK: usize = 1;
const BOTH: usize = 2;
const EXIT: usize = 3;
const NESTED: usize = 4;

/// Calls of a phase.
const CALLS: usize = 20;
/// Time of a call, ns: that of a small inference.
const CALL_NS: usize = 2_000_000;
/// Bytes of a copy.
const BYTES: usize = 1 << 20;
/// Threads that call at once.
pub(crate) const MANY: usize = 32;

#[derive(Clone, Copy)]
#[repr(C)]
struct Log {
    calls: u64,
    inside_ns: u64,
    cpu_ns: u64,
}

type Synchronize = unsafe extern "C" fn(*const c_void) -> c_int;
type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize, *const c_void) -> c_int;

/// The functions of the library whose path is the first argument.
#[derive(Clone, Copy)]
struct Driver {
    stream: Synchronize,
    to: Copy,
    from: Copy,
    log: unsafe extern "C" fn() -> Log,
}

fn handle(order: usize, ns: usize) -> *const c_void {
    ptr::without_provenance(ns << 3 | order)
}

impl Driver {
    fn load(subject: &Subject) -> Self {
        let path = CString::new(subject.arguments[0].as_str()).expect("a path has no zero byte");
        // SAFETY: the library is the tests' own, and its functions have these types.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null(), "the stub is there: {path:?}");
            let find = |name: &std::ffi::CStr| {
                let found = libc::dlsym(library, name.as_ptr());
                assert!(!found.is_null(), "{name:?}");
                found
            };
            Self {
                stream: std::mem::transmute::<*mut c_void, Synchronize>(find(c"cuStreamSynchronize")),
                to: std::mem::transmute::<*mut c_void, Copy>(find(c"cuMemcpyHtoDAsync_v2")),
                from: std::mem::transmute::<*mut c_void, Copy>(find(c"cuMemcpyDtoHAsync_v2")),
                log: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> Log>(find(c"stub_log")),
            }
        }
    }

    fn waits(self, order: usize) {
        for _ in 0..CALLS {
            // SAFETY: the stub takes any handle.
            unsafe { (self.stream)(handle(order, CALL_NS)) };
        }
    }

    /// Runs calls in a phase; then notes what lay inside the stub and around it, under names that end with
    /// the number.
    fn book(self, subject: &Subject, clerk: &mut Clerk, number: u64, calls: impl FnOnce()) {
        let mut notes = Vec::new();
        clerk.book("calls", number, || notes = self.noted(number, calls));
        // Not in the phase, whose sleeps are all inside the stub.
        for (name, value) in notes {
            subject.fact(&name, value);
        }
    }

    fn noted(self, number: u64, calls: impl FnOnce()) -> Vec<(String, u64)> {
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

fn waits(subject: &Subject, order: usize) {
    let driver = Driver::load(subject);
    // The pool's thread starts, and pages are touched.
    driver.waits(order);
    subject.clerk(|clerk| {
        driver.book(subject, clerk, 1, || driver.waits(order));
    });
}

fn copies(subject: &Subject) {
    let driver = Driver::load(subject);
    let (from, mut to) = (vec![1; BYTES], vec![0; BYTES]);
    let mut copy = |bytes: usize, ns: usize| {
        for _ in 0..CALLS {
            let handle = handle(SPIN, ns);
            // SAFETY: both buffers have as many bytes.
            unsafe {
                (driver.to)(to.as_mut_ptr(), from.as_ptr(), bytes, handle);
                (driver.from)(to.as_mut_ptr(), from.as_ptr(), bytes / 2, handle);
            }
        }
    };
    copy(BYTES, 0);
    subject.clerk(|clerk| {
        driver.book(subject, clerk, 1, || copy(BYTES, CALL_NS));
        driver.book(subject, clerk, 2, || copy(64, 0));
    });
}

fn of_many(subject: &Subject) {
    let driver = Driver::load(subject);
    driver.waits(BOTH);
    subject.clerks(MANY, |thread, clerk| {
        let number = thread as u64 + 1;
        let order = if thread % 2 == 0 { BLOCK } else { BOTH };
        driver.book(subject, clerk, number, || driver.waits(order));
    });
}

/// A thread of C's library: one of Rust's has to return.
extern "C" fn ends(driver: *mut c_void) -> *mut c_void {
    // SAFETY: the maker's own, which lives until the thread is joined; the stub takes any handle.
    unsafe { ((*driver.cast::<Driver>()).stream)(handle(EXIT, CALL_NS)) };
    ptr::null_mut()
}

/// Threads end inside a call; those that get their slots make none.
fn exits(subject: &Subject) {
    let mut driver = Driver::load(subject);
    for _ in 0..4 {
        // SAFETY: a number or a pointer, by the C library; both values live until the thread has ended.
        unsafe {
            let mut thread: libc::pthread_t = std::mem::zeroed();
            let made = libc::pthread_create(&raw mut thread, ptr::null(), ends, (&raw mut driver).cast());
            assert_eq!(made, 0);
            assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
        }
    }
    subject.clerks(4, |thread, clerk| {
        clerk.book("sleep", thread as u64 + 1, || thread::sleep(Duration::from_millis(5)));
    });
}
