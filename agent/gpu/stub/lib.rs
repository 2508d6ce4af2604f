//! libcuda_stub.so: functions of CUDA's driver that wait or copy, for machines without a GPU.
//!
//! They wait for as long as their caller asks, in the ways that were measured on an H100: spinning; asleep in
//! a futex until a thread of the library, which waits in poll, wakes it; or, as small ones are, both in turn.
//! The handle that CUDA's functions take (a stream, an event) says how: [`Order`]. Exported functions are as
//! in NVIDIA's library (535.261.03): they compare, and jump on through a table, so that no instruction of
//! theirs returns. Names are those of the functions' documentation; nothing is copied from NVIDIA's headers.

mod device;
mod injection;
mod pool;

use std::{
    arch::naked_asm,
    cell::Cell,
    ffi::{CStr, c_char, c_int, c_void},
    ptr, slice,
    time::Duration,
};

/// How a function waits: the low three bits of the handle. The others are nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
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
}

impl Order {
    fn of(handle: *const c_void) -> (Self, Duration) {
        let word = handle.addr() as u64;
        let order = match word & 7 {
            0 => Self::Spin,
            1 => Self::Block,
            2 => Self::Both,
            3 => Self::Exit,
            5 => Self::Stream,
            _ => Self::Nested,
        };
        (order, Duration::from_nanos(word >> 3))
    }
}

/// What passed inside the functions on the calling thread.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Log {
    /// Calls of functions that wait or copy, inner ones left out.
    pub calls: u64,
    /// Time from the first to the last instruction, ns of `CLOCK_MONOTONIC`.
    pub inside_ns: u64,
    /// The same by the thread's CPU clock, ns.
    pub cpu_ns: u64,
}

thread_local! {
    static LOG: Cell<Log> = const { Cell::new(Log { calls: 0, inside_ns: 0, cpu_ns: 0 }) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static NEXT: Cell<*const c_void> = const { Cell::new(ptr::null()) };
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives across the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs the body of a function, and notes what passed.
fn noted(body: impl FnOnce()) -> c_int {
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

fn spin(time: Duration) {
    let end_ns = clock_ns(libc::CLOCK_MONOTONIC) + time.as_nanos() as u64;
    while clock_ns(libc::CLOCK_MONOTONIC) < end_ns {
        std::hint::spin_loop();
    }
}

fn wait(handle: *const c_void) {
    let (order, time) = Order::of(handle);
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
        Order::Nested => {
            // SAFETY: the function takes any handle.
            unsafe { cuStreamSynchronize(ptr::without_provenance((time.as_nanos() as usize) << 3)) };
        }
        Order::Stream => {
            let end_ns = device::end_ns(device::stream(handle));
            spin(Duration::from_nanos(end_ns.saturating_sub(clock_ns(libc::CLOCK_MONOTONIC))));
        }
    }
}

extern "C" fn synchronize(handle: *const c_void) -> c_int {
    noted(|| wait(handle))
}

extern "C" fn synchronize_context() -> c_int {
    noted(|| wait(NEXT.get()))
}

/// Copies, then waits for the handle's time; with none it returns at once, as copies of pinned memory do. The
/// device copies for that time as well. `way` is CUPTI's kind of the copy.
fn copy(way: u32, to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) -> c_int {
    noted(|| {
        let ns = Order::of(handle).1.as_nanos() as u64;
        let (kind, copy) = (device::COPY, (way, bytes as u64));
        let asked = device::Asked { kind, stream: 0, ns, copy, name: ptr::null() };
        device::call(&asked, || {
            // SAFETY: the caller's, as for CUDA's function; both are memory of the host here.
            unsafe {
                slice::from_raw_parts_mut(to, bytes).copy_from_slice(slice::from_raw_parts(from, bytes));
            };
        });
        if ns > 0 {
            wait(handle);
        }
    })
}

extern "C" fn copy_to(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) -> c_int {
    copy(1, to, from, bytes, handle)
}

extern "C" fn copy_from(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) -> c_int {
    copy(2, to, from, bytes, handle)
}

/// Initialises the library: it loads what CUDA_INJECTION64_PATH names.
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_: u32) -> c_int {
    injection::load();
    0
}

/// Launches a kernel of `stub_kernel` on the stream whose number the handle has above its low three bits.
/// Sizes and parameters are not looked at.
///
/// # Safety
/// As for CUDA's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    kernel: *const c_void,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    stream: *const c_void,
    _: *const c_void,
    _: *const c_void,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { device::launch(kernel, stream) };
    0
}

/// Makes a kernel that runs so long.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stub_kernel(name: *const c_char, ns: u64) -> *const c_void {
    // SAFETY: the caller's.
    device::kernel(unsafe { CStr::from_ptr(name) }.to_owned(), ns)
}

/// From now on this function is called for each call and each piece of work.
#[unsafe(no_mangle)]
pub extern "C" fn stub_hook(hook: extern "C" fn(*const device::Done)) {
    device::tell(hook);
}

/// Launches a graph that runs so long.
#[unsafe(no_mangle)]
pub extern "C" fn stub_launch_graph(ns: u64, stream: *const c_void) -> c_int {
    let (kind, stream) = (device::GRAPH, device::stream(stream));
    device::call(&device::Asked { kind, stream, ns, copy: (0, 0), name: ptr::null() }, || ());
    0
}

/// An exported function that compares, and jumps on to its implementation through a table.
macro_rules! exported {
    ($($table:ident: $name:ident($($argument:ident: $kind:ty),*) = $to:path;)*) => { $(
        #[used]
        static $table: extern "C" fn($($kind),*) -> c_int = $to;

        /// As in CUDA's driver API, of a device that does not exist.
        ///
        /// # Safety
        /// As for the function that it goes on to.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("cmp dword ptr [rip + {flag}], 1", "je 2f", "jmp qword ptr [rip + {table}]",
                "2:", "jmp qword ptr [rip + {table}]", flag = sym IS_TRACED, table = sym $table);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("adrp x16, {table}", "ldr x16, [x16, :lo12:{table}]", "br x16", table = sym $table);
        }
    )* };
}

/// Never set. NVIDIA's functions look at such a word to let debuggers in.
#[cfg(target_arch = "x86_64")]
#[used]
static IS_TRACED: u32 = 0;

exported! {
    CTX: cuCtxSynchronize() = synchronize_context;
    CTX_2: cuCtxSynchronize_v2() = synchronize_context;
    STREAM: cuStreamSynchronize(handle: *const c_void) = synchronize;
    STREAM_PTSZ: cuStreamSynchronize_ptsz(handle: *const c_void) = synchronize;
    EVENT: cuEventSynchronize(handle: *const c_void) = synchronize;
    TO: cuMemcpyHtoDAsync_v2(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) = copy_to;
    FROM: cuMemcpyDtoHAsync_v2(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) = copy_from;
}

/// Not a function that waits: no probe belongs here.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(_: *const c_void) -> c_int {
    0
}

/// How the next calls of `cuCtxSynchronize` on this thread wait.
#[unsafe(no_mangle)]
pub extern "C" fn stub_next(handle: *const c_void) {
    NEXT.set(handle);
}

/// What passed on the calling thread so far.
#[unsafe(no_mangle)]
pub extern "C" fn stub_log() -> Log {
    LOG.get()
}
