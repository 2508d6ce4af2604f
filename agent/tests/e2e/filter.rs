//! A filter of system calls such as container engines install.

use std::io;

/// bpf(2), which most engines refuse.
pub(crate) const BPF_ALONE: [libc::c_long; 2] = [libc::SYS_bpf, libc::SYS_bpf];
/// pidfd_open(2) as well, which older kernels, and others, do not have.
pub(crate) const BPF_AND_PIDFD: [libc::c_long; 2] = [libc::SYS_bpf, libc::SYS_pidfd_open];

/// For this process and all that it starts: refuses the first call with EPERM, the second with ENOSYS.
pub(crate) fn refuse_calls([forbidden, missing]: [libc::c_long; 2]) -> io::Result<()> {
    const NUMBER: u32 = 0; // `seccomp_data.nr`
    let errno = |errno: i32| libc::SECCOMP_RET_ERRNO | errno as u32;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let give = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut filter = [
        libc::sock_filter { code: load, jt: 0, jf: 0, k: NUMBER },
        libc::sock_filter { code: equal, jt: 0, jf: 1, k: forbidden as u32 },
        libc::sock_filter { code: give, jt: 0, jf: 0, k: errno(libc::EPERM) },
        libc::sock_filter { code: equal, jt: 0, jf: 1, k: missing as u32 },
        libc::sock_filter { code: give, jt: 0, jf: 0, k: errno(libc::ENOSYS) },
        libc::sock_filter { code: give, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: filter and program live across the call.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
