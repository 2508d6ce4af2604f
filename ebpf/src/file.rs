//! From a descriptor number to what it stands for, on the path of every blocking read and write.
//!
//! A table of files is an array behind a pointer, which the verifier lets nobody index but through a helper, and a
//! helper's read costs 19 ns (6.18, a virtual machine), of which it takes three. The kernel's `bpf_rdonly_cast` (6.2 and
//! later) makes a typed pointer of any address; the verifier turns its call into a move, and loads through it are single
//! instructions that read 0 where there is no memory. Nothing is kept between calls: a descriptor may be another file
//! the next time.

use crate::{
    maps::{
        OFFSET_FDT_FD, OFFSET_FDT_MAX, OFFSET_FILE_INODE, OFFSET_FILES_FDT, OFFSET_INODE_MODE,
        OFFSET_TASK_FILES, TYPE_FILE, TYPE_POINTER,
    },
    memory::{Memory, Plain, Typed, cast, load},
    task::Task,
};

/// The file type bits of an inode's mode, and the type of a socket.
const S_IFMT: u16 = 0xf000;
const S_IFSOCK: u16 = 0xc000;

/// Whether this descriptor of a task is a socket. A descriptor that is not open is none.
#[inline(always)]
pub(crate) fn is_socket<M: Memory>(task: Task<M>, fd: u32) -> bool {
    // SAFETY: a task and what it leads to, at offsets of members of these sizes that the agent resolved.
    let (array, files) = unsafe {
        let files: *const u8 = task.load(&OFFSET_TASK_FILES);
        let table: *const u8 = load::<M, _>(files, &OFFSET_FILES_FDT);
        (load::<M, u64>(table, &OFFSET_FDT_FD), load::<M, u32>(table, &OFFSET_FDT_MAX))
    };
    if fd >= files {
        return false;
    }
    let place = array + u64::from(fd) * 8;
    let mode =
        if M::IS_TYPED && TYPE_FILE.load() != 0 { mode_by_casts(place) } else { mode_by_helper(place) };
    mode & S_IFMT == S_IFSOCK
}

/// The inode's mode of the file that a place in a table points to; 0 if there is none.
#[inline(always)]
fn mode_by_casts(place: u64) -> u16 {
    // SAFETY: typed pointers, at offsets that the agent resolved. The first type begins with a pointer.
    unsafe {
        let file: u64 = Typed::read(cast(place, &TYPE_POINTER));
        let inode: *const u8 = load::<Typed, _>(cast(file, &TYPE_FILE), &OFFSET_FILE_INODE);
        load::<Typed, _>(inode, &OFFSET_INODE_MODE)
    }
}

/// The same where the kernel has no such function.
#[inline(always)]
fn mode_by_helper(place: u64) -> u16 {
    // SAFETY: the helper checks the memory that it reads; what cannot be read is 0.
    unsafe {
        let file: *const u8 = Plain::read(place as *const u8);
        let inode: *const u8 = load::<Plain, _>(file, &OFFSET_FILE_INODE);
        load::<Plain, _>(inode, &OFFSET_INODE_MODE)
    }
}
