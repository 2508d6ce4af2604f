//! Requests that a thread has taken from connections, until the program marks them itself.

use aya_ebpf::{macros::map, maps::Array};
use guestscope_contract::{SLOTS, connection::TAKEN as TAKEN_MOST};

use crate::{
    connections::{CONNECTIONS, Connection, OPEN},
    peers,
};

/// A power of two, since it is also a mask.
const ENTRIES: u32 = TAKEN_MOST;

/// Requests that a thread has taken, the oldest first, from the present one on.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Taken {
    /// Counts of noted requests, and of those that have had their turn. Both wrap.
    noted: u32,
    turned: u32,
    /// Socket, time of taking, and arrival.
    entries: [[u64; 3]; TAKEN_MOST as usize],
}

/// Slot to the connections from which its thread has taken something.
#[map]
static TAKEN: Array<Taken> = Array::with_max_entries(SLOTS, 0);

/// The running thread has taken a request, which the program's next mark on it may mean. When there are too
/// many the oldest is forgotten.
///
/// # Safety
/// The connection must be a value of the map.
#[inline(always)]
pub(crate) unsafe fn note(slot: u32, connection: *const Connection, arrived_ns: u64) {
    // SAFETY: values of maps, the first of which the thread of the slot alone writes; the mask keeps the
    // index inside.
    unsafe {
        let Some(taken) = TAKEN.get_ptr_mut(slot) else { return };
        let noted = (*taken).noted;
        let entry = (&raw mut (*taken).entries).cast::<[u64; 3]>().add((noted & (ENTRIES - 1)) as usize);
        core::ptr::write_volatile(entry.cast(), (*connection).socket);
        core::ptr::write_volatile(entry.cast::<u64>().add(1), (*connection).taken_ns);
        core::ptr::write_volatile(entry.cast::<u64>().add(2), arrived_ns);
        (*taken).noted = noted.wrapping_add(1);
        if noted.wrapping_sub((*taken).turned) >= ENTRIES {
            (*taken).turned = noted.wrapping_sub(ENTRIES - 1);
        }
    }
}

/// The program marks the start of a request on the thread of this slot: returns the arrival of the oldest
/// request that the thread has taken and that has no answer; 0 if there is none. With the port of the
/// connection's other end: the last arrival over that connection, on any thread of the process.
///
/// A function for the same reasons as `socket_edge`.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn socket_arrival(slot: u32, peer: u32) -> u64 {
    if peer != 0 {
        return peers::arrival(slot, peer);
    }
    let Some(taken) = TAKEN.get_ptr_mut(slot) else { return 0 };
    let mut turn = 0;
    while turn < ENTRIES {
        turn += 1;
        // SAFETY: as in `note`.
        unsafe {
            let turned = (*taken).turned;
            if turned == (*taken).noted {
                return 0;
            }
            (*taken).turned = turned.wrapping_add(1);
            let entry =
                (&raw const (*taken).entries).cast::<[u64; 3]>().add((turned & (ENTRIES - 1)) as usize);
            let [socket, taken_ns, arrived_ns] = [
                core::ptr::read_volatile(entry.cast::<u64>()),
                core::ptr::read_volatile(entry.cast::<u64>().add(1)),
                core::ptr::read_volatile(entry.cast::<u64>().add(2)),
            ];
            if let Some(connection) = CONNECTIONS.get_ptr(socket)
                && (*connection).state == OPEN
                && (*connection).taken_ns == taken_ns
            {
                // With many requests on a connection, the last one's arrival counts.
                let last_ns = (*connection).last_ns;
                return if last_ns > arrived_ns { last_ns } else { arrived_ns };
            }
        }
    }
    0
}
