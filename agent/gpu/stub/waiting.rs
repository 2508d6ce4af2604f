//! How functions of the stubs pass their time, and a log of it: the same for CUDA's driver, HIP and Level
//! Zero.
//!
//! Each library has its own copy, and its own log. The handle that such functions take (a stream, an event, a
//! queue) says how they wait: [`Order`].

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    ptr,
    time::Duration,
};

use crate::pool;

/// How a function waits: the low three bits of the handle. The others are nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// It asks again and again whether the time is over.
    Spin,
    /// It sleeps until the pool's thread wakes it.
    Block,
    /// It spins for half of the time and sleeps for the rest.
    Both,
    /// It ends its thread meanwhile.
    Exit,
    /// It calls another exported function that waits for the time.
    Nested,
    /// It spins until all work of the stream is done whose number the handle has in place of nanoseconds.
    Stream,
    /// It sleeps until then.
    StreamAsleep,
    /// It calls what [`stub_call`] was given, which may never come back. This is not in the log.
    Call,
}

impl Order {
    pub(crate) fn of(handle: *const c_void) -> (Self, Duration) {
        let word = handle.addr() as u64;
        let order = match word & 7 {
            0 => Self::Spin,
            1 => Self::Block,
            2 => Self::Both,
            3 => Self::Exit,
            4 => Self::Nested,
            5 => Self::Stream,
            6 => Self::StreamAsleep,
            _ => Self::Call,
        };
        (order, Duration::from_nanos(word >> 3))
    }
}

/// What passed inside the functions on the calling thread.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Log {
    /// Calls of functions that wait or copy, inner ones left out.
    pub(crate) calls: u64,
    /// Time from the first to the last instruction, ns of `CLOCK_MONOTONIC`.
    pub(crate) inside_ns: u64,
    /// The same by the thread's CPU clock, ns.
    pub(crate) cpu_ns: u64,
}

/// What the program wants to be called from inside, with its argument. It may jump out or end its thread.
pub(crate) type Wanted = extern "C-unwind" fn(*mut c_void);

thread_local! {
    static LOG: Cell<Log> = const { Cell::new(Log { calls: 0, inside_ns: 0, cpu_ns: 0 }) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static NEXT: Cell<*const c_void> = const { Cell::new(ptr::null()) };
    static CALL: Cell<Option<(Wanted, *mut c_void)>> = const { Cell::new(None) };
}

pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives across the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs the body of a function, and notes what passed.
pub(crate) fn noted(body: impl FnOnce()) -> c_int {
    let is_outermost = DEPTH.get() == 0;
    DEPTH.set(DEPTH.get() + 1);
    let (begun_ns, cpu_ns) = (clock_ns(libc::CLOCK_MONOTONIC), clock_ns(libc::CLOCK_THREAD_CPUTIME_ID));
    body();
    if is_outermost {
        let mut log = LOG.get();
        log.cpu_ns += clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
        log.inside_ns += clock_ns(libc::CLOCK_MONOTONIC) - begun_ns;
        log.calls += 1;
        LOG.set(log);
    }
    DEPTH.set(DEPTH.get() - 1);
    0
}

/// Spins for so long.
pub(crate) fn spin(time: Duration) {
    let end_ns = clock_ns(libc::CLOCK_MONOTONIC) + time.as_nanos() as u64;
    while clock_ns(libc::CLOCK_MONOTONIC) < end_ns {
        std::hint::spin_loop();
    }
}

/// Passes this time, in this way.
pub(crate) fn pass(order: Order, time: Duration) {
    let ns = time.as_nanos() as usize;
    match order {
        Order::Spin => spin(time),
        Order::Block => pool::sleep(time),
        Order::Both => {
            spin(time / 2);
            pool::sleep(time / 2);
        }
        Order::Exit => {
            spin(time);
            // SAFETY: the thread ends here, as its caller asked for; the kernel tells the one that joins it.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        Order::Nested => crate::inner(ptr::without_provenance(ns << 3)),
        Order::Stream => spin(left(ns)),
        Order::StreamAsleep => {
            let left = left(ns);
            if !left.is_zero() {
                pool::sleep(left);
            }
        }
        Order::Call => {}
    }
}

/// Time until the work of the stream with this number is done.
fn left(stream: usize) -> Duration {
    Duration::from_nanos(crate::end_ns(stream).saturating_sub(clock_ns(libc::CLOCK_MONOTONIC)))
}

/// The body of a function that waits as its handle says.
pub(crate) fn synchronize(handle: *const c_void) -> c_int {
    let (order, time) = Order::of(handle);
    if order == Order::Call {
        if let Some((wanted, argument)) = CALL.get() {
            wanted(argument);
        }
        return 0;
    }
    noted(|| pass(order, time))
}

/// The handle of functions that take none.
#[allow(dead_code, reason = "Level Zero has no function without a handle")]
pub(crate) fn next() -> *const c_void {
    NEXT.get()
}

/// How the next calls of functions without a handle wait on this thread.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn stub_next(handle: *const c_void) {
    NEXT.set(handle);
}

/// What functions of this thread call that are asked to by their handle.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn stub_call(wanted: Wanted, argument: *mut c_void) {
    CALL.set(Some((wanted, argument)));
}

/// What passed on the calling thread so far.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn stub_log() -> Log {
    LOG.get()
}
