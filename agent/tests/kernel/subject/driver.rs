//! Calls of graphics processors' drivers, by stubs: their own log is noted.

use std::{ffi::c_void, ptr, thread, time::Duration};

use crate::{
    Case, Subject,
    stub::{BLOCK, BOTH, CALL_NS, CALLS, EXIT, NESTED, SPIN, Stub, Waits, handle},
};

/// Cases by name.
pub(crate) const CASES: &[Case] = &[
    ("driver_spins", |subject| waits(subject, SPIN)),
    ("driver_blocks", |subject| waits(subject, BLOCK)),
    ("driver_does_both", |subject| waits(subject, BOTH)),
    ("driver_nests", |subject| waits(subject, NESTED)),
    ("driver_by_name", by_name),
    ("driver_copies", copies),
    ("driver_of_many", of_many),
    ("driver_exits", exits),
];

/// The function of CUDA that these cases call.
pub(crate) const OF_CUDA: &str = "cuStreamSynchronize";

/// Bytes of a copy.
const BYTES: usize = 1 << 20;
/// Threads that call at once.
const MANY: usize = 32;

fn waits(subject: &Subject, order: usize) {
    let stub = Stub::load(subject);
    let waits = stub.waits(OF_CUDA);
    // The pool's thread starts, and pages are touched.
    waits.calls(order);
    subject.clerk(|clerk| {
        stub.book(subject, clerk, 1, || waits.calls(order));
    });
}

/// Each function that the other arguments name, in two phases: it spins, and it sleeps.
fn by_name(subject: &Subject) {
    let stub = Stub::load(subject);
    let functions: Vec<Waits> = subject.arguments[1..].iter().map(|name| stub.waits(name)).collect();
    functions[0].call(handle(BOTH, CALL_NS));
    subject.clerk(|clerk| {
        let phases = functions.iter().flat_map(|waits| [(waits, SPIN), (waits, BLOCK)]);
        for (number, (waits, order)) in (1..).zip(phases) {
            stub.book(subject, clerk, number, || waits.calls(order));
        }
    });
}

/// Copies by the functions that the other arguments name: to the device and from it.
fn copies(subject: &Subject) {
    let stub = Stub::load(subject);
    let [to_device, from_device] = [1, 2].map(|place| stub.copies(&subject.arguments[place]));
    let (from, mut to) = (vec![1; BYTES], vec![0; BYTES]);
    let mut copy = |bytes: usize, ns: usize| {
        for _ in 0..CALLS {
            let handle = handle(SPIN, ns);
            // SAFETY: both buffers have as many bytes.
            unsafe {
                to_device(to.as_mut_ptr(), from.as_ptr(), bytes, handle);
                from_device(to.as_mut_ptr(), from.as_ptr(), bytes / 2, handle);
            }
        }
    };
    copy(BYTES, 0);
    subject.clerk(|clerk| {
        stub.book(subject, clerk, 1, || copy(BYTES, CALL_NS));
        stub.book(subject, clerk, 2, || copy(64, 0));
    });
}

fn of_many(subject: &Subject) {
    let stub = Stub::load(subject);
    let waits = stub.waits(OF_CUDA);
    waits.calls(BOTH);
    subject.clerks(MANY, |thread, clerk| {
        let number = thread as u64 + 1;
        let order = if thread % 2 == 0 { BLOCK } else { BOTH };
        stub.book(subject, clerk, number, || waits.calls(order));
    });
}

/// A thread of the C library: one of Rust's has to return. It calls the function, which ends it.
extern "C" fn ends(waits: *mut c_void) -> *mut c_void {
    // SAFETY: the maker's own, which lives until the thread is joined.
    unsafe { *waits.cast::<Waits>() }.call(handle(EXIT, CALL_NS));
    ptr::null_mut()
}

/// Runs a thread of the C library to its end.
pub(crate) fn thread_of_c(body: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) {
    // SAFETY: a number or a pointer, by the C library; both values live until the thread has ended.
    unsafe {
        let mut thread: libc::pthread_t = std::mem::zeroed();
        assert_eq!(libc::pthread_create(&raw mut thread, ptr::null(), body, argument), 0);
        assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
    }
}

/// Threads that make no call get the slots of those that ended before.
pub(crate) fn successors(subject: &Subject, threads: usize) {
    subject.clerks(threads, |thread, clerk| {
        clerk.book("sleep", thread as u64 + 1, || thread::sleep(Duration::from_millis(5)));
    });
}

/// Threads end inside a call; those that get their slots make none.
fn exits(subject: &Subject) {
    let mut waits = Stub::load(subject).waits(OF_CUDA);
    for _ in 0..4 {
        thread_of_c(ends, (&raw mut waits).cast());
    }
    successors(subject, 4);
}
