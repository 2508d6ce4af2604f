//! Table: the hooks of family `net`, which count what threads send and receive.

use super::hook::{Hook, tracepoint};

/// The accounts do not need them.
pub const HOOKS: &[Hook] = &[
    tracepoint!("sock_send_length", "sends over sockets, with their bytes", needed: false),
    tracepoint!("sock_recv_length", "receives over sockets, with their bytes", needed: false),
    tracepoint!("tcp_retransmit_skb", "retransmissions of TCP", needed: false),
    tracepoint!("tcp_destroy_sock", "end of a socket", needed: false),
];
