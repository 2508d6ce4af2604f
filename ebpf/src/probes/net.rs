//! Family `net`: traffic of a thread over sockets of any kind, and over TCP the time until answers.
//!
//! Hooks, all of them tp_btf or raw_tp: sock_send_length and sock_recv_length (6.3 and later), in the context
//! of the caller, yield counts and bytes in its ledger. A peek (`MSG_PEEK`) and a failure count as nothing.
//! They charge no time: that is account `net`.
//!
//! A TCP socket is known from the first send of a tracked thread on, with the time of the last one. The first
//! receive after it, by the same thread, is its answer, unless a request of the program began or ended in
//! between: what a server waits for is the next question. tcp_retransmit_skb runs in timers and interrupts,
//! and finds the data's sender by the socket. tcp_destroy_sock forgets the socket, whose memory the kernel
//! uses again. The end of other sockets is not seen, so none is kept.

use core::arch::asm;

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::map, maps::LruHashMap};
use guestscope_contract::ledger::Ledger;

use crate::{
    beside,
    maps::{
        BESIDE, HAS_RETRANSMIT_ERROR, LEDGERS, OFFSET_SOCK_PROTOCOL, OFFSET_SOCK_TYPE, OFFSET_TCP_RTT_MIN,
        OUTSIDE,
    },
    memory::{Arguments, Memory, Plain, load, twins},
    task::Current,
};

/// `MSG_PEEK`.
const PEEK: u32 = 2;
/// `SOCK_STREAM`.
const STREAM: u16 = 1;
/// `IPPROTO_TCP`.
const TCP: u16 = 6;
/// Offset of the value in a sample of the kernel's running minimum, behind its time.
const SAMPLE_VALUE: u32 = 4;

/// A TCP socket that a tracked thread has sent over. Written without a lock: of two threads that send at one
/// instant the numbers may mix, and match neither thread then.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Socket {
    /// Time of the last send; 0 once something was received.
    sent_ns: u64,
    /// The stretch of its thread's life at the send.
    stretch: u64,
    /// Birth of the sending thread.
    born_ns: u64,
    slot: u64,
}

/// A socket that is evicted costs an answer and its retransmissions.
const SOCKETS_MOST: u32 = 4096;

/// TCP sockets that tracked threads have sent over, by their addresses; when full the least recently used one
/// goes.
#[map]
static SOCKETS: LruHashMap<u64, Socket> = LruHashMap::with_max_entries(SOCKETS_MOST, 0);

twins! {
    sock_send_length raw_sock_send_length "sock_send_length" sent;
    sock_recv_length raw_sock_recv_length "sock_recv_length" received;
    tcp_retransmit_skb raw_tcp_retransmit_skb "tcp_retransmit_skb" sent_again;
    tcp_destroy_sock raw_tcp_destroy_sock "tcp_destroy_sock" destroyed;
}

#[inline(always)]
fn sent<C: Arguments>(ctx: &C) -> i32 {
    let Some(ledger) = Current::new().ledger() else { return 0 };
    let bytes = ctx.at::<u64>(1) as i32;
    if bytes < 0 {
        return 0;
    }
    // SAFETY: a ledger in a map value; its own thread runs this program.
    unsafe {
        (*ledger).net_sends = (*ledger).net_sends.wrapping_add(1);
        (*ledger).net_send_bytes = (*ledger).net_send_bytes.wrapping_add(u64::from(bytes.cast_unsigned()));
    }
    let socket: *const u8 = ctx.at(0);
    if bytes > 0 && is_tcp::<C::Memory>(socket) {
        asked(socket as u64, ledger);
    }
    0
}

#[inline(always)]
fn received<C: Arguments>(ctx: &C) -> i32 {
    let Some(ledger) = Current::new().ledger() else { return 0 };
    let (bytes, flags) = (ctx.at::<u64>(1) as i32, ctx.at::<u64>(2) as u32);
    if bytes < 0 || flags & PEEK != 0 {
        return 0;
    }
    // SAFETY: as above.
    unsafe {
        (*ledger).net_recvs = (*ledger).net_recvs.wrapping_add(1);
        (*ledger).net_recv_bytes = (*ledger).net_recv_bytes.wrapping_add(u64::from(bytes.cast_unsigned()));
        beside::received(&mut *ledger);
    }
    let socket: *const u8 = ctx.at(0);
    if is_tcp::<C::Memory>(socket) {
        answered(socket as u64, ledger, bytes > 0);
    }
    0
}

/// Whether it is a TCP socket; false if unknown.
#[inline(always)]
fn is_tcp<M: Memory>(socket: *const u8) -> bool {
    if OFFSET_SOCK_PROTOCOL.load() == 0 || OFFSET_SOCK_TYPE.load() == 0 {
        return false;
    }
    // SAFETY: a socket, at the offsets of two u16 that the agent resolved.
    unsafe {
        load::<M, u16>(socket, &OFFSET_SOCK_PROTOCOL) == TCP
            && load::<M, u16>(socket, &OFFSET_SOCK_TYPE) == STREAM
    }
}

