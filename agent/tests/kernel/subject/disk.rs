//! Cases that wait for a block device: direct reads, one by one or many at a time, writes that are synced,
//! and faults on a file that is not cached. The first argument is a folder on a disk; the case leaves no file
//! in it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    ptr,
};

use crate::{Case, Subject};

/// Cases by name.
pub(crate) const CASES: &[Case] =
    &[("direct", direct), ("aio", aio), ("fsync", fsync), ("buffered", buffered), ("fault", fault)];

const MIB: usize = 1 << 20;
/// Bytes of a page, which the mapped and the buffered case read at a time.
const PAGE: usize = 4096;
/// Bytes of a direct read.
const BLOCK: usize = 16 << 10;
/// A direct read needs memory that is aligned to the device's blocks.
#[repr(align(4096))]
struct Block([u8; BLOCK]);
/// Reads, direct or buffered.
const READS: u64 = 1500;
/// Direct reads in flight at once.
const AT_A_TIME: usize = 8;
/// Writes of 4 KiB, each synced.
const SYNCS: u64 = 150;
/// Major faults.
const FAULTS: usize = 1500;

/// A file of this size on the disk, of which nothing is cached.
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

/// An uncached file of 32 MiB, opened for direct reads if the file system supports them.
fn cold_direct(subject: &Subject) -> io::Result<File> {
    let (path, _) = cold_file(Path::new(&subject.arguments[0]), 32 * MIB);
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
    fs::remove_file(path).expect("it is ours");
    file
}

/// Reads past the page cache. Notes `refused` if the file system cannot.
fn direct(subject: &Subject) {
    let file = cold_direct(subject);
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

/// One read of Linux's own asynchronous I/O: `struct iocb` of the kernel's ABI on a little-endian machine.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    /// 0 is a read.
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}

/// Reads many at a time past the page cache, by io_submit and io_getevents, as loaders of large models do.
/// Notes `refused` if the kernel or the file system cannot.
fn aio(subject: &Subject) {
    let file = cold_direct(subject);
    let mut context = 0_u64;
    // SAFETY: the kernel writes one word, that of the new context.
    let made = unsafe { libc::syscall(libc::SYS_io_setup, AT_A_TIME, &raw mut context) };
    let (Ok(file), 0) = (file, made) else { return subject.fact("refused", 1) };
    let mut blocks: Vec<Block> = (0..AT_A_TIME).map(|_| Block([0; BLOCK])).collect();
    subject.clerk(|clerk| {
        clerk.book("wait", 1, || {
            for first in (0..READS as usize).step_by(AT_A_TIME) {
                let mut reads: Vec<Iocb> = Vec::new();
                for (index, block) in blocks.iter_mut().enumerate() {
                    let place = (first + index) * 7 % (32 * MIB / BLOCK);
                    reads.push(Iocb {
                        descriptor: file.as_raw_fd() as u32,
                        buffer: (&raw mut *block).addr() as u64,
                        bytes: BLOCK as u64,
                        offset: (place * BLOCK) as i64,
                        ..Iocb::default()
                    });
                }
                read_all(context, &mut reads);
            }
        });
        let reads = READS.next_multiple_of(AT_A_TIME as u64);
        clerk.fact("reads", reads);
        clerk.fact("read_bytes", reads * BLOCK as u64);
    });
    // SAFETY: takes an integer; nothing is in flight.
    unsafe { libc::syscall(libc::SYS_io_destroy, context) };
}

/// Submits all reads, and waits until all are done.
fn read_all(context: u64, reads: &mut [Iocb]) {
    let pointers: Vec<*mut Iocb> = reads.iter_mut().map(|read| &raw mut *read).collect();
    // SAFETY: the reads and their buffers live until all are done, which this function waits for.
    let begun = unsafe { libc::syscall(libc::SYS_io_submit, context, pointers.len(), pointers.as_ptr()) };
    assert_eq!(begun, reads.len() as i64, "{}", io::Error::last_os_error());
    let mut done = 0;
    while done < reads.len() {
        let mut events = [[0_u64; 4]; AT_A_TIME];
        let wanted = reads.len() - done;
        // SAFETY: there is room for as many as are asked for; no time limit.
        let came = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                context,
                wanted,
                wanted,
                events.as_mut_ptr(),
                ptr::null::<libc::timespec>(),
            )
        };
        // A signal from another process may interrupt it.
        let came = usize::try_from(came).unwrap_or(0);
        for event in &events[..came] {
            assert_eq!(event[2], BLOCK as u64, "the file has the bytes");
        }
        done += came;
    }
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

/// Reads through the page cache, which holds nothing of the file.
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
    // SAFETY: a new mapping of a file that only this test writes; the kernel chooses the address.
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
