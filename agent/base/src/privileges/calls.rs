//! The system calls of an observing agent, its C library and its runtime. Data alone.
//!
//! None of them starts a program or a process, traces one, loads code into the kernel, mounts, or changes
//! namespaces, keys, modules, clocks or limits of others. A call that is missing here looks like one that the
//! kernel does not have, for which C libraries have an older one.

use libc::c_long;

/// Allowed with any arguments.
pub(super) const PLAIN: &[c_long] = &[
    // Waiting and time.
    libc::SYS_futex,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_create1,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    // Files.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_umask,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_utimensat,
    libc::SYS_flock,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_memfd_create,
    libc::SYS_name_to_handle_at,
    // Sockets, of the families below.
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_shutdown,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_membarrier,
    // Threads, and settings of this process.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_signalfd4,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_pidfd_open,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_getrlimit,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getpriority,
    // Clocks for later threads and CPUs, and the marker's probe in programs.
    libc::SYS_perf_event_open,
];

/// Older names of the same calls.
#[cfg(target_arch = "x86_64")]
pub(super) const OLD: &[c_long] = &[
    libc::SYS_epoll_wait,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_time,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_eventfd,
    libc::SYS_signalfd,
    libc::SYS_arch_prctl,
    libc::SYS_getpgrp,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD: &[c_long] = &[];

/// Allowed only if this argument is one of these values, by its lower half: none of these calls uses the
/// upper one.
pub(super) struct Only {
    pub(super) call: c_long,
    pub(super) argument: u32,
    pub(super) values: &'static [u32],
}

const fn only(call: c_long, argument: u32, values: &'static [u32]) -> Only {
    Only { call, argument, values }
}

pub(super) const ONLY: &[Only] = &[
    // Maps are read and written, loaded programs are linked and run: no further program is loaded, and no
    // object of others is opened by its number. From linux/bpf.h: MAP_LOOKUP_ELEM to MAP_GET_NEXT_KEY,
    // PROG_TEST_RUN, OBJ_GET_INFO_BY_FD, RAW_TRACEPOINT_OPEN, MAP_LOOKUP_AND_DELETE_ELEM, the batches,
    // LINK_CREATE, LINK_UPDATE, ITER_CREATE, LINK_DETACH.
    only(libc::SYS_bpf, 0, &[1, 2, 3, 4, 10, 15, 17, 21, 24, 25, 26, 27, 28, 29, 33, 34]),
    // Copies of descriptors, their flags, locks of files, and sizes of pipes and seals, from linux/fcntl.h.
    // Not the receiver of a signal (F_SETOWN, F_SETOWN_EX, F_SETSIG), no leases, no directory notification.
    only(libc::SYS_fcntl, 1, &[0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1031, 1032, 1033, 1034]),
    // AF_INET, AF_INET6, AF_NETLINK. Not AF_UNIX: the agent's own socket is open already, and root may
    // connect to every other.
    only(libc::SYS_socket, 0, &[2, 10, 16]),
    only(libc::SYS_socketpair, 0, &[1]),
    // PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ and _DROP, PR_SET_SECUREBITS,
    // PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_SET_VMA.
    only(libc::SYS_prctl, 0, &[3, 15, 16, 23, 24, 28, 38, 39, 47, 0x5356_4d41]),
    // Terminals are queried (TCGETS, TCGETS2, TIOCGPGRP, TIOCGWINSZ) and never typed into; FIONREAD, FIONBIO,
    // FIOCLEX and FIONCLEX; perf events are switched, reset, named and given a program.
    only(
        libc::SYS_ioctl,
        1,
        &[
            0x5401,
            0x802c_542a,
            0x540f,
            0x5413,
            0x541b,
            0x5421,
            0x5450,
            0x5451,
            0x2400,
            0x2401,
            0x2403,
            0x4004_2408,
            0x8008_2407,
        ],
    ),
];
