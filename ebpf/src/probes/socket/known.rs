//! A connection becomes known.

use guestscope_contract::framing::Framing;

use crate::{
    connections::{CONNECTIONS, Connection, IDLE},
    peers,
};

/// Notes a connection with its server's end, its watch and its client's port.
///
/// A function of its own for the stack, as `socket_watch` is: it has returned before an edge is handed over.
#[unsafe(no_mangle)]
#[inline(never)]
pub(super) extern "C" fn socket_known(socket: u64, end: u64, watch: u32, peer: u32) -> u64 {
    let peer = u64::from(peer);
    let [arrived_ns, taken_ns, last_ns] = [0; 3];
    let framing = Framing::default();
    let new = Connection {
        arrived_ns,
        taken_ns,
        last_ns,
        end,
        tgid: 0,
        state: IDLE,
        carrier: 0,
        watch,
        framing,
        socket,
        peer,
    };
    if CONNECTIONS.insert(socket, new, 0).is_ok() {
        peers::note(socket, peer);
    }
    0
}
