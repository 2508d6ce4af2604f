//! Maps a file descriptor to the kind of its file, on the path of every blocking read and write.
//!
//! A file table is an array behind a pointer, and the verifier lets programs index it only through a BPF
//! helper. One read through a BPF helper costs 19 ns (6.18, in a virtual machine); a lookup takes three. The
//! kernel's `bpf_rdonly_cast` (6.2 and later) makes a typed pointer of any address: the verifier turns its
//! call into a move, and loads through the pointer are single instructions that read 0 where there is no
//! memory. Nothing is cached between calls: the same number may be another file next time.

use guestscope_contract::{GPU_MAJORS, MINOR_BITS};

use crate::{
    maps::{
        MAJORS_OF_GPUS, OFFSET_FDT_FD, OFFSET_FDT_MAX, OFFSET_FILE_INODE, OFFSET_FILES_FDT,
        OFFSET_INODE_DEVICE, OFFSET_INODE_MODE, OFFSET_TASK_FILES, TYPE_FILE, TYPE_POINTER,
    },
    memory::{Memory, Typed, cast, load},
    task::Task,
};

/// The file type bits of an inode's mode, and the types of a socket and of a character device.
const S_IFMT: u16 = 0xf000;
const S_IFSOCK: u16 = 0xc000;
const S_IFCHR: u16 = 0x2000;

/// Kind of a descriptor's file, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum File {
    Socket,
    /// A device of a graphics processor's driver.
    Gpu,
    /// Anything else, or no open file.
    Other,
}

/// Whether any file can be a graphics processor's. Without one the verifier drops what asks further.
#[inline(always)]
pub(crate) fn may_be_gpu() -> bool {
    // SAFETY: the first of the array; volatile, so that it is read as the agent has written it.
    OFFSET_INODE_DEVICE.load() != 0 && unsafe { core::ptr::read_volatile(MAJORS_OF_GPUS.as_ptr()) } != 0
}

/// The kind of this descriptor of a task.
#[inline(always)]
pub(crate) fn of<M: Memory>(task: Task<M>, fd: u32) -> File {
    // SAFETY: a task and what it leads to, at offsets of members of these sizes that the agent resolved.
    let (array, files) = unsafe {
        let files = task.follow(&OFFSET_TASK_FILES);
        let table: *const u8 = load::<M, _>(files, &OFFSET_FILES_FDT);
        (load::<M, u64>(table, &OFFSET_FDT_FD), load::<M, u32>(table, &OFFSET_FDT_MAX))
    };
    if fd >= files {
        return File::Other;
    }
    let place = array + u64::from(fd) * 8;
    if M::IS_TYPED && TYPE_FILE.load() != 0 { by_casts(place) } else { by_helper::<M::Untyped>(place) }
}

/// The kind of the file that this entry of a table points to.
#[inline(always)]
fn by_casts(place: u64) -> File {
    // SAFETY: typed pointers, at offsets that the agent resolved. The first type begins with a pointer.
    unsafe {
        let file: u64 = Typed::read(cast(place, &TYPE_POINTER));
        by_inode::<Typed>(load::<Typed, _>(cast(file, &TYPE_FILE), &OFFSET_FILE_INODE))
    }
}

/// The same where the kernel has no such function.
#[inline(always)]
fn by_helper<M: Memory>(place: u64) -> File {
    // SAFETY: the BPF helper checks the memory that it reads; what cannot be read is 0.
    unsafe {
        let file: *const u8 = M::read(place as *const u8);
        by_inode::<M>(load::<M, _>(file, &OFFSET_FILE_INODE))
    }
}

/// # Safety
/// As for `load`.
#[inline(always)]
unsafe fn by_inode<M: Memory>(inode: *const u8) -> File {
    // SAFETY: the caller's; the agent resolved the offsets of a u16 and a u32.
    let mode: u16 = unsafe { load::<M, _>(inode, &OFFSET_INODE_MODE) };
    if mode & S_IFMT == S_IFSOCK {
        return File::Socket;
    }
    if mode & S_IFMT != S_IFCHR || OFFSET_INODE_DEVICE.load() == 0 {
        return File::Other;
    }
    // SAFETY: as above.
    let major = unsafe { load::<M, u32>(inode, &OFFSET_INODE_DEVICE) } >> MINOR_BITS;
    let mut index = 0;
    while index < GPU_MAJORS {
        // SAFETY: the index is inside the array; volatile, so that it is read as the agent has written it.
        let known = unsafe { core::ptr::read_volatile(MAJORS_OF_GPUS.as_ptr().add(index)) };
        if known != 0 && known == major {
            return File::Gpu;
        }
        index += 1;
    }
    File::Other
}
