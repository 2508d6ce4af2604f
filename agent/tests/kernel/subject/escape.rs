//! A jump out of functions that have not returned, as `longjmp` makes it, which Rust has no way to call:
//! [`within`] calls a function, and [`escape`] goes on where that call would have returned.
//!
//! No frame in between is told of it, so that none may have anything to clean up.

use std::{arch::naked_asm, ffi::c_void};

/// The stack pointer of a [`within`] that has not returned.
pub(crate) type Place = *mut c_void;

/// Calls `body` with `argument`, after it has noted in `place` where [`escape`] leads to.
///
/// # Safety
/// `place` can be written.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn within(
    body: extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    place: *mut Place,
) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rdx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "mov rdi, rsp",
        "jmp {escape}",
        escape = sym escape,
    );
}

/// Goes on behind the [`within`] that has noted this place.
///
/// # Safety
/// That one is a caller of this function, and has not returned.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn escape(place: Place) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    );
}

/// As on x86-64.
///
/// # Safety
/// `place` can be written.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn within(
    body: extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    place: *mut Place,
) {
    naked_asm!(
        "stp x29, x30, [sp, #-160]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x2]",
        "mov x9, x0",
        "mov x0, x1",
        "blr x9",
        "mov x0, sp",
        "b {escape}",
        escape = sym escape,
    );
}

/// As on x86-64.
///
/// # Safety
/// That one is a caller of this function, and has not returned.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn escape(place: Place) -> ! {
    naked_asm!(
        "mov sp, x0",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #160",
        "ret",
    );
}
