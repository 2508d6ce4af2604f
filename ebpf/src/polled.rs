//! Whether a thread that blocks in poll or ppoll waits for a graphics processor: by its descriptors, where no
//! function of a driver is followed.
//!
//! Yields a yes or no. The first descriptors of the array are looked at, which the thread has just handed to
//! the kernel. Sets of epoll are not: see decision 075.

use aya_ebpf::helpers::generated::bpf_probe_read_user;

use crate::{
    file::{self, File},
    memory::Memory,
    registers,
    task::Task,
};

/// Descriptors that are looked at. Each costs a read of the program's memory by a BPF helper, some 20 ns (as
/// measured of kernel memory in `file.rs`), and what a blocking `read` costs to know its file.
const MOST: u64 = 4;
/// Size of a `pollfd`, which begins with the descriptor.
const BYTES: u64 = 8;

/// The running task, which leaves its CPU, is in a 64-bit system call of this kind.
#[inline(always)]
pub(crate) fn is_gpu<M: Memory>(prev: Task<M>, call: u16) -> bool {
    if !file::may_be_gpu() {
        return false;
    }
    let array = registers::first_argument(prev, call);
    let polled = u64::from(registers::second_argument(prev) as u32);
    let mut index = 0;
    while index < MOST && index < polled {
        let mut descriptor = 0_u32;
        let place = array.wrapping_add(index * BYTES);
        // SAFETY: the number lives across the call, and its size is said; the BPF helper checks the address.
        let failed = unsafe {
            let bytes = size_of::<u32>() as u32;
            bpf_probe_read_user((&raw mut descriptor).cast(), bytes, place as *const _)
        };
        // A negative one is none: no table is so long.
        if failed == 0 && file::of(prev, descriptor) == File::Gpu {
            return true;
        }
        index += 1;
    }
    false
}
