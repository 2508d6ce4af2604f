//! The rights of another user, for a thread's file operations.
//!
//! The kernel keeps a user and a group for files beside the others, thread by thread (setfsuid(2)). While
//! they are not root's, the thread lacks the capabilities that would let it pass over permissions and owners.
//! Signals, ptrace and BPF still go by the process's own user, so that the other user can do nothing to the
//! thread.

use std::{io, marker::PhantomData};

use nix::unistd::{Gid, getgroups};

/// The owner of new files: under sudo, the user who called it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The user's other groups.
    pub groups: Vec<u32>,
}

impl Owner {
    /// Gives this thread the user's rights until the value is dropped.
    ///
    /// # Errors
    /// This process may not do that, or the kernel cannot.
    pub fn assume(&self) -> io::Result<Assumed> {
        let groups = getgroups()?.into_iter().map(Gid::as_raw).collect();
        let before = Self { uid: file_user(), gid: file_group(), groups };
        let assumed = Assumed { before, _of_this_thread: PhantomData };
        // If a step fails, dropping the value undoes those before it.
        self.set()?;
        Ok(assumed)
    }

    /// Gives this thread, and those that it starts, the user's rights from now on.
    ///
    /// # Errors
    /// As for [`Self::assume`]; the thread is unusable then.
    pub fn assume_for_good(&self) -> io::Result<()> {
        self.set()
    }

    /// The group goes first: with the user's own rights it may not be changed.
    fn set(&self) -> io::Result<()> {
        set_groups(&self.groups)?;
        set_file_group(self.gid);
        set_file_user(self.uid);
        // These calls report no error; the values in force are read back.
        if (file_user(), file_group()) == (self.uid, self.gid) {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "the rights of the user cannot be taken"))
        }
    }
}

/// Gives the thread another user's rights as long as it lives.
#[derive(Debug)]
pub struct Assumed {
    before: Owner,
    /// Not `Send`: another thread has other rights.
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Assumed {
    fn drop(&mut self) {
        set_file_user(self.before.uid);
        set_file_group(self.before.gid);
        // Groups that could be set can be restored; if not, the thread has too few rights, not too many.
        set_groups(&self.before.groups).unwrap_or_default();
    }
}

/// Sets the groups of the calling thread: `setgroups` of the C library would change all threads.
fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the list lives across the call, which reads as many numbers as its length argument says.
    let set = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_file_user(uid: u32) {
    // SAFETY: takes no pointers.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
}

fn set_file_group(gid: u32) {
    // SAFETY: takes no pointers.
    unsafe { libc::syscall(libc::SYS_setfsgid, gid) };
}

/// The user of this thread's file operations. Passing an invalid number changes nothing.
pub(super) fn file_user() -> u32 {
    // SAFETY: takes no pointers. The kernel gives a number of 32 bits.
    unsafe { libc::syscall(libc::SYS_setfsuid, u32::MAX) as u32 }
}

fn file_group() -> u32 {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_setfsgid, u32::MAX) as u32 }
}
