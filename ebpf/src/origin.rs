//! A thread's control group, and its ID in its own PID namespace.
//!
//! Read only for rare records: each of the seven reads costs 15 to 19 ns (6.18, in a virtual machine).
//! Unknown values are 0.

use aya_ebpf::{Global, helpers::bpf_probe_read_kernel};

use crate::maps::{
    BY_NUMBER, OFFSET_CGROUP_NODE, OFFSET_GROUP_CGROUP, OFFSET_NODE_ID, OFFSET_PID_LEVEL, OFFSET_PID_NUMBERS,
    OFFSET_TASK_GROUP, OFFSET_TASK_THREAD_PID,
};

/// `struct upid`: a number, and a pointer to its namespace.
const NUMBER_BYTES: u64 = 16;
/// Directory number of a hierarchy's root, which the kernel makes first.
const ROOT: u64 = 1;

/// Number of the directory of the control group that controls the CPU time of the task at this address: its
/// inode by stat(2). Tasks of the root group may be in groups of their sessions (autogroups), which have no
/// directory.
#[inline(always)]
pub(crate) fn group(task: u64) -> u64 {
    // The offset of a group's directory may itself be 0.
    let lacks_way = OFFSET_CGROUP_NODE.load() == 0 || OFFSET_NODE_ID.load() == 0;
    if BY_NUMBER.load() != 0 || OFFSET_TASK_GROUP.load() == 0 || lacks_way {
        return 0;
    }
    let group = pointer(task, &OFFSET_TASK_GROUP);
    if group == 0 {
        return 0;
    }
    match pointer(group, &OFFSET_GROUP_CGROUP) {
        0 => ROOT,
        cgroup => pointer(pointer(cgroup, &OFFSET_CGROUP_NODE), &OFFSET_NODE_ID),
    }
}

/// Number of the thread at this address in its own PID namespace, the innermost one that has it.
#[inline(always)]
pub(crate) fn ns_tid(task: u64) -> u32 {
    if BY_NUMBER.load() != 0 || OFFSET_TASK_THREAD_PID.load() == 0 {
        return 0;
    }
    // A task that is being freed has none.
    let pid = pointer(task, &OFFSET_TASK_THREAD_PID);
    if pid == 0 { 0 } else { number(pid, level(pid)) }
}

/// Level of a `struct pid` below the initial namespace.
#[inline(always)]
pub(crate) fn level(pid: u64) -> u32 {
    word(pid + u64::from(OFFSET_PID_LEVEL.load()))
}

/// The number of a `struct pid` in its namespace of this level.
#[inline(always)]
pub(crate) fn number(pid: u64, level: u32) -> u32 {
    word(pid + u64::from(OFFSET_PID_NUMBERS.load()) + u64::from(level) * NUMBER_BYTES)
}

/// Four bytes at an address; 0 where there is no memory.
#[inline(always)]
fn word(place: u64) -> u32 {
    // SAFETY: the BPF helper checks the memory.
    unsafe { bpf_probe_read_kernel(place as *const u32).unwrap_or(0) }
}

/// Eight bytes of a structure; 0 where there is no memory.
#[inline(always)]
pub(crate) fn pointer(structure: u64, offset: &Global<u32>) -> u64 {
    // SAFETY: the BPF helper checks the memory.
    unsafe { bpf_probe_read_kernel((structure + u64::from(offset.load())) as *const u64).unwrap_or(0) }
}
