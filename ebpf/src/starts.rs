//! Tells of programs that untracked threads execute, for an agent that waits for some of them.

use aya_ebpf::{
    bindings::BPF_RB_NO_WAKEUP,
    helpers::{bpf_ktime_get_ns, generated::bpf_probe_read_kernel_str},
};
use guestscope_contract::{Counter, START_FILE_BYTES, StartRecord};

use crate::{
    emit,
    maps::{OFFSET_BINPRM_FILE, STARTS, TELLS_STARTS},
    memory::{Memory, load},
};

/// Whether anybody wants to know.
#[inline(always)]
pub(crate) fn are_told() -> bool {
    TELLS_STARTS.load() != 0 && OFFSET_BINPRM_FILE.load() != 0
}

/// The process of this number executes the file of a `linux_binprm`.
///
/// # Safety
/// The pointer must be to a `linux_binprm`, typed if the memory is.
#[inline(always)]
pub(crate) unsafe fn tell<M: Memory>(pid: u32, binprm: *const u8) {
    // SAFETY: the BPF helper has no preconditions; the offset is that of a pointer.
    let (time_ns, name) = unsafe { (bpf_ktime_get_ns(), load::<M, u64>(binprm, &OFFSET_BINPRM_FILE)) };
    let mut record = StartRecord { time_ns, pid, unused: 0, file: [0; START_FILE_BYTES] };
    // SAFETY: the BPF helper checks the name's memory, and writes no further than the field.
    unsafe {
        let file = (&raw mut record.file).cast();
        bpf_probe_read_kernel_str(file, START_FILE_BYTES as u32, name as *const _);
    }
    if STARTS.output::<StartRecord>(&record, u64::from(BPF_RB_NO_WAKEUP)).is_err() {
        emit::count(Counter::LostStart);
    }
}
