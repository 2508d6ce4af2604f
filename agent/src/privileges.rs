//! Least privilege: once the probes are in place and the child is started, the agent gives up what it needs no more.
//!
//! What stays: BPF and perf events for programs that meet the agent later, looking into processes of other users,
//! passing signals on to them, and writing into a folder that belongs to the invoking user. Nothing is ever gained.

use std::io;

use nix::sys::signal::SigSet;

/// `_LINUX_CAPABILITY_VERSION_3`: two words of 32 capabilities each.
const VERSION: u32 = 0x2008_0522;
const CAP_CHOWN: u32 = 0;
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_FOWNER: u32 = 3;
const CAP_KILL: u32 = 5;
const CAP_SYS_PTRACE: u32 = 19;
/// Without it perf_event_open refuses a uprobe, CAP_PERFMON or not (EACCES on 6.18), and a program may meet the agent
/// at any time.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
const KEPT: [u32; 9] = [
    CAP_CHOWN,
    CAP_DAC_OVERRIDE,
    CAP_DAC_READ_SEARCH,
    CAP_FOWNER,
    CAP_KILL,
    CAP_SYS_PTRACE,
    CAP_SYS_ADMIN,
    CAP_PERFMON,
    CAP_BPF,
];

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Drops everything, in a process that is about to become a helper's program: makes system calls alone.
///
/// # Errors
/// The kernel's.
pub fn drop_all() -> io::Result<()> {
    // The agent blocks signals to read them from a descriptor.
    SigSet::empty().thread_set_mask()?;
    let mut header = Header { version: VERSION, pid: 0 };
    let sets = [Sets::default(); 2];
    // SAFETY: the header and both sets live across the call, which only reads the sets.
    if unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes no pointers. Without it root would have everything again from its next program on.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Drops everything but what is listed above, in every thread that is started later and in this one. Kernels before
/// 5.8 know no CAP_BPF: there everything is kept.
pub fn drop_unneeded() -> io::Result<()> {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: the header and both sets live across the call; version 3 writes two sets.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    let high = (CAP_BPF - 32, CAP_PERFMON - 32);
    if sets[1].permitted >> high.0 & 1 == 0 || sets[1].permitted >> high.1 & 1 == 0 {
        return Ok(());
    }
    let mut keep = [0_u32; 2];
    for capability in KEPT {
        keep[capability as usize / 32] |= 1 << (capability % 32);
    }
    for (set, keep) in sets.iter_mut().zip(keep) {
        set.permitted &= keep;
        set.effective &= keep;
        set.inheritable = 0;
    }
    // SAFETY: as above; the call only reads.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes no pointers. No program that this process might start can gain anything back.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    Ok(())
}
