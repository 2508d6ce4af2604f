//! Table: which account a thread's wait is charged to, by the syscall that it sleeps in.
//!
//! Written into the object's read-only table before loading, with the 32-bit calls behind the 64-bit ones. A
//! syscall that is not listed is `other`.

use guestscope_contract::{Account, CALLS, CALLS_32, CHECK_FILE, CHECK_POLLED, RESTARTS, limit};

use crate::record::calls_32::{self, FUTEX_WAIT, IO_PGETEVENTS};

/// A syscall's number and what its waits are charged to.
type Row = (libc::c_long, Account);

/// Syscalls that exist on every architecture that we build for.
const ROWS: &[Row] = &[
    (libc::SYS_futex, Account::Lock),
    (libc::SYS_accept, Account::Net),
    (libc::SYS_accept4, Account::Net),
    (libc::SYS_connect, Account::Net),
    (libc::SYS_recvfrom, Account::Net),
    (libc::SYS_recvmsg, Account::Net),
    (libc::SYS_recvmmsg, Account::Net),
    (libc::SYS_sendto, Account::Net),
    (libc::SYS_sendmsg, Account::Net),
    (libc::SYS_sendmmsg, Account::Net),
    (libc::SYS_pselect6, Account::Poll),
    (libc::SYS_epoll_pwait, Account::Poll),
    (libc::SYS_epoll_pwait2, Account::Poll),
    (libc::SYS_io_uring_enter, Account::Poll),
    (libc::SYS_nanosleep, Account::Sleep),
    (libc::SYS_clock_nanosleep, Account::Sleep),
    (libc::SYS_wait4, Account::Sleep),
    (libc::SYS_waitid, Account::Sleep),
    (libc::SYS_rt_sigsuspend, Account::Sleep),
    (libc::SYS_rt_sigtimedwait, Account::Sleep),
    // A file system with a journal writes on their behalf, and they sleep without being marked as waiting for
    // a disk (ext4 on 6.1: 538 of 731 ms).
    (libc::SYS_fsync, Account::BlockIo),
    (libc::SYS_fdatasync, Account::BlockIo),
    (libc::SYS_sync, Account::BlockIo),
    (libc::SYS_syncfs, Account::BlockIo),
    (libc::SYS_msync, Account::BlockIo),
    (libc::SYS_sync_file_range, Account::BlockIo),
    // Almost all of their waits are for disks (hardly ever for sockets and polls), and are not marked either.
    (libc::SYS_io_getevents, Account::BlockIo),
    (IO_PGETEVENTS, Account::BlockIo),
    // The waits of the newer futex calls.
    (libc::SYS_futex_waitv, Account::Lock),
    (FUTEX_WAIT, Account::Lock),
    // Locks of files and of ranges, the only thing that fcntl sleeps for, and semaphores.
    (libc::SYS_flock, Account::Lock),
    (libc::SYS_fcntl, Account::Lock),
    (libc::SYS_semtimedop, Account::Lock),
    (libc::SYS_semop, Account::Lock),
];

/// Syscalls of x86-64 alone, which newer architectures left out.
#[cfg(target_arch = "x86_64")]
const OLD_ROWS: &[Row] = &[
    (libc::SYS_select, Account::Poll),
    (libc::SYS_epoll_wait, Account::Poll),
    (libc::SYS_pause, Account::Sleep),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_ROWS: &[Row] = &[];

/// Syscalls that wait for an array of descriptors: `gpu` where one is a graphics processor's device and none
/// of its driver's functions is followed, else `poll`.
#[cfg(target_arch = "x86_64")]
const BY_ARRAY: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const BY_ARRAY: &[libc::c_long] = &[libc::SYS_ppoll];

/// Syscalls whose first argument is a file descriptor: `net` for a socket, `gpu` for a graphics processor's
/// device, else `other`.
const BY_FILE: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_ioctl,
];

/// The table in the object's layout.
pub fn account_of() -> [u8; CALLS] {
    let mut table = [Account::Other as u8; CALLS];
    for &(number, account) in ROWS.iter().chain(OLD_ROWS) {
        set(&mut table, number, account as u8);
    }
    for &number in BY_FILE {
        set(&mut table, number, Account::Other as u8 | CHECK_FILE);
    }
    for &number in BY_ARRAY {
        set(&mut table, number, Account::Poll as u8 | CHECK_POLLED);
    }
    // Waits with a time limit continue under this number.
    set(&mut table, libc::SYS_restart_syscall, Account::Other as u8 | RESTARTS);
    let (calls, calls_32) = table.split_at_mut(CALLS_32.into());
    for (number, same) in calls_32::all() {
        if let Some(entry) = usize::try_from(same).ok().and_then(|same| calls.get(same)) {
            // Their arguments lie elsewhere; of a descriptor's call the first one is known.
            set(calls_32, number.into(), *entry & !CHECK_POLLED);
        }
    }
    table
}

