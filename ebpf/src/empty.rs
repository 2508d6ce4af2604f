//! The same hooks with nothing in them: what `cargo xtask bench` measures the real programs against.
//!
//! An empty program costs what any BPF observer pays on these hooks; the rest is ours. The agent never loads
//! it.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod programs {
    use aya_ebpf::{
        macros::{btf_tracepoint, map, uprobe},
        maps::PerCpuArray,
        programs::{BtfTracePointContext, ProbeContext},
    };

    #[map]
    static COUNT: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

    #[btf_tracepoint(function = "sched_switch")]
    pub(crate) fn sched_switch(_ctx: BtfTracePointContext) -> i32 {
        0
    }

    #[btf_tracepoint(function = "sched_waking")]
    pub(crate) fn sched_waking(_ctx: BtfTracePointContext) -> i32 {
        0
    }

    #[btf_tracepoint(function = "sched_wakeup")]
    pub(crate) fn sched_wakeup(_ctx: BtfTracePointContext) -> i32 {
        0
    }

    #[btf_tracepoint(function = "sched_wakeup_new")]
    pub(crate) fn sched_wakeup_new(_ctx: BtfTracePointContext) -> i32 {
        0
    }

    #[btf_tracepoint(function = "sched_process_exec")]
    pub(crate) fn sched_process_exec(_ctx: BtfTracePointContext) -> i32 {
        0
    }

    /// A bare counting uprobe: the least that any observer of the marker pays.
    #[uprobe]
    pub(crate) fn edge(_ctx: ProbeContext) -> u32 {
        if let Some(count) = COUNT.get_ptr_mut(0) {
            // SAFETY: this CPU's value of a map that lives as long as the program.
            unsafe { *count += 1 };
        }
        0
    }
}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The same license as the real object's.
#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
