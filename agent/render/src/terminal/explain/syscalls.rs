//! Table: names of system calls in which threads wait.
//!
//! Numbers are of this program's own architecture; the caller checks that the folder has the same one.

use std::sync::LazyLock;

use guestscope_contract::{CALLS, CALLS_32};

use crate::record::calls_32::{self, FUTEX_WAIT, IO_PGETEVENTS};

macro_rules! names {
    ($($(#[$only:meta])* $number:ident = $name:literal,)*) => {
        static NAMES: LazyLock<Vec<(libc::c_long, &'static str)>> =
            LazyLock::new(|| vec![$($(#[$only])* (libc::$number, $name),)*]);
    };
}

names! {
    SYS_accept = "accept",
    SYS_accept4 = "accept4",
    SYS_brk = "brk",
    SYS_clock_nanosleep = "clock_nanosleep",
    SYS_clone = "clone",
    SYS_clone3 = "clone3",
    SYS_close = "close",
    SYS_connect = "connect",
    SYS_copy_file_range = "copy_file_range",
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_wait = "epoll_wait",
    SYS_epoll_pwait = "epoll_pwait",
    SYS_epoll_pwait2 = "epoll_pwait2",
    SYS_execve = "execve",
    SYS_exit = "exit",
    SYS_exit_group = "exit_group",
    SYS_fallocate = "fallocate",
    SYS_fcntl = "fcntl",
    SYS_fdatasync = "fdatasync",
    SYS_flock = "flock",
    SYS_fstat = "fstat",
    SYS_fsync = "fsync",
    SYS_ftruncate = "ftruncate",
    SYS_futex = "futex",
    SYS_futex_waitv = "futex_waitv",
    SYS_getdents64 = "getdents64",
    SYS_getrandom = "getrandom",
    SYS_ioctl = "ioctl",
    SYS_io_getevents = "io_getevents",
    SYS_io_uring_enter = "io_uring_enter",
    SYS_lseek = "lseek",
    SYS_madvise = "madvise",
    SYS_mlock = "mlock",
    SYS_mmap = "mmap",
    SYS_mprotect = "mprotect",
    SYS_mq_timedreceive = "mq_timedreceive",
    SYS_mq_timedsend = "mq_timedsend",
    SYS_mremap = "mremap",
    SYS_msgrcv = "msgrcv",
    SYS_msgsnd = "msgsnd",
    SYS_msync = "msync",
    SYS_munmap = "munmap",
    SYS_nanosleep = "nanosleep",
    SYS_newfstatat = "newfstatat",
    SYS_openat = "openat",
    #[cfg(target_arch = "x86_64")]
    SYS_open = "open",
    #[cfg(target_arch = "x86_64")]
    SYS_pause = "pause",
    #[cfg(target_arch = "x86_64")]
    SYS_poll = "poll",
    SYS_ppoll = "ppoll",
    SYS_pread64 = "pread64",
    SYS_preadv = "preadv",
    SYS_preadv2 = "preadv2",
    SYS_pselect6 = "pselect6",
    SYS_pwrite64 = "pwrite64",
    SYS_pwritev = "pwritev",
    SYS_pwritev2 = "pwritev2",
    SYS_read = "read",
    SYS_readv = "readv",
    SYS_recvfrom = "recvfrom",
    SYS_recvmmsg = "recvmmsg",
    SYS_recvmsg = "recvmsg",
    #[cfg(target_arch = "x86_64")]
    SYS_rename = "rename",
    SYS_renameat2 = "renameat2",
    SYS_rt_sigsuspend = "rt_sigsuspend",
    SYS_rt_sigtimedwait = "rt_sigtimedwait",
    SYS_sched_yield = "sched_yield",
    #[cfg(target_arch = "x86_64")]
    SYS_select = "select",
    SYS_semop = "semop",
    SYS_semtimedop = "semtimedop",
    SYS_sendfile = "sendfile",
    SYS_sendmmsg = "sendmmsg",
    SYS_sendmsg = "sendmsg",
    SYS_sendto = "sendto",
    SYS_splice = "splice",
    #[cfg(target_arch = "x86_64")]
    SYS_stat = "stat",
    SYS_statx = "statx",
    SYS_sync = "sync",
    SYS_sync_file_range = "sync_file_range",
    SYS_syncfs = "syncfs",
    SYS_unlinkat = "unlinkat",
    #[cfg(target_arch = "x86_64")]
    SYS_unlink = "unlink",
    SYS_vmsplice = "vmsplice",
    SYS_wait4 = "wait4",
    SYS_waitid = "waitid",
    SYS_write = "write",
    SYS_writev = "writev",
}

/// System calls whose numbers `libc` lacks on some targets.
const NEWER: [(libc::c_long, &str); 2] = [(FUTEX_WAIT, "futex_wait"), (IO_PGETEVENTS, "io_pgetevents")];

/// The name of a system call in which threads usually wait.
pub fn name(number: u32) -> Option<&'static str> {
    if number >= u32::from(CALLS_32) {
        return calls_32::name(number);
    }
    let mut known = NAMES.iter().chain(&NEWER);
    known.find(|(known, _)| *known == libc::c_long::from(number)).map(|(_, name)| *name)
}

/// The name, or the number where none is known.
pub(in crate::terminal) fn name_or_number(number: u32) -> String {
    name(number).map_or_else(|| numbered(number), str::to_owned)
}

/// Text for a number without a known name.
pub(super) fn numbered(number: u32) -> String {
    match number.checked_sub(CALLS_32.into()) {
        Some(number_32) if number < CALLS as u32 => format!("32-bit system call {number_32}"),
        _ => format!("system call {number}"),
    }
}

#[cfg(test)]
mod tests {
    use guestscope_contract::Account;

    use super::*;
    use crate::facts::syscalls::account_of;

    #[test]
    fn what_has_an_account_of_its_own_has_a_name() {
        let nameless: Vec<u32> = (0_u32..)
            .zip(account_of())
            .filter(|(number, entry)| *entry != Account::Other as u8 && name(*number).is_none())
            .map(|(number, _)| number)
            .collect();
        // It continues the call before it, whose number the waits carry.
        assert_eq!(nameless, [u32::try_from(libc::SYS_restart_syscall).unwrap()]);
    }

    /// Holds on both architectures.
    #[test]
    fn a_32_bit_call_is_told_from_the_64_bit_one_of_its_number() {
        let of_32 = |number: u32| u32::from(CALLS_32) + number;
        assert_eq!(name(of_32(162)), Some("nanosleep (32-bit)"));
        assert_eq!(name(of_32(422)), Some("futex_time64 (32-bit)"));
        assert_eq!(name(of_32(117)), None);
        assert_eq!([117, of_32(117)].map(numbered), ["system call 117", "32-bit system call 117"]);
    }
}