/// The present stretch of the life of this ledger's thread.
#[inline(always)]
fn stretch(ledger: *const Ledger) -> u64 {
    // SAFETY: a ledger in a map value.
    match OUTSIDE.get_ptr(u32::from(unsafe { (*ledger).slot })) {
        // SAFETY: what belongs to the same slot, which only edges of its own thread write.
        Some(outside) => unsafe { (*outside).stretch() },
        None => 0,
    }
}

/// The running thread has sent something.
#[inline(always)]
fn asked(socket: u64, ledger: *const Ledger) {
    // SAFETY: a ledger in a map value; the BPF helper has no preconditions.
    let asked = unsafe {
        Socket {
            sent_ns: bpf_ktime_get_ns(),
            stretch: stretch(ledger),
            born_ns: (*ledger).born_ns,
            slot: u64::from((*ledger).slot),
        }
    };
    match SOCKETS.get_ptr_mut(socket) {
        // SAFETY: a value of a map.
        Some(known) => unsafe { *known = asked },
        // When the map is full, the least recently used entry is evicted.
        None => {
            let _ = SOCKETS.insert(socket, asked, 0);
        }
    }
}

/// The running thread has received something, or the end.
#[inline(always)]
fn answered(address: u64, ledger: *const Ledger, is_answer: bool) {
    let Some(socket) = SOCKETS.get_ptr_mut(address) else { return };
    // SAFETY: values of maps; the thread's own part of its traffic is written by itself alone.
    unsafe {
        let sent_ns = (*socket).sent_ns;
        if sent_ns == 0 {
            return;
        }
        (*socket).sent_ns = 0;
        let is_own = (*socket).born_ns == (*ledger).born_ns && (*socket).stretch == stretch(ledger);
        let Some(beside) = BESIDE.get_ptr_mut(u32::from((*ledger).slot)) else { return };
        if !is_answer || !is_own {
            return;
        }
        let traffic = &raw mut (*beside).traffic;
        (*traffic).responses = (*traffic).responses.wrapping_add(1);
        let took_ns = bpf_ktime_get_ns().wrapping_sub(sent_ns);
        (*traffic).response_ns = (*traffic).response_ns.wrapping_add(took_ns);
        (*traffic).round_trip_ns = (*traffic).round_trip_ns.wrapping_add(round_trip_ns(address));
    }
}

/// The shortest round trip that TCP has lately seen; 0 before the first.
#[inline(always)]
fn round_trip_ns(socket: u64) -> u64 {
    if OFFSET_TCP_RTT_MIN.load() == 0 {
        return 0;
    }
    let place = socket + u64::from(OFFSET_TCP_RTT_MIN.load() + SAMPLE_VALUE);
    // The member lies beyond the end of the type `sock`, so only the BPF helper can read it: once an answer.
    // SAFETY: the BPF helper checks the memory; any four bytes are a number.
    let us: u32 = unsafe { Plain::read(place as *const u8) };
    if us == u32::MAX { 0 } else { u64::from(us) * 1000 }
}

#[inline(always)]
fn sent_again<C: Arguments>(ctx: &C) -> i32 {
    // Still in the host's own queue, or no memory or no route for it: nothing was sent.
    if HAS_RETRANSMIT_ERROR.load() != 0 && ctx.word::<2>() as i32 != 0 {
        return 0;
    }
    let Some(socket) = SOCKETS.get_ptr(ctx.at::<u64>(0)) else { return 0 };
    // SAFETY: values of maps, and the ledger is only looked at.
    unsafe {
        let slot = (*socket).slot as u32;
        let Some(ledger) = LEDGERS.get_ptr(slot) else { return 0 };
        // The slot may be another thread's by now.
        if (*ledger).born_ns == (*socket).born_ns
            && let Some(beside) = BESIDE.get_ptr_mut(slot)
        {
            add_one(&raw mut (*beside).traffic.retransmits);
        }
    }
    0
}

/// Adds one to a number that other CPUs may be adding to.
///
/// # Safety
/// The number must lie in a map value, aligned.
#[inline(always)]
unsafe fn add_one(number: *mut u32) {
    // SAFETY: the caller's.
    unsafe {
        asm!("lock *(u32 *)({number} + 0) += {one}", number = in(reg) number, one = in(reg) 1_u64, options(nostack));
    }
}

#[inline(always)]
fn destroyed<C: Arguments>(ctx: &C) -> i32 {
    let _ = SOCKETS.remove(ctx.at::<u64>(0));
    0
}
