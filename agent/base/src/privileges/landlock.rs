//! Where a thread may change files: below one directory, by the kernel's Landlock. Reading stays as it is,
//! since probes lie in files anywhere.

use std::{io, path::Path};

use landlock::{
    ABI, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus,
};

/// From now on the calling thread, and threads that it starts, change no files but those below `directory`.
/// Files that are open already stay writable. Returns false if the kernel has no Landlock, or none that is
/// enabled.
///
/// # Errors
/// The kernel's error.
pub fn change_only_below(directory: &Path) -> io::Result<bool> {
    // What ABI 5 (Linux 6.10) knows; older kernels enforce what they know of it.
    let changes = AccessFs::from_write(ABI::V5);
    let below = PathFd::new(directory).map_err(io::Error::other)?;
    let restricted = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(changes)?
            .create()?
            .add_rule(PathBeneath::new(below, changes))?
            .restrict_self()
    };
    let status = restricted().map_err(io::Error::other)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_thread_changes_files_in_its_place_alone() {
        let place = tempfile::tempdir().expect("a folder can be made");
        let (inside, outside) = (place.path().join("in"), place.path().join("out"));
        for directory in [&inside, &outside] {
            fs::create_dir(directory).expect("the place is ours");
            fs::write(directory.join("file"), "before").expect("the place is ours");
        }
        let (inner, outer) = (inside.clone(), outside.clone());
        // A thread of its own: what it gives up it never gets back.
        let thread = std::thread::spawn(move || {
            if !change_only_below(&inner).expect("the kernel answers") {
                return false;
            }
            assert!(fs::write(inner.join("file"), "after").is_ok());
            assert!(fs::create_dir(inner.join("new")).is_ok());
            assert!(fs::remove_dir(inner.join("new")).is_ok());
            assert!(fs::write(outer.join("file"), "after").is_err());
            assert!(fs::remove_file(outer.join("file")).is_err());
            assert!(fs::create_dir(outer.join("new")).is_err());
            assert_eq!(fs::read(outer.join("file")).expect("it may be read"), b"before");
            true
        });
        // Without Landlock in the kernel it gives up nothing.
        thread.join().expect("it does not panic");
        assert_eq!(fs::read(outside.join("file")).expect("it is there"), b"before");
    }
}
