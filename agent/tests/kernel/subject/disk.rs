//! Cases that wait for a block device: direct reads, writes that are synced, and faults on a file that is not cached.
//! The first argument is a folder on a disk; the case leaves no file in it.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    ptr,
};

use crate::{Case, Subject};

/// By name.
pub(crate) const CASES: &[Case] =
    &[("direct", direct), ("fsync", fsync), ("buffered", buffered), ("fault", fault)];

const MIB: usize = 1 << 20;
/// A page, which is what the mapped and the buffered case read.
const PAGE: usize = 4096;
/// Bytes of a direct read.
const BLOCK: usize = 16 << 10;
/// A direct read needs memory that is aligned to the device's blocks.
#[repr(align(4096))]
struct Block([u8; BLOCK]);
/// Reads, direct or buffered.
const READS: u64 = 1500;
/// Writes of 4 KiB, each synced.
const SYNCS: u64 = 150;
/// Major faults.
const FAULTS: usize = 1500;

/// A file with that many bytes on the disk, and none of them cached.
fn cold_file(folder: &Path, bytes: usize) -> (PathBuf, File) {
    let path = folder.join(format!("cold-{}", std::process::id()));
    let mut file = File::create_new(&path).expect("the folder can be written");
    let piece = vec![0x5a; MIB];
    for _ in 0..bytes / MIB {
        file.write_all(&piece).expect("the disk has room");
    }
    file.sync_all().expect("the disk takes it");
    // SAFETY: takes integers only.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
    (path.clone(), File::open(path).expect("it was just written"))
}

/// Reads past the page cache. Writes `refused` down where the file system cannot.
fn direct(subject: &Subject) {
    let (path, _) = cold_file(Path::new(&subject.arguments[0]), 32 * MIB);
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
    fs::remove_file(path).expect("it is ours");
    let Ok(file) = file else { return subject.fact("refused", 1) };
    let mut block = Block([0; BLOCK]);
    subject.clerk(|clerk| {
        clerk.book("wait", 1, || {
            for read in 0..READS {
                let at = read * 7 % (32 * MIB / BLOCK) as u64 * BLOCK as u64;
                file.read_exact_at(&mut block.0, at).expect("the file has the bytes");
            }
        });
        clerk.fact("reads", READS);
        clerk.fact("read_bytes", READS * BLOCK as u64);
    });
}

fn fsync(subject: &Subject) {
    let path = Path::new(&subject.arguments[0]).join(format!("synced-{}", std::process::id()));
    let mut file = File::create_new(&path).expect("the folder can be written");
    fs::remove_file(path).expect("it is ours");
    subject.clerk(|clerk| {
        clerk.book("wait", 1, || {
            for _ in 0..SYNCS {
                file.write_all(&[0x5a; 4096]).expect("the disk has room");
                file.sync_all().expect("the disk takes it");
            }
        });
        clerk.fact("write_bytes", SYNCS * PAGE as u64);
    });
}

/// Reads through the page cache, which is empty.
fn buffered(subject: &Subject) {
    let (path, file) = cold_file(Path::new(&subject.arguments[0]), 64 * MIB);
    fs::remove_file(path).expect("it is ours");
    // SAFETY: takes integers only.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
    let mut block = [0; PAGE];
    subject.clerk(|clerk| {
        clerk.book("wait", 1, || {
            for read in 0..READS {
                let at = read * 11 % (64 * MIB / PAGE) as u64 * PAGE as u64;
                file.read_exact_at(&mut block, at).expect("the file has the bytes");
            }
        });
    });
}

/// Touches pages of a mapped file that is not cached, each on its own.
fn fault(subject: &Subject) {
    let bytes = 64 * MIB;
    let (path, file) = cold_file(Path::new(&subject.arguments[0]), bytes);
    fs::remove_file(path).expect("it is ours");
    // SAFETY: a new mapping of a file that nobody else writes; the kernel chooses the address.
    let memory = unsafe {
        let memory =
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(memory, libc::MAP_FAILED);
        libc::madvise(memory, bytes, libc::MADV_RANDOM);
        memory.cast::<u8>()
    };
    subject.clerk(|clerk| {
        clerk.book("wait", 1, || {
            for touch in 0..FAULTS {
                // SAFETY: the address lies inside the mapping.
                unsafe { memory.add(touch * 11 % (bytes / PAGE) * PAGE).read_volatile() };
            }
        });
        clerk.fact("faults", FAULTS as u64);
    });
}
