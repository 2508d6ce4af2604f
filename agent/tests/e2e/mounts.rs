//! Other views of the file system for programs that a test starts: hidden files, tiny disks.
//!
//! A test's thread gets a mount namespace of its own, and programs that it starts inherit it. The machine's
//! own mounts are never touched.

use std::path::Path;

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};

use crate::ground::skipped;

/// Runs `test` on a thread with private mounts; prints a note if this machine does not allow them.
pub(crate) fn in_private_mounts(name: &str, test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let run = || {
            let none = None::<&str>;
            let private = unshare(CloneFlags::CLONE_NEWNS)
                .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none));
            match private {
                Ok(()) => test(),
                Err(errno) => skipped(name, &format!("no mount namespace of its own: {errno}")),
            }
        };
        if let Err(panic) = scope.spawn(run).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Mounts a tmpfs of this size.
pub(crate) fn tiny_disk(at: &Path, bytes: u64) {
    let size = format!("size={bytes}");
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(size.as_str()))
        .expect("a tmpfs can be mounted");
}

/// Mounts a file or folder over another.
pub(crate) fn cover(what: &str, with: &Path) {
    mount(Some(with), what, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .unwrap_or_else(|errno| panic!("covering {what}: {errno}"));
}

/// Removes all mounts at this place.
pub(crate) fn uncover(what: &str) {
    while umount2(what, MntFlags::MNT_DETACH).is_ok() {}
}
