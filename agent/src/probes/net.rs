//! Table: the hooks of family `net`, which count what threads send and receive.

use super::{Hook, Place};

/// The time is charged without them.
pub const HOOKS: &[Hook] = &[
    Hook {
        id: "tp_btf/sock_send_length",
        program: "sock_send_length",
        place: Place::BtfTracepoint("sock_send_length"),
        purpose: "what is sent over sockets, with its bytes",
        is_needed: false,
    },
    Hook {
        id: "tp_btf/sock_recv_length",
        program: "sock_recv_length",
        place: Place::BtfTracepoint("sock_recv_length"),
        purpose: "what is received over sockets, with its bytes",
        is_needed: false,
    },
];
