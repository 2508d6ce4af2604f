//! The agent's own number, as the kernel side sees it.

use std::os::unix::fs::MetadataExt as _;

/// Inode of the initial PID namespace: the kernel's constant `PROC_PID_INIT_INO`.
const INITIAL_PID_NAMESPACE: u64 = 0xefff_fffc;

/// This process's number in the initial PID namespace, if it is in that one: another one's numbers are not
/// told.
pub(super) fn initial() -> Option<u32> {
    let namespace = std::fs::metadata("/proc/self/ns/pid").ok()?;
    (namespace.ino() == INITIAL_PID_NAMESPACE).then(std::process::id)
}
