//! Table: the hooks of family `net`, which count what threads send and receive.

use super::{Hook, tracepoint};

/// The accounts do not need them.
pub const HOOKS: &[Hook] = &[
    tracepoint!("sock_send_length", "what is sent over sockets, with its bytes", needed: false),
    tracepoint!("sock_recv_length", "what is received over sockets, with its bytes", needed: false),
    tracepoint!("tcp_retransmit_skb", "what TCP had to send again", needed: false),
    tracepoint!("tcp_destroy_sock", "when a socket is gone", needed: false),
];
