//! libze_stub.so: functions of oneAPI's Level Zero that wait or copy, for machines without a GPU. **A stub:
//! nothing in it was seen on a card.**
//!
//! Handles say how long and in which way a function waits: see `waiting.rs`. Exported functions are as in
//! Debian's libze_loader.so.1.8.0: they load their way from a table, compare it with 0 and jump there,
//! without a return of their own on that way. Names are those of the specification; nothing is copied from
//! its headers.

mod pool;
mod waiting;

use std::{
    arch::naked_asm,
    ffi::{c_int, c_void},
    ptr,
    time::Duration,
};

use waiting::Order;

/// The specification's number for `it took longer than the caller wanted to wait`.
const NOT_READY: c_int = 1;

/// Another function of this library that waits.
fn inner(handle: *const c_void) {
    // SAFETY: the function takes any handle.
    unsafe { zeEventHostSynchronize(handle, u64::MAX) };
}

/// When the last work of a stream ends, ns: nothing runs here.
fn end_ns(_: usize) -> u64 {
    0
}

/// Waits for the handle's time, and for `timeout_ns` at most.
extern "C-unwind" fn synchronize(handle: *const c_void, timeout_ns: u64) -> c_int {
    let ((order, time), most) = (Order::of(handle), Duration::from_nanos(timeout_ns));
    if time <= most {
        return waiting::synchronize(handle);
    }
    waiting::noted(|| waiting::pass(order, most));
    NOT_READY
}

/// Copies, then waits for the list's time. Events are not looked at.
extern "C-unwind" fn copy(
    list: *const c_void,
    to: *mut u8,
    from: *const u8,
    bytes: usize,
    _: *const c_void,
    _: u32,
    _: *const c_void,
) -> c_int {
    waiting::noted(|| {
        // SAFETY: the caller's, as for the exported function.
        unsafe { ptr::copy(from, to, bytes) };
        let (order, time) = Order::of(list);
        if !time.is_zero() {
            waiting::pass(order, time);
        }
    })
}

/// An exported function that jumps on through a table.
macro_rules! exported {
    ($($table:ident: $name:ident($($argument:ident: $kind:ty),*) = $to:path;)*) => { $(
        #[used]
        static $table: extern "C-unwind" fn($($kind),*) -> c_int = $to;

        /// As in Level Zero's specification, of a device that does not exist.
        ///
        /// # Safety
        /// As for the function that it goes on to.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // Without a way: the specification's number for `not initialised`.
            #[cfg(target_arch = "x86_64")]
            naked_asm!("mov rax, qword ptr [rip + {table}]", "test rax, rax", "je 2f", "jmp rax",
                "2:", "mov eax, 0x78000001", "ret", table = sym $table);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("adrp x16, {table}", "ldr x16, [x16, :lo12:{table}]", "br x16", table = sym $table);
        }
    )* };
}

exported! {
    QUEUE: zeCommandQueueSynchronize(handle: *const c_void, timeout_ns: u64) = synchronize;
    LIST: zeCommandListHostSynchronize(handle: *const c_void, timeout_ns: u64) = synchronize;
    FENCE: zeFenceHostSynchronize(handle: *const c_void, timeout_ns: u64) = synchronize;
    EVENT: zeEventHostSynchronize(handle: *const c_void, timeout_ns: u64) = synchronize;
    COPY: zeCommandListAppendMemoryCopy(list: *const c_void, to: *mut u8, from: *const u8, bytes: usize,
        signals: *const c_void, waits: u32, events: *const c_void) = copy;
}

/// Not a function that waits: no probe belongs here.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn zeEventQueryStatus(_: *const c_void) -> c_int {
    0
}
