//! Whether a return probe ends a program whose system calls are filtered (seccomp).
//!
//! On x86-64 from 6.11 on the code behind a return probe is a system call of its own. Filters saw it until
//! the kernel let it through (6.14, and later releases of 6.12 and 6.13), and those of container engines and
//! of systemd's services did not know it: their programs ended by a signal (systemd/systemd#34615). So it is
//! tried: a child that is allowed one other system call calls a function of the agent with such a probe.

use std::{
    fs, io,
    os::fd::{BorrowedFd, OwnedFd},
    ptr, thread,
};

use super::uprobe::{self, Spot};
use crate::own_mappings;

/// The agent's own file, as the kernel finds it.
const OWN: &str = "/proc/self/exe";
/// From linux/filter.h and linux/seccomp.h: load a word of the call, compare it with a number, return a
/// verdict.
const LOAD: u16 = 0x20;
const COMPARE: u16 = 0x15;
const RETURN: u16 = 0x06;
const KILL_PROCESS: u32 = 0x8000_0000;
const ALLOW: u32 = 0x7fff_0000;

/// The function with the probe.
#[inline(never)]
extern "C" fn probed(number: u32) -> u32 {
    std::hint::black_box(number)
}

/// Whether such programs go on. `program` is that of a return probe.
///
/// # Errors
/// The kernel refuses the probe, or another process.
pub(super) fn survive(kind: u32, program: BorrowedFd<'_>) -> io::Result<bool> {
    let offset = own_offset(probed as *const () as u64)?;
    let spot = Spot { offset, is_return: true, ..Spot::default() };
    let probe = uprobe::open(kind, OWN, spot, program, None)?;
    let survived = child_survives();
    take_out(probe);
    survived
}

/// Removing a probe takes the kernel 0.1 s, for which nothing has to wait.
fn take_out(probe: OwnedFd) {
    let _ = thread::Builder::new().spawn(move || drop(probe));
}

/// The place of an address of this program in its file.
fn own_offset(address: u64) -> io::Result<u64> {
    let maps = fs::read_to_string(own_mappings::PATH)?;
    let address = usize::try_from(address).map_err(io::Error::other)?;
    let mut all = own_mappings::parse(&maps);
    let own = all.find(|mapping| (mapping.start..mapping.end).contains(&address));
    own.map(|mapping| (address - mapping.start) as u64 + mapping.offset)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Makes the child, and waits for its end.
fn child_survives() -> io::Result<bool> {
    let step =
        |code, jump_if, jump_else, value| libc::sock_filter { code, jt: jump_if, jf: jump_else, k: value };
    let mut steps = [
        // The number is the first word of what a filter sees.
        step(LOAD, 0, 0, 0),
        step(COMPARE, 0, 1, libc::SYS_exit_group as u32),
        step(RETURN, 0, 0, ALLOW),
        step(RETURN, 0, 0, KILL_PROCESS),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: after the fork the child only makes system calls, with values on its stack, and ends.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            // Where the kernel has no filters, no program is ended by one.
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter);
            let right = probed(0);
            libc::syscall(libc::SYS_exit_group, right);
        }
        child
    };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut status = 0;
    loop {
        // SAFETY: the status lives across the call.
        match unsafe { libc::waitpid(child, ptr::from_mut(&mut status), 0) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            _ => return Ok(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_without_a_probe_survives_its_filter() {
        assert!(child_survives().expect("a child can be made"));
    }

    #[test]
    fn an_address_of_this_program_lies_in_its_file() {
        let offset = own_offset(probed as *const () as u64).expect("it is mapped");
        let file = fs::read(OWN).expect("it can be read");
        // SAFETY: code of this program.
        let code = unsafe { std::slice::from_raw_parts(probed as *const u8, 4) };
        assert_eq!(&file[offset as usize..][..4], code);
        assert!(own_offset(0).is_err());
    }
}
