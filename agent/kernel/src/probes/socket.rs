//! Table: the hooks of family `socket`, attached only where requests shall be known by their sockets.

use super::hook::{Hook, Place, Twin};

/// A tracepoint's hook, with its twin; `id` differs where another family has a hook there as well.
macro_rules! hook {
    ($name:literal, $id:literal, $program:literal, $purpose:literal) => {
        Hook {
            id: concat!("tp_btf/", $id),
            program: $program,
            place: Place::BtfTracepoint($name),
            purpose: $purpose,
            is_needed: false,
            twin: Some(Twin { id: concat!("raw_tp/", $id), program: concat!("raw_", $program) }),
            classic: None,
        }
    };
}

/// The ledgers do not need them.
pub const HOOKS: &[Hook] = &[
    hook!("sk_data_ready", "sk_data_ready", "socket_ready", "time when a request arrived"),
    hook!(
        "sock_recv_length",
        "sock_recv_length/requests",
        "socket_received",
        "starts of requests, by connection (--requests)"
    ),
    hook!(
        "sock_send_length",
        "sock_send_length/requests",
        "socket_sent",
        "ends of requests, by connection (--requests)"
    ),
    hook!(
        "inet_sock_set_state",
        "inet_sock_set_state",
        "socket_closes",
        "ends of connections with --requests"
    ),
    hook!(
        "tcp_destroy_sock",
        "tcp_destroy_sock/requests",
        "socket_gone",
        "the same, if the client closed them"
    ),
];
