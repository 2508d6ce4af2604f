//! Connections to watched ports and paths, and what is known of each.

use aya_ebpf::{macros::map, maps::LruHashMap};
use guestscope_contract::{connection::CONNECTIONS_MOST, framing::Framing};

/// `AF_INET`, `AF_INET6`.
pub(crate) const INET: u16 = 2;
pub(crate) const INET6: u16 = 10;

/// Between requests.
pub(crate) const IDLE: u16 = 0;
/// Something was received and nothing sent since.
pub(crate) const OPEN: u16 = 1;
/// Something was sent since.
pub(crate) const ANSWERED: u16 = 2;
/// Something was received by a goroutine that has ended, and nothing sent since: the next goroutine or thread
/// of the process that receives more of the request has it then.
pub(crate) const LEFT: u16 = 3;

/// State of a socket's request, if this process has received one over it; else [`IDLE`].
#[inline(always)]
pub(crate) fn state(socket: u64, tgid: u32) -> u16 {
    let Some(connection) = CONNECTIONS.get_ptr(socket) else { return IDLE };
    // SAFETY: a value of a map.
    unsafe {
        if core::ptr::read_volatile(&raw const (*connection).tgid) != tgid {
            return IDLE;
        }
        core::ptr::read_volatile(&raw const (*connection).state)
    }
}

/// The goroutine with this element of calls has received a socket's request.
#[inline(always)]
pub(crate) fn carries(socket: u64, carrier: u64) {
    if let Some(connection) = CONNECTIONS.get_ptr_mut(socket) {
        // SAFETY: a value of a map.
        unsafe { core::ptr::write_volatile(&raw mut (*connection).carrier, carrier as u16) };
    }
}

/// The goroutine with this element of calls ends: if it has received the socket's last request, and nobody
/// has answered, that is left.
#[inline(always)]
pub(crate) fn leave(socket: u64, tgid: u32, carrier: u64) {
    let Some(connection) = CONNECTIONS.get_ptr_mut(socket) else { return };
    // SAFETY: a value of a map.
    unsafe {
        let is_its = (*connection).tgid == tgid && (*connection).carrier == carrier as u16;
        if is_its && (*connection).state == OPEN {
            core::ptr::write_volatile(&raw mut (*connection).state, LEFT);
        }
    }
}

/// A connection to a watched port or path. Its own end is the server's. The thread that receives or sends
/// writes it; arrivals are noted under the socket's lock.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Connection {
    /// Arrival of the first unread bytes; 0 for none.
    pub(crate) arrived_ns: u64,
    /// Time at which its request was taken.
    pub(crate) taken_ns: u64,
    /// Arrival of the first bytes of the last receive, until there is an answer; 0 for none.
    pub(crate) last_ns: u64,
    /// Port, or address of the path: a change means another socket in the same memory.
    pub(crate) end: u64,
    /// The process with its request.
    pub(crate) tgid: u32,
    pub(crate) state: u16,
    /// Element of the calls of the goroutine that received its request; 0 for none.
    pub(crate) carrier: u16,
    pub(crate) watch: u32,
    pub(crate) framing: Framing,
    /// Address of its socket. Read from here it is a number to the verifier, which allows arithmetic.
    pub(crate) socket: u64,
    /// The other end's port; 0 for none.
    pub(crate) peer: u64,
}

/// Connections to watched ports and paths, by the addresses of their sockets; when full the least recently
/// used one goes. Sized by the agent, as are the next maps: one element where no requests are wanted.
#[map]
pub(crate) static CONNECTIONS: LruHashMap<u64, Connection> =
    LruHashMap::with_max_entries(CONNECTIONS_MOST, 0);
