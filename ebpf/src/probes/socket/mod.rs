//! Family `socket`: requests of any server, by the times of its connections' receives and sends.
//!
//! Hooks, all of them tp_btf or raw_tp, in place only where such requests are wanted: sk_data_ready (6.3 and
//! later) tells when something came, in any context; sock_recv_length and sock_send_length (6.3 and later)
//! which thread took it and which answered; inet_sock_set_state and tcp_destroy_sock when a connection is
//! over. Yields edges like the marker library's, without numbers: a request at the first receive after the
//! last send, and at each send an end that the next send takes back. Only lengths are read. Only connections
//! whose local end is watched are known: a connection that the server itself opened has another port.

mod edge;
mod known;
mod unix;

use aya_ebpf::helpers::bpf_ktime_get_ns;
use guestscope_contract::{
    Operation, WITH_INNER,
    connection::{MAY_GO_ON, MAY_GO_ON_ELSEWHERE, UNNAMED, WAS_NONE},
    framing::{Framing, Received, is_frame},
    ledger::Ledger,
};

use self::{
    edge::{socket_edge, tell_end},
    known::socket_known,
    unix::{address, socket_watch},
};
use crate::{
    connections::{ANSWERED, CONNECTIONS, Connection, IDLE, INET, INET6, LEFT, OPEN},
    maps::{
        HAS_ARRIVALS, HAS_PATHS, OFFSET_SOCK_FAMILY, OFFSET_SOCK_PORT, OFFSET_SOCK_PROTOCOL,
        OFFSET_SOCK_QUEUED, OFFSET_SOCK_STATE, PORTS,
    },
    memory::{Arguments, Memory, Plain, load, twins},
    peers,
    probes::goroutine::{goroutine_carries, has_left},
    taken::note,
    task::Current,
};

/// `MSG_PEEK`.
const PEEK: u32 = 2;
/// `AF_UNIX`.
const UNIX: u16 = 1;
/// `IPPROTO_TCP`.
const TCP: u16 = 6;
/// `TCP_ESTABLISHED`, of Unix sockets too, and `TCP_CLOSE_WAIT`: the other end has sent all it has to send.
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;
/// `TCP_FIN_WAIT1`, `TCP_LAST_ACK`, `TCP_CLOSE`: nothing is sent over it any more.
const FIN_WAIT1: u32 = 4;
const LAST_ACK: u32 = 9;
const CLOSE: u32 = 7;
/// `TCP_LISTEN`.
const LISTEN: u32 = 10;
/// Nothing came, or a signal: `EINTR`, `EAGAIN`, and the kernel's own numbers for restarted calls.
const EINTR: i32 = -4;
const EAGAIN: i32 = -11;
const RESTARTS: core::ops::RangeInclusive<i32> = -516..=-512;

twins! {
    socket_ready raw_socket_ready "sk_data_ready" ready;
    socket_received raw_socket_received "sock_recv_length" received;
    socket_sent raw_socket_sent "sock_send_length" sent;
    socket_closes raw_socket_closes "inet_sock_set_state" closes;
    socket_gone raw_socket_gone "tcp_destroy_sock" gone;
}

/// Something arrived.
#[inline(always)]
fn ready<C: Arguments>(ctx: &C) -> i32 {
    let socket: *const u8 = ctx.at(0);
    let Some(connection) = connection::<C::Memory>(socket) else { return 0 };
    // SAFETY: a value of a map, and a socket; the agent resolved the offset of a u32. The clock has no
    // preconditions.
    unsafe {
        // Over Unix sockets it may have been read by now.
        if (*connection).arrived_ns == 0 && load::<C::Memory, u32>(socket, &OFFSET_SOCK_QUEUED) != 0 {
            (*connection).arrived_ns = bpf_ktime_get_ns();
        }
    }
    0
}

