//! Table: the system calls of 32-bit programs, each with the 64-bit call that does the same.
//!
//! A 64-bit kernel runs such programs with different call numbers. The properties of a 64-bit call, such as
//! the account of its waits and whether it passes something on, hold for the 32-bit call too. Calls that are
//! missing here are `other`, and shown by number. Among these is `ipc` of x86 (117), whose first argument
//! selects the actual call.

use guestscope_contract::CALLS_32;

/// Same number on every architecture; `libc` does not define it yet.
pub const FUTEX_WAIT: libc::c_long = 455;

/// `libc` lacks it for some C libraries.
pub const IO_PGETEVENTS: libc::c_long = if cfg!(target_arch = "x86_64") { 333 } else { 292 };

/// The processor has no such call.
const NONE: u16 = u16::MAX;

/// A call's name, the 64-bit call that does the same, and its number for 32-bit programs of x86 and of Arm.
type Row = (&'static str, libc::c_long, u16, u16);

macro_rules! rows {
    ($($name:ident = $same:expr, $x86:expr, $arm:expr;)*) => {
        &[$((concat!(stringify!($name), " (32-bit)"), $same, $x86, $arm),)*]
    };
}

/// Taken from the kernel's tables (`arch/x86/entry/syscalls/syscall_32.tbl`, `arch/arm/tools/syscall.tbl`).
#[rustfmt::skip]
const ROWS: &[Row] = rows! {
    restart_syscall = libc::SYS_restart_syscall, 0, 0;
    accept = libc::SYS_accept, NONE, 285;
    accept4 = libc::SYS_accept4, 364, 366;
    clock_nanosleep = libc::SYS_clock_nanosleep, 267, 265;
    clock_nanosleep_time64 = libc::SYS_clock_nanosleep, 407, 407;
    clone = libc::SYS_clone, 120, 120;
    close = libc::SYS_close, 6, 6;
    close_range = libc::SYS_close_range, 436, 436;
    connect = libc::SYS_connect, 362, 283;
    copy_file_range = libc::SYS_copy_file_range, 377, 391;
    dup2 = libc::SYS_dup3, 63, 63;
    dup3 = libc::SYS_dup3, 330, 358;
    epoll_ctl = libc::SYS_epoll_ctl, 255, 251;
    epoll_wait = libc::SYS_epoll_pwait, 256, 252;
    epoll_pwait = libc::SYS_epoll_pwait, 319, 346;
    epoll_pwait2 = libc::SYS_epoll_pwait2, 441, 441;
    execve = libc::SYS_execve, 11, 11;
    exit = libc::SYS_exit, 1, 1;
    exit_group = libc::SYS_exit_group, 252, 248;
    fallocate = libc::SYS_fallocate, 324, 352;
    fcntl = libc::SYS_fcntl, 55, 55;
    fcntl64 = libc::SYS_fcntl, 221, 221;
    fdatasync = libc::SYS_fdatasync, 148, 148;
    flock = libc::SYS_flock, 143, 143;
    fsync = libc::SYS_fsync, 118, 118;
    ftruncate = libc::SYS_ftruncate, 93, 93;
    ftruncate64 = libc::SYS_ftruncate, 194, 194;
    futex = libc::SYS_futex, 240, 240;
    futex_time64 = libc::SYS_futex, 422, 422;
    futex_wait = FUTEX_WAIT, 455, 455;
    futex_waitv = libc::SYS_futex_waitv, 449, 449;
    getdents64 = libc::SYS_getdents64, 220, 217;
    io_getevents = libc::SYS_io_getevents, 247, 245;
    io_pgetevents = IO_PGETEVENTS, 385, 399;
    io_pgetevents_time64 = IO_PGETEVENTS, 416, 416;
    io_uring_enter = libc::SYS_io_uring_enter, 426, 426;
    ioctl = libc::SYS_ioctl, 54, 54;
    kill = libc::SYS_kill, 37, 37;
    madvise = libc::SYS_madvise, 219, 220;
    mmap2 = libc::SYS_mmap, 192, 192;
    mprotect = libc::SYS_mprotect, 125, 125;
    mq_timedreceive = libc::SYS_mq_timedreceive, 280, 277;
    mq_timedreceive_time64 = libc::SYS_mq_timedreceive, 419, 419;
    mq_timedsend = libc::SYS_mq_timedsend, 279, 276;
    mq_timedsend_time64 = libc::SYS_mq_timedsend, 418, 418;
    mremap = libc::SYS_mremap, 163, 163;
    msgrcv = libc::SYS_msgrcv, 401, 302;
    msgsnd = libc::SYS_msgsnd, 400, 301;
    msync = libc::SYS_msync, 144, 144;
    munmap = libc::SYS_munmap, 91, 91;
    nanosleep = libc::SYS_nanosleep, 162, 162;
    _newselect = libc::SYS_pselect6, 142, 142;
    open = libc::SYS_openat, 5, 5;
    openat = libc::SYS_openat, 295, 322;
    pause = libc::SYS_rt_sigsuspend, 29, 29;
    pidfd_send_signal = libc::SYS_pidfd_send_signal, 424, 424;
    poll = libc::SYS_ppoll, 168, 168;
    ppoll = libc::SYS_ppoll, 309, 336;
    ppoll_time64 = libc::SYS_ppoll, 414, 414;
    pread64 = libc::SYS_pread64, 180, 180;
    preadv = libc::SYS_preadv, 333, 361;
    preadv2 = libc::SYS_preadv2, 378, 392;
    pselect6 = libc::SYS_pselect6, 308, 335;
    pselect6_time64 = libc::SYS_pselect6, 413, 413;
    pwrite64 = libc::SYS_pwrite64, 181, 181;
    pwritev = libc::SYS_pwritev, 334, 362;
    pwritev2 = libc::SYS_pwritev2, 379, 393;
    read = libc::SYS_read, 3, 3;
    readv = libc::SYS_readv, 145, 145;
    recv = libc::SYS_recvfrom, NONE, 291;
    recvfrom = libc::SYS_recvfrom, 371, 292;
    recvmmsg = libc::SYS_recvmmsg, 337, 365;
    recvmmsg_time64 = libc::SYS_recvmmsg, 417, 417;
    recvmsg = libc::SYS_recvmsg, 372, 297;
    rename = libc::SYS_renameat2, 38, 38;
    renameat2 = libc::SYS_renameat2, 353, 382;
    rt_sigqueueinfo = libc::SYS_rt_sigqueueinfo, 178, 178;
    rt_sigsuspend = libc::SYS_rt_sigsuspend, 179, 179;
    rt_sigtimedwait = libc::SYS_rt_sigtimedwait, 177, 177;
    rt_sigtimedwait_time64 = libc::SYS_rt_sigtimedwait, 421, 421;
    rt_tgsigqueueinfo = libc::SYS_rt_tgsigqueueinfo, 335, 363;
    select = libc::SYS_pselect6, 82, NONE;
    semop = libc::SYS_semop, NONE, 298;
    semtimedop = libc::SYS_semtimedop, NONE, 312;
    semtimedop_time64 = libc::SYS_semtimedop, 420, 420;
    send = libc::SYS_sendto, NONE, 289;
    sendfile = libc::SYS_sendfile, 187, 187;
    sendfile64 = libc::SYS_sendfile, 239, 239;
    sendmmsg = libc::SYS_sendmmsg, 345, 374;
    sendmsg = libc::SYS_sendmsg, 370, 296;
    sendto = libc::SYS_sendto, 369, 290;
    setsockopt = libc::SYS_setsockopt, 366, 294;
    shutdown = libc::SYS_shutdown, 373, 293;
    sigsuspend = libc::SYS_rt_sigsuspend, 72, 72;
    socketcall = libc::SYS_recvfrom, 102, NONE;
    splice = libc::SYS_splice, 313, 340;
    stat64 = libc::SYS_statx, 195, 195;
    statx = libc::SYS_statx, 383, 397;
    sync = libc::SYS_sync, 36, 36;
    sync_file_range = libc::SYS_sync_file_range, 314, 341;
    syncfs = libc::SYS_syncfs, 344, 373;
    tee = libc::SYS_tee, 315, 342;
    tgkill = libc::SYS_tgkill, 270, 268;
    timerfd_settime = libc::SYS_timerfd_settime, 325, 353;
    timerfd_settime64 = libc::SYS_timerfd_settime, 411, 411;
    tkill = libc::SYS_tgkill, 238, 238;
    unlink = libc::SYS_unlinkat, 10, 10;
    unlinkat = libc::SYS_unlinkat, 301, 328;
    vmsplice = libc::SYS_vmsplice, 316, 343;
    wait4 = libc::SYS_wait4, 114, 114;
    waitid = libc::SYS_waitid, 284, 280;
    waitpid = libc::SYS_wait4, 7, NONE;
    write = libc::SYS_write, 4, 4;
    writev = libc::SYS_writev, 146, 146;
};

/// The row's number for 32-bit programs of this processor.
const fn number(row: &Row) -> u16 {
    if cfg!(target_arch = "x86_64") { row.2 } else { row.3 }
}

/// The row of a call, by its name in records.
fn row(call: u32) -> Option<&'static Row> {
    let wanted = u16::try_from(call).ok()?.checked_sub(CALLS_32)?;
    ROWS.iter().find(|row| number(row) == wanted)
}

/// Name of a 32-bit call, marked as such.
pub fn name(call: u32) -> Option<&'static str> {
    row(call).map(|row| row.0)
}

/// The 64-bit call that does the same; a 64-bit call is itself.
pub(crate) fn same(call: u32) -> Option<libc::c_long> {
    if call < u32::from(CALLS_32) { Some(call.into()) } else { row(call).map(|row| row.1) }
}

/// All 32-bit calls here: their numbers, and the 64-bit calls that do the same.
pub fn all() -> impl Iterator<Item = (u16, libc::c_long)> {
    ROWS.iter().map(|row| (number(row), row.1)).filter(|(number, _)| *number != NONE)
}
