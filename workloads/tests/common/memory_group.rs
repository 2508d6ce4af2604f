//! The program in a memory cgroup of its own, gone with the test, so that its limit is the same on every
//! machine.

use std::{
    fs,
    path::PathBuf,
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use guestscope_workloads::stall::machine::hierarchy::{Hierarchy, Version};

/// The cgroup, as a folder.
pub(crate) struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// A group of at most `bytes`. If none can be made, reports that `test` is skipped and returns none.
    pub(crate) fn of(test: &str, bytes: u64) -> Option<Self> {
        let group = Self::make(bytes);
        if group.is_none() {
            skipped(test, "no memory cgroup can be made");
        }
        group
    }

    fn make(bytes: u64) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let Hierarchy { version, mount, home } = Hierarchy::of("memory")?;
        let (parent, limit) = match version {
            Version::One => (home, "memory.limit_in_bytes"),
            // Groups with processes cannot have child groups, except the root, whose groups get the
            // controller once it is enabled there; if it already is, or may not be, the limit's own file
            // tells.
            Version::Two => {
                let _ = fs::write(mount.join("cgroup.subtree_control"), "+memory");
                (mount, "memory.max")
            }
        };
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("guestscope-test-{}-{number}", process::id()));
        fs::create_dir(&folder).ok()?;
        let group = Self { folder };
        fs::write(group.folder.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }

    /// A command that enters the group before it executes the program.
    pub(crate) fn program(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.folder.join("cgroup.procs"));
        command.arg(env!("CARGO_BIN_EXE_guestscope-workloads")).env_remove("GUESTSCOPE_WORKLOAD_FILE");
        command
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel may hold a group for some milliseconds after its last process left.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
}