#[inline(always)]
fn received<C: Arguments>(ctx: &C) -> i32 {
    let Some(ledger) = Current::new().ledger() else { return 0 };
    let (bytes, flags) = (ctx.at::<u64>(1) as i32, ctx.at::<u64>(2) as u32);
    if flags & PEEK != 0 || bytes == EAGAIN || bytes == EINTR || RESTARTS.contains(&bytes) {
        return 0;
    }
    let socket: *const u8 = ctx.at(0);
    if bytes <= 0 {
        over(socket as u64, ledger);
        return 0;
    }
    let Some(connection) = connection::<C::Memory>(socket) else { return 0 };
    // SAFETY: a value of a map, ledgers in map values, and a socket; the agent resolved the offset of a u32.
    unsafe {
        let arrived_ns = (*connection).arrived_ns;
        if arrived_ns != 0 && !is_frame(bytes) {
            (*connection).last_ns = arrived_ns;
        }
        if load::<C::Memory, u32>(socket, &OFFSET_SOCK_QUEUED) == 0 {
            (*connection).arrived_ns = 0;
        }
        let is_its = (*connection).tgid == (*ledger).tgid;
        let was_left = (*connection).state == LEFT && is_its;
        let is_open = (*connection).state == OPEN && is_its || was_left;
        match (*connection).framing.received(bytes, is_open) {
            Received::Frame => return 0,
            Received::Known => {
                if (*connection).state == ANSWERED && is_its {
                    (*connection).state = OPEN;
                }
                return 0;
            }
            Received::Instead if is_open && (*connection).watch != u32::from(UNNAMED) => {
                tell_end(ledger, connection, (*connection).state, WAS_NONE);
            }
            Received::Message if was_left => {
                (*connection).state = OPEN;
                take_over(ledger, connection);
                return 0;
            }
            Received::Message if is_open => return 0,
            Received::Instead | Received::Message => {}
        }
        let now_ns = bpf_ktime_get_ns();
        (*connection).state = OPEN;
        (*connection).carrier = 0;
        (*connection).tgid = (*ledger).tgid;
        (*connection).taken_ns = now_ns;
        let (slot, watch) = (u32::from((*ledger).slot), (*connection).watch);
        if HAS_ARRIVALS.load() != 0 {
            note(slot, connection, if arrived_ns == 0 { now_ns } else { arrived_ns });
        }
        if watch == u32::from(UNNAMED) {
            return 0;
        }
        let (slot, number) = (u32::from((*ledger).slot), (*connection).socket);
        socket_edge(slot, Operation::Request as u32, number, (*connection).watch, arrived_ns);
        goroutine_carries(slot, number);
    }
    0
}

/// The request of this connection, which is on no thread, goes on on the running one.
///
/// # Safety
/// The connection must be a value of the map, and the ledger the running thread's.
#[inline(always)]
unsafe fn take_over(ledger: *const Ledger, connection: *const Connection) {
    // SAFETY: the caller's: values of maps.
    unsafe {
        if (*connection).watch != u32::from(UNNAMED) {
            let (slot, number) = (u32::from((*ledger).slot), (*connection).socket);
            socket_edge(slot, Operation::Enter as u32 | (WITH_INNER as u32) << 8, number, 0, 0);
            goroutine_carries(slot, number);
        }
    }
}

#[inline(always)]
fn sent<C: Arguments>(ctx: &C) -> i32 {
    let Some(ledger) = Current::new().ledger() else { return 0 };
    let (socket, bytes): (*const u8, i32) = (ctx.at(0), ctx.at::<u64>(1) as i32);
    if bytes <= 0 {
        return 0;
    }
    let Some(connection) = CONNECTIONS.get_ptr_mut(socket as u64) else { return 0 };
    // SAFETY: as above.
    unsafe {
        let state = (*connection).state;
        if state == IDLE || (*connection).tgid != (*ledger).tgid || !is_same::<C::Memory>(socket, connection)
        {
            return 0;
        }
        if !(*connection).framing.sent(bytes) {
            if (*connection).framing.is_doubtful() {
                (*connection).state = OPEN;
            }
            return 0;
        }
        if !is_frame(bytes) {
            (*connection).last_ns = 0;
        }
        (*connection).state = ANSWERED;
        if (*connection).watch == u32::from(UNNAMED) {
            return 0;
        }
        let is_elsewhere = state == ANSWERED && has_left((*ledger).slot, (*connection).socket);
        tell_end(ledger, connection, state, if is_elsewhere { MAY_GO_ON_ELSEWHERE } else { MAY_GO_ON });
    }
    0
}

/// A tracked thread listens: its port is watched from now on, if it is not watched by name.
#[inline(always)]
fn listens<M: Memory>(socket: *const u8) {
    if OFFSET_SOCK_PORT.load() == 0 {
        return;
    }
    // SAFETY: a socket, at the offset of a u16 that the agent resolved; eight bytes of a map value, and the
    // index is at most 7.
    unsafe {
        let port = load::<M, u16>(socket, &OFFSET_SOCK_PORT);
        let Some(watches) = PORTS.get_ptr_mut(u32::from(port >> 3)) else { return };
        let watch = watches.cast::<u8>().add((port & 7) as usize);
        if core::ptr::read_volatile(watch) == 0 {
            core::ptr::write_volatile(watch, UNNAMED);
        }
    }
}

