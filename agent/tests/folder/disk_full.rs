//! A file system without space: the run goes on, what was written stays readable, and once there is space
//! again, the rest is written.

#![cfg(feature = "kernel-tests")]

use std::{
    fs,
    io::{Seek, Write},
    path::{Path, PathBuf},
};

use guestscope::folder::Folder;
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};

use super::{close, create, ids, manifest, request};

/// A tmpfs of a given size, unmounted when dropped.
struct TinyDisk(PathBuf);

impl TinyDisk {
    /// Mounts it in the mount namespace of this thread.
    fn mount(at: &Path, bytes: u64) -> nix::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
        mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(format!("size={bytes}").as_str()))?;
        Ok(Self(at.to_owned()))
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        umount2(&self.0, MntFlags::MNT_DETACH).unwrap();
    }
}

/// Bytes of the smallest disk: room for the start of a folder, and little more.
const TINY: u64 = 256 << 10;

/// Runs `test` on a tiny disk, in a thread of its own: the mount namespace is the thread's.
#[expect(clippy::print_stdout, reason = "it says what it skips")]
fn on_a_tiny_disk(name: &str, bytes: u64, test: impl FnOnce(&Path) + Send) {
    let parent = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let run = || match TinyDisk::mount(parent.path(), bytes) {
            Ok(disk) => test(&disk.0),
            Err(errno) => println!("skipped: {name}: cannot mount a tmpfs: {errno}"),
        };
        scope.spawn(run).join().unwrap();
    });
}

/// Fills the rest of the disk with a file.
fn fill(parent: &Path) -> PathBuf {
    let path = parent.join("ballast");
    let mut file = fs::File::create(&path).unwrap();
    while file.write_all(&[1; 1 << 12]).is_ok() {}
    while file.write_all(&[1]).is_ok() {}
    assert!(file.stream_position().unwrap() > 0);
    path
}

#[test]
fn a_full_disk_costs_what_it_must_and_no_more() {
    on_a_tiny_disk("a_full_disk_costs_what_it_must_and_no_more", TINY, |parent| {
        let mut folder = create(parent, manifest());
        let mut id = 0;
        let mut append = |folder: &mut guestscope::folder::RunFolder, count| {
            for _ in 0..count {
                id += 1;
                folder.append_request(&request(id, "infer", 1_000 + id));
            }
            folder.flush();
        };
        append(&mut folder, 100);
        let ballast = fill(parent);
        // More than the rest of the file's last page takes, so that the write fails half-way.
        append(&mut folder, 200);
        let health = folder.health();
        assert_eq!((health.rows.phases, health.rows_lost.phases), (100, 0));
        assert!(health.last_error.unwrap().contains("No space left on device"));
        // The half-written batch is removed again: a reader sees complete requests only.
        assert_eq!(ids(folder.path()), (1..=100).collect::<Vec<_>>());
        folder.update_manifest(|manifest| "new".clone_into(&mut manifest.cpu_model));
        assert_eq!(Folder::open(folder.path()).unwrap().manifest().cpu_model, "");

        fs::remove_file(ballast).unwrap();
        folder.update_manifest(|_| {});
        assert_eq!(Folder::open(folder.path()).unwrap().manifest().cpu_model, "new");
        append(&mut folder, 50);
        assert_eq!(folder.health().rows.phases, 350);
        let closed = close(folder);
        assert!(closed.errors.is_empty(), "{:?}", closed.errors);
        assert_eq!(ids(&closed.path), (1..=350).collect::<Vec<_>>());
        assert!(closed.manifest.health.folder_error.is_some());
    });
}

#[test]
fn what_waits_is_bounded_while_the_disk_is_full() {
    on_a_tiny_disk("what_waits_is_bounded_while_the_disk_is_full", 4 * TINY, |parent| {
        let mut folder = create(parent, manifest());
        let ballast = fill(parent);
        (1..=40_000).for_each(|id| folder.append_request(&request(id, "infer", 1)));
        let lost = folder.health().rows_lost.phases;
        assert!((20_000..40_000).contains(&lost), "{lost}");
        fs::remove_file(ballast).unwrap();
        // Data that waited in memory has room now, and so has the manifest.
        let closed = close(folder);
        assert_eq!(closed.manifest.rows.phases + closed.manifest.rows_lost.phases, 40_000);
        assert_eq!(ids(&closed.path).len() as u64, closed.manifest.rows.phases);
    });
}

#[test]
fn a_disk_too_full_to_close_keeps_the_stream() {
    on_a_tiny_disk("a_disk_too_full_to_close_keeps_the_stream", TINY, |parent| {
        let mut folder = create(parent, manifest());
        (1..=300).for_each(|id| folder.append_request(&request(id, "infer", id)));
        folder.flush();
        let path = folder.path().to_owned();
        let ballast = fill(parent);
        let error = folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("No space left on device"), "{error}");
        assert_eq!(ids(&path), (1..=300).collect::<Vec<_>>());
        fs::remove_file(ballast).unwrap();
    });
}
