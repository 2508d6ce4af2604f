//! Whether BPF is refused here, and by what: from the error, or by asking the kernel where the error does not
//! show it.
//!
//! The session decides whether to continue without BPF.

use std::io;

use crate::{failure, loader::LoadError};

/// Why BPF is not used.
#[derive(Debug)]
pub enum Refusal {
    /// The user asked for none.
    Unwanted,
    /// The kernel, or a filter before it, refused.
    Refused(LoadError),
}

/// Whether the reason is lack of permission: missing capabilities, a seccomp filter, lockdown, or a kernel
/// without bpf(2).
pub fn is_refused(error: &LoadError) -> bool {
    // Not EACCES: a verifier returns it for programs that it rejects.
    let is_refusal = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS));
    matches!(error, LoadError::Permission(_))
        || failure::system_error(error).is_some_and(is_refusal)
        || try_map().is_err_and(|error| is_refusal(&error))
}

/// Asks the kernel for the smallest possible map, and closes it.
fn try_map() -> io::Result<()> {
    const MAP_CREATE: libc::c_long = 0;
    // Type array, key and value of 4 bytes, one element.
    let attributes: [u32; 16] = [2, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: the attributes live across the call and have the size that is passed.
    let map =
        unsafe { libc::syscall(libc::SYS_bpf, MAP_CREATE, attributes.as_ptr(), size_of_val(&attributes)) };
    if map < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just created, and not used elsewhere.
    unsafe { libc::close(map as libc::c_int) };
    Ok(())
}
