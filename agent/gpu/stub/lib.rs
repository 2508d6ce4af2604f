//! libcuda_stub.so: functions of CUDA's driver that wait or copy, for machines without a GPU.
//!
//! They wait for as long as their caller asks, in the ways that were measured on an H100: spinning; asleep in
//! a futex until a thread of the library, which waits in poll, wakes it; or, as small ones are, both in turn.
//! The handle that CUDA's functions take (a stream, an event) says how: [`Order`]. Exported functions are as
//! in NVIDIA's library (535.261.03): they compare, and jump on through a table, so that no instruction of
//! theirs returns. Names are those of the functions' documentation; nothing is copied from NVIDIA's headers.

mod pool;

use std::{
    arch::naked_asm,
    cell::Cell,
    ffi::{c_int, c_void},
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
}

impl Order {
    fn of(handle: *const c_void) -> (Self, Duration) {
        let word = handle.addr() as u64;
        let order = match word & 7 {
            0 => Self::Spin,
            1 => Self::Block,
            2 => Self::Both,
            3 => Self::Exit,
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
    }
}

extern "C" fn synchronize(handle: *const c_void) -> c_int {
    noted(|| wait(handle))
}

extern "C" fn synchronize_context() -> c_int {
    noted(|| wait(NEXT.get()))
}

/// Copies, then waits for the handle's time; with none it returns at once, as copies of pinned memory do.
extern "C" fn copy(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) -> c_int {
    noted(|| {
        // SAFETY: the caller's, as for CUDA's function; both are memory of the host here.
        unsafe { slice::from_raw_parts_mut(to, bytes).copy_from_slice(slice::from_raw_parts(from, bytes)) };
        if Order::of(handle).1 > Duration::ZERO {
            wait(handle);
        }
    })
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
    TO: cuMemcpyHtoDAsync_v2(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) = copy;
    FROM: cuMemcpyDtoHAsync_v2(to: *mut u8, from: *const u8, bytes: usize, handle: *const c_void) = copy;
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
