//! Calls of a graphics processor's driver that never return: their thread ends inside, or jumps out, or the
//! process gets another program.

use std::{
    ffi::c_void, hint::black_box, os::unix::process::CommandExt as _, ptr, sync::Barrier, thread,
    time::Duration,
};

use crate::{
    Case, Subject, burn,
    driver::{OF_CUDA, successors, thread_of_c},
    escape::{Place, escape, within},
    lives::myself,
    spin,
    stub::{CALL, CALL_NS, SPIN, Stub, Waits, handle},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("driver_ends_threads", ends_threads),
    ("driver_jumps", jumps_out),
    ("driver_execs", execs_inside),
    ("driver_is_replaced", is_replaced),
    ("driver_after_exec", after_exec),
];

/// More than the frames between a function and what it calls.
const STACK_BYTES: usize = 12 << 10;
const SLEEP: Duration = Duration::from_millis(5);

/// A function of the stub, and the stub.
struct Driver {
    stub: Stub,
    waits: Waits,
}

impl Driver {
    fn load(subject: &Subject) -> Self {
        let stub = Stub::load(subject);
        Self { stub, waits: stub.waits(OF_CUDA) }
    }

    /// Calls the function, from inside of which it calls back.
    fn calls_back(&self, wanted: extern "C-unwind" fn(*mut c_void), argument: *mut c_void) {
        self.stub.wants(wanted, argument);
        self.waits.call(handle(CALL, 0));
    }
}

/// Ends its thread as the C library does: by unwinding the stack to its begin.
extern "C-unwind" fn ends_thread(_: *mut c_void) {
    spin(Duration::from_nanos(CALL_NS as u64));
    // SAFETY: no frame of this thread has anything to clean up.
    unsafe { libc::pthread_exit(ptr::null_mut()) }
}

extern "C" fn calls_and_ends(driver: *mut c_void) -> *mut c_void {
    // SAFETY: the maker's own, which lives until the thread is joined.
    unsafe { &*driver.cast::<Driver>() }.calls_back(ends_thread, ptr::null_mut());
    ptr::null_mut()
}

fn ends_threads(subject: &Subject) {
    let mut driver = Driver::load(subject);
    for _ in 0..4 {
        thread_of_c(calls_and_ends, (&raw mut driver).cast());
    }
    successors(subject, 4);
}

/// A jump out of a call.
struct Jump<'a> {
    driver: &'a Driver,
    /// How long it is inside.
    inside: Duration,
    place: Place,
}

extern "C-unwind" fn calls_and_jumps(jump: *mut c_void) {
    // SAFETY: the jump's own frame lives until it is over.
    unsafe { (*jump.cast::<Jump>()).driver.calls_back(jumps, jump) };
}

extern "C-unwind" fn jumps(jump: *mut c_void) {
    // SAFETY: as above; `within` has noted the place, and is a caller of this function. Nothing in between
    // has anything to clean up.
    unsafe {
        spin((*jump.cast::<Jump>()).inside);
        escape((*jump.cast::<Jump>()).place)
    }
}

/// Calls the function and jumps out of it after this time.
#[inline(never)]
fn jump_out(driver: &Driver, inside: Duration) {
    let mut jump = Jump { driver, inside, place: ptr::null_mut() };
    let jump = &raw mut jump;
    // SAFETY: the jump lives across the call.
    unsafe { within(calls_and_jumps, jump.cast(), &raw mut (*jump).place) };
}

/// Uses the stack where the functions were whose call was left, as other calls do sooner or later.
#[inline(never)]
fn use_the_stack() {
    black_box(&mut [0x5a_u8; STACK_BYTES]);
}

/// Runs something far down the stack.
#[inline(never)]
fn deeper<R>(body: impl FnOnce() -> R) -> R {
    let mut frame = [0x5a_u8; STACK_BYTES];
    black_box(&mut frame);
    let result = body();
    black_box(&mut frame);
    result
}

/// In phase 1 the jump is noticed by the sleep that follows, in phase 2 by its end, so that phase 3 has
/// nothing of it; in phase 4 by another call further down, in phase 5 by another one from the same frame.
fn jumps_out(subject: &Subject) {
    let driver = &Driver::load(subject);
    let inside = Duration::from_nanos(CALL_NS as u64);
    let mut notes = Vec::new();
    subject.clerk(|clerk| {
        clerk.book("sleeps", 1, || {
            jump_out(driver, inside);
            use_the_stack();
            thread::sleep(SLEEP);
        });
        clerk.book("ends", 2, || {
            jump_out(driver, inside);
            use_the_stack();
        });
        clerk.book("computes", 3, || burn(CALL_NS as u64));
        let call = || driver.waits.call(handle(SPIN, CALL_NS));
        clerk.book("calls deeper", 4, || {
            jump_out(driver, inside);
            use_the_stack();
            notes.extend(deeper(|| driver.stub.noted(4, call)));
        });
        clerk.book("jumps again", 5, || {
            for _ in 0..2 {
                jump_out(driver, Duration::ZERO);
            }
            use_the_stack();
            notes.extend(driver.stub.noted(5, call));
        });
    });
    for (name, value) in notes {
        subject.fact(&name, value);
    }
}

/// Starts this program again, with the case that comes after.
extern "C-unwind" fn execs(subject: *mut c_void) {
    // SAFETY: the caller's own, which lives as long as the program.
    let error = myself(unsafe { &*subject.cast::<Subject>() }, "driver_after_exec").exec();
    panic!("this program can be started again: {error}");
}

/// The thread inside the call replaces the program.
fn execs_inside(subject: &Subject) {
    Driver::load(subject).calls_back(execs, ptr::from_ref(subject).cast_mut().cast());
}

/// Waits for the other thread, and then for a long time.
extern "C-unwind" fn stays(ready: *mut c_void) {
    // SAFETY: the maker's own, which lives as long as the program.
    unsafe { &*ready.cast::<Barrier>() }.wait();
    thread::sleep(Duration::from_mins(1));
}

/// Another thread replaces the program, while the first one is inside a call.
fn is_replaced(subject: &Subject) {
    let (driver, ready) = (Driver::load(subject), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            ready.wait();
            execs(ptr::from_ref(subject).cast_mut().cast());
        });
        driver.calls_back(stays, (&raw const ready).cast_mut().cast());
    });
}

/// The case of the program after exec.
fn after_exec(subject: &Subject) {
    subject.clerk(|clerk| clerk.book("sleep", 1, || thread::sleep(SLEEP)));
}
