//! CPUs that this process may use, and threads bound to them. Yields CPU numbers. It ignores topology.

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity},
    unistd::Pid,
};

use crate::stall::error::StallError;

/// The CPUs that the calling thread may use, in order.
pub fn allowed() -> Result<Vec<usize>, StallError> {
    let set = sched_getaffinity(Pid::from_raw(0)).map_err(StallError::call("sched_getaffinity"))?;
    Ok((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect())
}

/// The CPU that the calling thread runs on.
pub fn current() -> Result<usize, StallError> {
    sched_getcpu().map_err(StallError::call("sched_getcpu"))
}

/// Binds a thread to one CPU, the calling one where `thread` is 0.
pub fn bind(thread: i32, cpu: usize) -> Result<(), StallError> {
    allow(thread, &[cpu])
}

/// Lets a thread use exactly these CPUs.
pub fn allow(thread: i32, cpus: &[usize]) -> Result<(), StallError> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu).map_err(StallError::call("sched_setaffinity"))?;
    }
    sched_setaffinity(Pid::from_raw(thread), &set).map_err(StallError::call("sched_setaffinity"))
}

/// Gives the calling thread the lowest real-time priority, above every ordinary thread.
///
/// As a raw system call: musl's wrapper only returns ENOSYS.
pub fn become_real_time() -> nix::Result<()> {
    #[repr(C)]
    struct Parameters {
        priority: i32,
    }
    let parameters = Parameters { priority: 1 };
    // SAFETY: the structure is the kernel's `sched_param`, one int, and lives across the call.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const parameters) };
    nix::errno::Errno::result(result).map(drop)
}
