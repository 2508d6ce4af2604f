//! A filter of system calls (seccomp) around the driver's library, which needs devices and nothing else of
//! this machine.
//!
//! The calls that a closed library needs cannot be listed, so those that it can never need are refused. If
//! the kernel has no filters, the NVML process runs without one, as a user without any rights.

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO,
    SECCOMP_RET_KILL_PROCESS, c_long, sock_filter,
};

/// From linux/audit.h.
#[cfg(target_arch = "x86_64")]
const HERE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const HERE: u32 = 0xc000_00b7;
/// Numbers from here on are x32's.
const X32: u32 = 0x4000_0000;

/// Refused calls: programs, other processes, the kernel's own code, mounts, namespaces, keys, and ways around
/// this filter.
const REFUSED: [c_long; 44] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_syslog,
    libc::SYS_personality,
    libc::SYS_fanotify_init,
    libc::SYS_listen,
];

/// Installs the filter in this process, which has one thread so far.
pub(crate) fn close() {
    let program = program();
    let Ok(len) = u16::try_from(program.len()) else { return };
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the filter and its program live across the call, which copies them.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
}

fn program() -> Vec<sock_filter> {
    let instruction = |code: u32, jt: u8, jf: u8, k: u32| sock_filter { code: code as u16, jt, jf, k };
    let load = |offset: u32| instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset);
    let answer = |what: u32| instruction(BPF_RET | BPF_K, 0, 0, what);
    let is =
        |value: u32, then: u8, otherwise: u8| instruction(BPF_JMP | BPF_JEQ | BPF_K, then, otherwise, value);
    let mut program = vec![
        load(4),
        is(HERE, 1, 0),
        answer(SECCOMP_RET_KILL_PROCESS),
        load(0),
        instruction(BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32),
        answer(SECCOMP_RET_KILL_PROCESS),
    ];
    for call in REFUSED {
        program.extend([is(call as u32, 0, 1), answer(SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned())]);
    }
    program.push(answer(SECCOMP_RET_ALLOW));
    program
}
