//! Unix sockets: the watch of the path that one is bound to.

use core::arch::asm;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use guestscope_contract::connection::{PATH_BYTES, PATH_ROOM};

use crate::{
    maps::{HAS_PATHS, OFFSET_ADDRESS_BYTES, OFFSET_ADDRESS_NAME, OFFSET_UNIX_ADDRESS, PATHS},
    memory::{Memory, Plain},
};

/// `sun_family` stands before the path.
const FAMILY_BYTES: u32 = 2;

/// Address of a Unix socket's path: that of an accepted one is its listener's.
#[inline(always)]
pub(super) fn address(socket: *const u8) -> u64 {
    if OFFSET_UNIX_ADDRESS.load() == 0 {
        return 0;
    }
    // The member lies beyond the end of the type `sock`, so only the BPF helper can read it.
    // SAFETY: the BPF helper checks the memory; any eight bytes are a number.
    unsafe { Plain::read((socket as u64 + u64::from(OFFSET_UNIX_ADDRESS.load())) as *const u8) }
}

/// The number of the watch for a Unix socket's address; 0 if it is not watched.
///
/// A function for the same reasons as `socket_edge`, and so that the path is on the stack during the lookup
/// and not below the callees of `socket_edge`: 6.12 and earlier count both together, with a limit of 512
/// bytes.
#[unsafe(no_mangle)]
#[inline(never)]
pub(super) extern "C" fn socket_watch(address: u64) -> u64 {
    if HAS_PATHS.load() == 0 {
        return 0;
    }
    let mut path = [0_u8; PATH_ROOM];
    // SAFETY: the BPF helper checks the memory; as many bytes as the buffer has are read at most.
    unsafe {
        let bytes: u32 = Plain::read((address + u64::from(OFFSET_ADDRESS_BYTES.load())) as *const u8);
        let mut bytes = u64::from(bytes.wrapping_sub(FAMILY_BYTES));
        if bytes == 0 || bytes > PATH_BYTES as u64 {
            return 0;
        }
        // An empty instruction: without it the compiler sees that the mask below changes nothing and drops
        // it, and the verifier needs it as a bound.
        asm!("{bytes} = {bytes}", bytes = inout(reg) bytes, options(nomem, nostack));
        bytes &= PATH_ROOM as u64 - 1;
        let from = address + u64::from(OFFSET_ADDRESS_NAME.load() + FAMILY_BYTES);
        if bpf_probe_read_kernel(path.as_mut_ptr().cast(), bytes as u32, from as *const _) != 0 {
            return 0;
        }
        PATHS.get(path).map_or(0, |watch| u64::from(*watch))
    }
}