/// Only in the server's own context is the edge's thread known.
#[inline(always)]
fn closes<C: Arguments>(ctx: &C) -> i32 {
    let state = ctx.at::<u64>(2) as u32;
    if state == FIN_WAIT1 || state == LAST_ACK || state == CLOSE {
        let Some(ledger) = Current::new().ledger() else { return 0 };
        over(ctx.at::<u64>(0), ledger);
    } else if state == LISTEN && HAS_ARRIVALS.load() != 0 && Current::new().ledger().is_some() {
        listens::<C::Memory>(ctx.at(0));
    }
    0
}

#[inline(always)]
fn gone<C: Arguments>(ctx: &C) -> i32 {
    let socket: u64 = ctx.at(0);
    if let Some(ledger) = Current::new().ledger() {
        over(socket, ledger);
    }
    peers::forget(socket);
    let _ = CONNECTIONS.remove(socket);
    0
}

/// A connection is over, as far as the running thread's process goes.
#[inline(always)]
fn over(socket: u64, ledger: *mut Ledger) {
    let Some(connection) = CONNECTIONS.get_ptr_mut(socket) else { return };
    // SAFETY: values of maps.
    unsafe {
        // Another socket may be in the same memory next.
        let framing = (*connection).framing;
        (*connection).framing = Framing::default();
        let state = (*connection).state;
        if state == IDLE || (*connection).tgid != (*ledger).tgid {
            return;
        }
        (*connection).state = IDLE;
        if (*connection).watch == u32::from(UNNAMED) {
            return;
        }
        let third = if framing.is_doubtful() { WAS_NONE } else { 0 };
        tell_end(ledger, connection, state, third);
    }
}

/// The connection of a socket whose own end is watched, known from now on.
#[inline(always)]
fn connection<M: Memory>(socket: *const u8) -> Option<*mut Connection> {
    if OFFSET_SOCK_FAMILY.load() == 0 || OFFSET_SOCK_QUEUED.load() == 0 || OFFSET_SOCK_PROTOCOL.load() == 0 {
        return None;
    }
    // SAFETY: a socket, at offsets of two u16 and a u8 that the agent resolved.
    let (family, port) =
        unsafe { (load::<M, u16>(socket, &OFFSET_SOCK_FAMILY), load::<M, u16>(socket, &OFFSET_SOCK_PORT)) };
    let (end, watch);
    if family == INET || family == INET6 {
        let watches = PORTS.get_ptr(u32::from(port >> 3))?;
        // SAFETY: eight bytes of a map value, and the index is at most 7.
        watch = u32::from(unsafe { core::ptr::read_volatile(watches.cast::<u8>().add((port & 7) as usize)) });
        // SAFETY: as above.
        if watch == 0 || unsafe { load::<M, u16>(socket, &OFFSET_SOCK_PROTOCOL) } != TCP {
            return None;
        }
        end = u64::from(port);
    } else if family == UNIX && HAS_PATHS.load() != 0 {
        end = address(socket);
        if end == 0 {
            return None;
        }
        watch = 0;
    } else {
        return None;
    }
    // SAFETY: as above.
    let state = unsafe { load::<M, u8>(socket, &OFFSET_SOCK_STATE) };
    if state != ESTABLISHED && state != CLOSE_WAIT {
        return None;
    }
    if let Some(known) = CONNECTIONS.get_ptr_mut(socket as u64) {
        // SAFETY: a value of a map.
        if unsafe { (*known).end } == end {
            return Some(known);
        }
    }
    let watch = if watch == 0 { socket_watch(end) as u32 } else { watch };
    if watch == 0 {
        return None;
    }
    let peer = peers::port::<M>(socket, family);
    // Read back it is a number; 6.12 accepts no pointer in place of one as the argument of a function.
    let held = socket;
    // SAFETY: eight bytes of this program's stack.
    let number: u64 = unsafe { Plain::read((&raw const held).cast()) };
    socket_known(number, end, watch, peer as u32);
    CONNECTIONS.get_ptr_mut(socket as u64)
}

/// Whether the socket is still the known one.
///
/// # Safety
/// It must be a socket, and a value of the map.
#[inline(always)]
unsafe fn is_same<M: Memory>(socket: *const u8, known: *const Connection) -> bool {
    // SAFETY: the caller's; the agent resolved the offsets.
    unsafe {
        let end = if load::<M, u16>(socket, &OFFSET_SOCK_FAMILY) == UNIX {
            address(socket)
        } else {
            u64::from(load::<M, u16>(socket, &OFFSET_SOCK_PORT))
        };
        (*known).end == end
    }
}

const _: () = assert!(size_of::<Connection>() == 64);
