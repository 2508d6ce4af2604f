//! Family `net`: what a thread sends and receives over sockets of any kind.
//!
//! Hooks: tp_btf or raw_tp sock_send_length and sock_recv_length (6.3 and later), in the context of the caller. Yields counts and bytes
//! in its ledger. A look at what has come (`MSG_PEEK`) and a failure count as nothing. It charges no time: that is account
//! `net`.

use crate::{
    beside,
    memory::{Arguments, twins},
    task::Current,
};

/// `MSG_PEEK`.
const PEEK: u32 = 2;

twins! {
    sock_send_length raw_sock_send_length "sock_send_length" sent;
    sock_recv_length raw_sock_recv_length "sock_recv_length" received;
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
    0
}