/// Syscalls whose wait ends after some time at the latest, and the argument that says so.
const LIMITS: &[(libc::c_long, u8)] = &[
    (libc::SYS_futex, 4),
    (FUTEX_WAIT, 5),
    (libc::SYS_futex_waitv, 4),
    (libc::SYS_ppoll, 3),
    (libc::SYS_pselect6, 5),
    (libc::SYS_epoll_pwait, 4 | limit::MILLISECONDS),
    (libc::SYS_epoll_pwait2, 4),
    (libc::SYS_rt_sigtimedwait, 3),
    (libc::SYS_semtimedop, 4),
    (libc::SYS_mq_timedsend, 5),
    (libc::SYS_mq_timedreceive, 5),
    (libc::SYS_io_getevents, 5),
    (libc::SYS_recvmmsg, 5),
];

/// Those that arm64 does not have.
#[cfg(target_arch = "x86_64")]
const OLD_LIMITS: &[(libc::c_long, u8)] = &[
    (libc::SYS_poll, 3 | limit::MILLISECONDS),
    (libc::SYS_select, 5),
    (libc::SYS_epoll_wait, 4 | limit::MILLISECONDS),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_LIMITS: &[(libc::c_long, u8)] = &[];

/// The table of time limits in the object's layout; 32-bit calls have none: their arguments lie elsewhere.
pub fn limit_of() -> [u8; CALLS] {
    let mut table = [limit::NONE; CALLS];
    for &(number, entry) in LIMITS.iter().chain(OLD_LIMITS) {
        set(&mut table, number, entry);
    }
    table
}

fn set(table: &mut [u8], number: libc::c_long, entry: u8) {
    if let Some(place) = usize::try_from(number).ok().and_then(|number| table.get_mut(number)) {
        *place = entry;
    }
}

#[cfg(test)]
mod tests {
    use guestscope_contract::SYSCALLS;
    use rstest::rstest;

    use super::*;

    #[test]
    fn what_is_not_listed_is_other() {
        assert_eq!(account_of()[usize::try_from(libc::SYS_getpid).unwrap()], Account::Other as u8);
    }

    #[test]
    fn no_syscall_stands_twice() {
        let mut numbers: Vec<_> = ROWS.iter().chain(OLD_ROWS).map(|row| row.0).collect();
        numbers.extend(BY_FILE.iter().chain(BY_ARRAY));
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }

    /// Numbers of the kernel's own tables, the same for both processors unless two are given.
    #[rstest]
    #[case::nanosleep(&[162], Account::Sleep as u8)]
    #[case::clock_nanosleep_time64(&[407], Account::Sleep as u8)]
    #[case::wait4(&[114], Account::Sleep as u8)]
    #[case::poll(&[168], Account::Poll as u8)]
    #[case::new_select(&[142], Account::Poll as u8)]
    #[case::epoll_wait(&[256, 252], Account::Poll as u8)]
    #[case::futex(&[240], Account::Lock as u8)]
    #[case::futex_time64(&[422], Account::Lock as u8)]
    #[case::fsync(&[118], Account::BlockIo as u8)]
    #[case::recvmsg(&[372, 297], Account::Net as u8)]
    #[case::read(&[3], Account::Other as u8 | CHECK_FILE)]
    #[case::restart_syscall(&[0], Account::Other as u8 | RESTARTS)]
    #[case::sched_setparam(&[154], Account::Other as u8)]
    #[case::none_of_this_number(&[500], Account::Other as u8)]
    fn a_32_bit_call_has_the_account_of_the_same_call(#[case] numbers: &[usize], #[case] entry: u8) {
        let number = numbers[usize::from(cfg!(target_arch = "aarch64")).min(numbers.len() - 1)];
        assert_eq!(account_of()[SYSCALLS + number], entry);
    }

    #[test]
    fn every_32_bit_number_is_within_the_table_and_stands_once() {
        let mut numbers: Vec<u16> = calls_32::all().map(|(number, _)| number).collect();
        assert!(numbers.iter().all(|number| usize::from(*number) < SYSCALLS - 1));
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }
}
