//! Functions of the C library that every CUDA program has, and of the kernel. Safe where they can be.

use core::{
    ffi::{CStr, c_char, c_int, c_long, c_short, c_uint, c_ulong, c_void},
    mem::MaybeUninit,
    ptr,
};

const REALTIME: c_int = 0;
const MONOTONIC: c_int = 1;
const THREAD_CPU: c_int = 3;
const SIG_BLOCK: c_int = 0;
const SIG_SETMASK: c_int = 2;
const PR_SET_NAME: c_int = 15;
const PROT_READ_WRITE: c_int = 3;
const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
const POLL_IN: c_short = 1;
/// Bytes of `sigset_t` in glibc and musl.
const SIGNALS: usize = 128;

/// `struct timespec`.
#[repr(C)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

/// `struct pollfd`.
#[repr(C)]
struct Polled {
    descriptor: c_int,
    events: c_short,
    found: c_short,
}

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn pthread_create(
        thread: *mut c_ulong,
        attributes: *const c_void,
        body: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_detach(thread: c_ulong) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const c_void, old: *mut c_void) -> c_int;
    fn sigfillset(set: *mut c_void) -> c_int;
    fn mmap(
        at: *mut c_void,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn poll(polled: *mut Polled, count: c_ulong, milliseconds: c_int) -> c_int;
    fn getpid() -> c_int;
    fn __cxa_atexit(body: extern "C" fn(*mut c_void), argument: *mut c_void, library: *mut c_void) -> c_int;
    pub(crate) fn shutdown(socket: c_int, how: c_int) -> c_int;
    pub(crate) fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    pub(crate) fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub(crate) fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub(crate) fn read(descriptor: c_int, into: *mut c_void, bytes: usize) -> isize;
    pub(crate) fn close(descriptor: c_int) -> c_int;
    pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    pub(crate) fn connect(socket: c_int, address: *const c_void, bytes: c_uint) -> c_int;
    pub(crate) fn send(socket: c_int, from: *const c_void, bytes: usize, flags: c_int) -> isize;
    pub(crate) fn recv(socket: c_int, into: *mut c_void, bytes: usize, flags: c_int) -> isize;
    pub(crate) fn setsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        bytes: c_uint,
    ) -> c_int;
}

/// An environment variable, valid as long as the environment is not changed: callers copy it at once.
pub(crate) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name is a C string; the result is null or a C string.
    let value = unsafe { getenv(name.as_ptr()) };
    // SAFETY: not null, so a C string.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

fn clock_ns(clock: c_int) -> u64 {
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the structure is the kernel's, and lives across the call.
    unsafe { clock_gettime(clock, &raw mut time) };
    (time.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(time.nanoseconds as u64)
}

/// CLOCK_MONOTONIC, by which the kernel's edges are timed, ns.
pub(crate) fn now_ns() -> u64 {
    clock_ns(MONOTONIC)
}

/// CLOCK_REALTIME, ns.
pub(crate) fn wall_ns() -> u64 {
    clock_ns(REALTIME)
}

/// CPU time of the calling thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(THREAD_CPU)
}

/// Starts a thread that no signal of the program interrupts. False: there can be none.
pub(crate) fn start_thread(body: extern "C" fn(*mut c_void) -> *mut c_void) -> bool {
    let mut all = MaybeUninit::<[u64; SIGNALS / 8]>::zeroed();
    let mut before = MaybeUninit::<[u64; SIGNALS / 8]>::zeroed();
    let (mut thread, all, before) = (0, all.as_mut_ptr().cast(), before.as_mut_ptr().cast());
    // SAFETY: both sets have a `sigset_t`'s size, and live across the calls; a thread inherits the mask.
    unsafe {
        sigfillset(all);
        pthread_sigmask(SIG_BLOCK, all, before);
        let is_there = pthread_create(&raw mut thread, ptr::null(), body, ptr::null_mut()) == 0;
        if is_there {
            pthread_detach(thread);
        }
        pthread_sigmask(SIG_SETMASK, before, ptr::null_mut());
        is_there
    }
}

/// The calling process.
pub(crate) fn own_pid() -> c_int {
    // SAFETY: takes nothing.
    unsafe { getpid() }
}

/// Has this called when the program exits.
pub(crate) fn at_exit(body: extern "C" fn(*mut c_void)) {
    // SAFETY: a function of this library, which stays loaded.
    unsafe { __cxa_atexit(body, ptr::null_mut(), ptr::null_mut()) };
}

/// Sleeps for a millisecond.
pub(crate) fn rest() {
    // SAFETY: no descriptors.
    unsafe { poll(ptr::null_mut(), 0, 1) };
}

/// Names the calling thread.
pub(crate) fn name_thread(name: &CStr) {
    // SAFETY: a C string.
    unsafe { prctl(PR_SET_NAME, name.as_ptr() as c_long, 0 as c_long, 0 as c_long, 0 as c_long) };
}

/// Zeroed memory, of which a page costs nothing before it is used. None: there is no more.
pub(crate) fn memory(bytes: usize) -> Option<ptr::NonNull<u8>> {
    // SAFETY: a new mapping, nowhere in particular.
    let at = unsafe { mmap(ptr::null_mut(), bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0) };
    if at.addr() == usize::MAX { None } else { ptr::NonNull::new(at.cast()) }
}

/// Waits until the descriptor can be read or its other end is gone; false after so many milliseconds (for
/// ever, if below 0).
pub(crate) fn is_readable(descriptor: c_int, milliseconds: c_int) -> bool {
    let mut polled = Polled { descriptor, events: POLL_IN, found: 0 };
    // SAFETY: one structure, which lives across the call.
    unsafe { poll(&raw mut polled, 1, milliseconds) > 0 }
}
