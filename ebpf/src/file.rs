//! From a descriptor number to what it stands for, on the path of every blocking read and write.
//!
//! A table of files is an array behind a pointer, which the verifier lets nobody index but through a helper, and a
//! helper's read costs 19 ns (6.18, a virtual machine), of which it takes three. The kernel's `bpf_rdonly_cast` (6.2 and
//! later) makes a typed pointer of any address; the verifier turns its call into a move, and loads through it are single
//! instructions that read 0 where there is no memory. Nothing is kept between calls: a descriptor may be another file
//! the next time.

use aya_ebpf::helpers::bpf_probe_read_kernel;

use crate::{
    maps::{
        OFFSET_FDT_FD, OFFSET_FDT_MAX, OFFSET_FILE_INODE, OFFSET_FILES_FDT, OFFSET_INODE_MODE,
        OFFSET_TASK_FILES, TYPE_FILE, TYPE_POINTER,
    },
    task::{Task, cast, load},
};

/// The file type bits of an inode's mode, and the type of a socket.
const S_IFMT: u16 = 0xf000;
const S_IFSOCK: u16 = 0xc000;

/// Whether this descriptor of a task is a socket. A descriptor that is not open is none.
#[inline(always)]
pub(crate) fn is_socket(task: Task, fd: u32) -> bool {
    // SAFETY: a typed task and what its typed pointers lead to, at offsets of members of these sizes that the agent
    // resolved.
    let (array, files) = unsafe {
        let files = load::<*const u8>(task.0, &OFFSET_TASK_FILES);
        let table = load::<*const u8>(files, &OFFSET_FILES_FDT);
        (load::<u64>(table, &OFFSET_FDT_FD), load::<u32>(table, &OFFSET_FDT_MAX))
    };
    if fd >= files {
        return false;
    }
    let place = array + u64::from(fd) * 8;
    let mode = if TYPE_FILE.load() != 0 { mode_by_casts(place) } else { mode_by_helper(place) };
    mode & S_IFMT == S_IFSOCK
}

/// The inode's mode of the file that a place in a table points to; 0 if there is none.
#[inline(always)]
fn mode_by_casts(place: u64) -> u16 {
    // SAFETY: typed pointers, at offsets that the agent resolved. The first type begins with a pointer.
    unsafe {
        let file: u64 = core::ptr::read_volatile(cast(place, &TYPE_POINTER).cast());
        let inode: *const u8 = load(cast(file, &TYPE_FILE), &OFFSET_FILE_INODE);
        load(inode, &OFFSET_INODE_MODE)
    }
}

/// The same where the kernel has no such function.
#[inline(always)]
fn mode_by_helper(place: u64) -> u16 {
    // SAFETY: the helper checks the memory that it reads.
    unsafe {
        let Ok(file) = bpf_probe_read_kernel(place as *const u64) else { return 0 };
        let inode = bpf_probe_read_kernel((file + u64::from(OFFSET_FILE_INODE.load())) as *const u64);
        let Ok(inode) = inode else { return 0 };
        bpf_probe_read_kernel((inode + u64::from(OFFSET_INODE_MODE.load())) as *const u16).unwrap_or(0)
    }
}
