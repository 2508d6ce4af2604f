//! Connections by the ports of their remote ends: a program that receives on one thread and serves on another
//! knows at least its client.

use crate::{
    connections::{CONNECTIONS, INET, INET6},
    maps::{HAS_ARRIVALS, LEDGERS, OFFSET_SOCK_PEER, PEERS},
    memory::{Memory, load},
};

/// The port of a socket's other end; 0 where it has none or it is not needed.
#[inline(always)]
pub(crate) fn port<M: Memory>(socket: *const u8, family: u16) -> u64 {
    if HAS_ARRIVALS.load() == 0 || OFFSET_SOCK_PEER.load() == 0 || (family != INET && family != INET6) {
        return 0;
    }
    // SAFETY: a socket, at the offset of a u16 that the agent resolved.
    u64::from(u16::from_be(unsafe { load::<M, u16>(socket, &OFFSET_SOCK_PEER) }))
}

/// Adds a connection. Of two with the same remote port, neither can be identified.
#[inline(always)]
pub(crate) fn note(socket: u64, peer: u64) {
    if peer == 0 {
        return;
    }
    let peer = peer as u32;
    let mut value = socket;
    // SAFETY: a value of a map, copied.
    if let Some(other) = unsafe { PEERS.get(peer).copied() }
        && other != socket
        && (other == 0 || CONNECTIONS.get_ptr(other).is_some())
    {
        value = 0;
    }
    let _ = PEERS.insert(peer, value, 0);
}

/// A socket is gone.
#[inline(always)]
pub(crate) fn forget(socket: u64) {
    let Some(connection) = CONNECTIONS.get_ptr(socket) else { return };
    // SAFETY: a value of a map.
    let peer = unsafe { (*connection).peer };
    // SAFETY: a value of a map, copied.
    if peer != 0 && unsafe { PEERS.get(peer as u32).copied() } == Some(socket) {
        let _ = PEERS.remove(peer as u32);
    }
}

/// Arrival of the last bytes that were received over a connection; 0 if unknown. A request is served no
/// earlier than it was received, so it came no later than this.
#[inline(always)]
pub(crate) fn arrival(slot: u32, peer: u32) -> u64 {
    let Some(ledger) = LEDGERS.get_ptr(slot) else { return 0 };
    // SAFETY: values of maps.
    unsafe {
        let Some(socket) = PEERS.get(peer).copied() else { return 0 };
        let Some(connection) = CONNECTIONS.get_ptr(socket) else { return 0 };
        let is_its = (*connection).tgid == (*ledger).tgid && (*connection).peer == u64::from(peer);
        if is_its { (*connection).last_ns } else { 0 }
    }
}
