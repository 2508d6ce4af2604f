//! Capabilities of this process's threads, and how they are given up: sets, bounding set, ambient set,
//! securebits.

use std::io;

use nix::unistd::{Gid, Uid};

/// `_LINUX_CAPABILITY_VERSION_3`: two words of 32 capabilities each.
const VERSION: u32 = 0x2008_0522;
/// The marker can also be in programs that only their user may read, below directories that only the user may
/// enter.
const CAP_DAC_READ_SEARCH: u32 = 2;
/// The started program gets the agent's signals, whatever user it has become. The filter of system calls
/// excludes all other processes that this would reach.
const CAP_KILL: u32 = 5;
/// Mapped files of another user's process, and its root.
const CAP_SYS_PTRACE: u32 = 19;
/// Without it perf_event_open refuses a uprobe, CAP_PERFMON or not (EACCES on 6.18), and
/// `/proc/PID/map_files` cannot be followed. A program may load the marker at any time.
const CAP_SYS_ADMIN: u32 = 21;
/// Clocks for later threads.
const CAP_PERFMON: u32 = 38;
/// Maps and links, where ordinary users may not call bpf(2).
const CAP_BPF: u32 = 39;
/// Above the last capability of any kernel.
const LAST: u32 = 63;
const PR_CAPBSET_DROP: i32 = 24;
const PR_SET_SECUREBITS: i32 = 28;
const PR_CAP_AMBIENT: i32 = 47;
const PR_CAP_AMBIENT_CLEAR_ALL: libc::c_ulong = 4;

const PROBES: [u32; 5] = [CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF];
/// Their names, in the same order.
const NAMES: [&str; 5] = ["CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE", "CAP_SYS_ADMIN", "CAP_PERFMON", "CAP_BPF"];

/// Root is a user like others from here on: its number alone gives no program a capability, no ambient one
/// can be raised, and none of this can be undone. See linux/securebits.h.
const SECUREBITS: libc::c_ulong = NOROOT | NOROOT << 1 | KEEP_CAPS << 1 | NO_AMBIENT | NO_AMBIENT << 1;
const NOROOT: libc::c_ulong = 1;
const KEEP_CAPS: libc::c_ulong = 1 << 4;
const NO_AMBIENT: libc::c_ulong = 1 << 6;

/// The agent's remaining work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Probes are in the kernel; otherwise threads report themselves.
    pub probes: bool,
    /// Signals are passed on to the program that it started.
    pub signals: bool,
}

impl Work {
    /// The capabilities for this work.
    fn capabilities(self) -> u64 {
        let probes = PROBES.iter().filter(|_| self.probes);
        let signals = [CAP_KILL].into_iter().filter(|_| self.signals);
        // Without probes, programs that appear are still inspected.
        let looks = [CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE];
        set(probes.copied().chain(signals).chain(looks))
    }
}

fn set(capabilities: impl IntoIterator<Item = u32>) -> u64 {
    capabilities.into_iter().fold(0, |set, capability| set | 1 << capability)
}

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

/// Permitted capabilities of this thread.
fn permitted() -> io::Result<u64> {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: the header and both sets live across the call; version 3 writes two sets.
    if unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from(sets[0].permitted) | u64::from(sets[1].permitted) << 32)
}

/// Names of the capabilities that probes need and this thread lacks.
pub(super) fn missing_for_probes() -> io::Result<Vec<&'static str>> {
    let had = permitted()?;
    let named = PROBES.into_iter().zip(NAMES);
    Ok(named.filter(|(capability, _)| had >> capability & 1 == 0).map(|(_, name)| name).collect())
}

/// Leaves this thread these capabilities and no others.
fn keep(capabilities: u64) -> io::Result<()> {
    let of = |word: u32| Sets { effective: word, permitted: word, inheritable: 0 };
    let sets = [of(capabilities as u32), of((capabilities >> 32) as u32)];
    let mut header = Header { version: VERSION, pid: 0 };
    // SAFETY: the header and both sets live across the call, which only reads the sets.
    if unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn prctl(option: i32, value: libc::c_ulong, more: libc::c_ulong) -> io::Result<()> {
    // SAFETY: no option that is used here takes a pointer.
    if unsafe { libc::prctl(option, value, more, 0 as libc::c_ulong, 0 as libc::c_ulong) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Also keeps them from any program that this thread might execute. A thread without CAP_SETPCAP may not do
/// this, and need not: it has nothing to pass on.
fn forget_what_could_come_back() {
    // Kernels before 4.3 have no ambient set.
    let _ = prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0);
    for capability in 0..=LAST {
        if prctl(PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0).is_err() {
            break;
        }
    }
    let _ = prctl(PR_SET_SECUREBITS, SECUREBITS, 0);
}

/// Drops all capabilities, in this thread only: for a thread that only computes and writes, and for a process
/// that is about to execute the NVML process. Makes nothing but system calls.
///
/// # Errors
/// The kernel's error.
pub fn drop_all() -> io::Result<()> {
    forget_what_could_come_back();
    keep(0)?;
    // Without it root would regain everything with its next program.
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)
}

/// Leaves this thread only the right to pass signals on to a program that became another user, if there is
/// one.
///
/// # Errors
/// The kernel's error.
pub fn keep_signals(is_needed: bool) -> io::Result<()> {
    let kill = set([CAP_KILL].into_iter().filter(|_| is_needed));
    // The thread may have been started before the others gave these up.
    forget_what_could_come_back();
    keep(permitted()? & kill)
}

/// Becomes a user who owns nothing, in a process that is about to execute the NVML process: without any
/// capability, in no group but `groups`. Where this process may not change its user, it keeps the agent's.
/// Makes nothing but system calls.
///
/// # Errors
/// The kernel's error.
pub fn become_nobody(groups: &[Gid]) -> io::Result<()> {
    /// User `nobody` on most systems; no file of a distribution belongs to it.
    const NOBODY: u32 = 65_534;
    forget_what_could_come_back();
    // In a user namespace without this user ID it keeps the agent's user, without capabilities.
    if nix::unistd::geteuid().is_root() && nix::unistd::setgroups(groups).is_ok() {
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        let _ = nix::unistd::setresgid(gid, gid, gid);
        let _ = nix::unistd::setresuid(uid, uid, uid);
    }
    drop_all()
}

/// Drops all capabilities but the list above, in this thread and in every thread that is started later.
/// Kernels before 5.8 know neither CAP_BPF nor CAP_PERFMON: CAP_SYS_ADMIN stands for both.
///
/// # Errors
/// The kernel's error.
pub fn drop_unneeded(work: Work) -> io::Result<()> {
    let had = permitted()?;
    forget_what_could_come_back();
    keep(had & work.capabilities())?;
    // No program that this process might start can regain them.
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::run(true, true, &[2, 5, 19, 21, 38, 39])]
    #[case::attach(true, false, &[2, 19, 21, 38, 39])]
    #[case::without_probes(false, true, &[2, 5, 19])]
    fn what_stays_is_what_is_used(#[case] probes: bool, #[case] signals: bool, #[case] kept: &[u32]) {
        assert_eq!(Work { probes, signals }.capabilities(), set(kept.iter().copied()));
    }
}
