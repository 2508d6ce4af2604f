//! Whether the thread that seemed to wake another one can have ended its wait: by the system call that it was
//! in, for each kind of wait.
//!
//! In an interrupt (a timer, a disk, a packet) the interrupted thread appears as the waker. It is mostly in
//! its own code, or in a call that ends no such wait. An interrupt in a call that could have ended it is
//! taken for that call: there is no sign of the difference.

use guestscope_contract::{Account, NO_SYSCALL, metrics::WaitsFor, waker};

use super::wait::Wait;
use crate::record::calls_32::{self, FUTEX_WAIT};

/// `futex_wake` and `futex_requeue`, which libc does not name yet: the same number on all architectures.
const FUTEX_WAKE: libc::c_long = FUTEX_WAIT - 1;
const FUTEX_REQUEUE: libc::c_long = FUTEX_WAIT + 1;

/// The end of the calling thread or of its process.
const ENDS: [libc::c_long; 2] = [libc::SYS_exit, libc::SYS_exit_group];
/// A signal to a thread, which interrupts its wait.
const SIGNALS: [libc::c_long; 6] = [
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
];
/// Locks in memory and of files, and semaphores.
const UNLOCKS: [libc::c_long; 12] = [
    libc::SYS_futex,
    FUTEX_WAKE,
    FUTEX_REQUEUE,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup3,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_execve,
];
/// Bytes, room for more, a connection, its end, a timer's setting.
const HAND_OVER: [libc::c_long; 29] = [
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwritev2,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_preadv2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_setsockopt,
    libc::SYS_epoll_ctl,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup3,
    libc::SYS_io_uring_enter,
    libc::SYS_timerfd_settime,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
];
/// Calls that change, copy or read an address space, and hold its lock meanwhile (`mmap_lock`).
const MEMORY: &[libc::c_long] = &[
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_process_madvise,
    libc::SYS_brk,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_mlockall,
    libc::SYS_munlockall,
    libc::SYS_mincore,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_execve,
];
/// Reads of files below /proc, which hold the lock, and of pages that another thread waits for.
const READS_OF_PROC: [libc::c_long; 2] = [libc::SYS_read, libc::SYS_pread64];
/// Calls for memory that arm64 does not have.
#[cfg(target_arch = "x86_64")]
const OLD_MEMORY: &[libc::c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const OLD_MEMORY: &[libc::c_long] = &[];
/// Answers to faults by the program itself (`userfaultfd`).
const ANSWERS: [libc::c_long; 1] = [libc::SYS_ioctl];

/// Whether a thread in this call can have ended a wait of this account. 32-bit calls are known by the 64-bit
/// call that does the same.
pub(super) fn can_end(account: Account, waker_syscall: u16) -> bool {
    if waker_syscall == waker::UNSEEN {
        return account.waits_for() == WaitsFor::Unknown;
    }
    let call = if waker_syscall == NO_SYSCALL { None } else { calls_32::same(waker_syscall.into()) };
    let Some(call) = call else { return false };
    let is_in = |tables: &[&[libc::c_long]]| tables.iter().any(|table| table.contains(&call));
    match account.waits_for() {
        WaitsFor::Thread => is_in(&[&UNLOCKS, &ENDS, &SIGNALS]),
        WaitsFor::Peer => is_in(&[&HAND_OVER, &ENDS, &SIGNALS]),
        WaitsFor::Timer => is_in(&[&ENDS, &SIGNALS]),
        WaitsFor::Device if account == Account::Fault => {
            is_in(&[MEMORY, OLD_MEMORY, &READS_OF_PROC, &ANSWERS, &ENDS])
        }
        WaitsFor::Device | WaitsFor::Nothing | WaitsFor::Cpu => false,
        // Any call may hold what an unknown one waits for.
        WaitsFor::Unknown => true,
    }
}

/// Whether a wait was for the lock of an address space (`mmap_lock`): a fault without I/O, or a call that
/// needs the lock, ended by a thread in a call that holds it. Readers of /proc keep calls waiting, but no
/// faults. The end of `execve` wakes the parent of a `vfork`, which waits for no lock.
pub fn waits_for_address_space(wait: &Wait) -> bool {
    let is_in = |syscall: Option<u32>, also: &[libc::c_long]| {
        let call = syscall.and_then(calls_32::same).filter(|call| *call != libc::SYS_execve);
        call.is_some_and(|call| [MEMORY, OLD_MEMORY, also].iter().any(|table| table.contains(&call)))
    };
    let is_fault = wait.account == Account::Fault && wait.io.is_none() && is_in(wait.waker_syscall, &[]);
    let is_call = wait.account == Account::Other
        && is_in(wait.syscall, &[])
        && is_in(wait.waker_syscall, &READS_OF_PROC);
    (is_fault || is_call) && wait.waker_tid.is_some()
}

/// Whether only threads that share memory with the waiting one can end a wait in this call: a stranger in the
/// same call was interrupted in it.
pub(super) fn is_in_memory(syscall: u16) -> bool {
    let call = if syscall == NO_SYSCALL { None } else { calls_32::same(syscall.into()) };
    call.is_some_and(|call| [libc::SYS_futex, FUTEX_WAIT, libc::SYS_futex_waitv].contains(&call))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::unlocks(Account::Lock, libc::SYS_futex, true)]
    #[case::ends(Account::Lock, libc::SYS_exit, true)]
    #[case::writes(Account::Lock, libc::SYS_write, false)]
    #[case::sleeps(Account::Lock, libc::SYS_clock_nanosleep, false)]
    #[case::sends(Account::Net, libc::SYS_sendto, true)]
    #[case::unlocks_at_a_socket(Account::Net, libc::SYS_futex, false)]
    #[case::writes_to_a_pipe(Account::Poll, libc::SYS_write, true)]
    #[case::unmaps(Account::Fault, libc::SYS_munmap, true)]
    #[case::sends_at_a_fault(Account::Fault, libc::SYS_sendto, false)]
    #[case::ends_as_a_child(Account::Sleep, libc::SYS_exit_group, true)]
    #[case::writes_to_a_disk(Account::BlockIo, libc::SYS_write, false)]
    #[case::anything(Account::Other, libc::SYS_munmap, true)]
    fn by_the_call(#[case] account: Account, #[case] call: libc::c_long, #[case] expected: bool) {
        assert_eq!(can_end(account, u16::try_from(call).unwrap()), expected);
    }

    #[test]
    fn nobody_ends_a_wait_outside_system_calls() {
        assert!(Account::ALL.into_iter().all(|account| !can_end(account, NO_SYSCALL)));
    }

    #[rstest]
    #[case::unmaps_while_another_forks(Account::Other, libc::SYS_munmap, libc::SYS_clone, true)]
    #[case::unmaps_while_smaps_are_read(Account::Other, libc::SYS_munmap, libc::SYS_read, true)]
    #[case::faults_while_another_unmaps(Account::Fault, -1, libc::SYS_munmap, true)]
    #[case::faults_while_a_page_is_read(Account::Fault, -1, libc::SYS_read, false)]
    #[case::spawns(Account::Other, libc::SYS_clone, libc::SYS_execve, false)]
    #[case::faults_at_a_userfaultfd(Account::Fault, -1, libc::SYS_ioctl, false)]
    #[case::waits_for_a_child(Account::Other, libc::SYS_wait4, libc::SYS_exit_group, false)]
    #[case::unlocks(Account::Lock, libc::SYS_futex, libc::SYS_munmap, false)]
    fn the_lock_of_an_address_space(
        #[case] account: Account,
        #[case] call: libc::c_long,
        #[case] waker: libc::c_long,
        #[case] expected: bool,
    ) {
        let (syscall, waker_syscall) = (u32::try_from(call).ok(), u32::try_from(waker).ok());
        let wait = Wait { account, syscall, waker_syscall, waker_tid: Some(7), ..Wait::default() };
        assert_eq!(waits_for_address_space(&wait), expected);
    }
}
