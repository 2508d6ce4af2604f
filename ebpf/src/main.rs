//! The BPF object, which runs in the kernel. On the host this file is an empty program, so that the workspace
//! builds.
//!
//! A program here is a thin shell: check that the task is tracked, read the arguments, drive the ledger, hand
//! over a record. The meaning of events is in the ledger of the contract, which host tests share.
#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch))]
#![cfg_attr(
    target_arch = "bpf",
    expect(
        clippy::inline_always,
        clippy::needless_pass_by_value,
        reason = "a call costs a program more than the body; aya hands contexts over by value"
    )
)]

#[cfg(target_arch = "bpf")]
mod beside;
#[cfg(target_arch = "bpf")]
mod birth;
#[cfg(target_arch = "bpf")]
mod blocked;
#[cfg(target_arch = "bpf")]
mod calls;
#[cfg(target_arch = "bpf")]
mod connections;
#[cfg(target_arch = "bpf")]
mod device;
#[cfg(target_arch = "bpf")]
mod driver;
#[cfg(target_arch = "bpf")]
mod emit;
#[cfg(target_arch = "bpf")]
mod file;
#[cfg(target_arch = "bpf")]
mod flight;
#[cfg(target_arch = "bpf")]
mod held;
#[cfg(target_arch = "bpf")]
mod last_io;
#[cfg(target_arch = "bpf")]
mod life;
#[cfg(target_arch = "bpf")]
mod limits;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod memory;
#[cfg(target_arch = "bpf")]
mod origin;
#[cfg(target_arch = "bpf")]
mod peers;
#[cfg(target_arch = "bpf")]
mod pending;
#[cfg(target_arch = "bpf")]
mod polled;
#[cfg(target_arch = "bpf")]
mod probes;
#[cfg(target_arch = "bpf")]
mod process;
#[cfg(target_arch = "bpf")]
mod quota;
#[cfg(target_arch = "bpf")]
mod registers;
#[cfg(target_arch = "bpf")]
mod runqueue;
#[cfg(target_arch = "bpf")]
mod slots;
#[cfg(target_arch = "bpf")]
mod starts;
#[cfg(target_arch = "bpf")]
mod steal;
#[cfg(target_arch = "bpf")]
mod sum;
#[cfg(target_arch = "bpf")]
mod taken;
#[cfg(target_arch = "bpf")]
mod task;
#[cfg(target_arch = "bpf")]
mod thinning;
#[cfg(target_arch = "bpf")]
mod topology;
#[cfg(target_arch = "bpf")]
mod trial;
#[cfg(target_arch = "bpf")]
mod turns;
#[cfg(target_arch = "bpf")]
mod untracked;
#[cfg(target_arch = "bpf")]
mod wait;
#[cfg(target_arch = "bpf")]
mod words;
#[cfg(target_arch = "bpf")]
mod workers;

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// License: the BPF helpers that read kernel memory are for GPL-compatible programs only.
#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
