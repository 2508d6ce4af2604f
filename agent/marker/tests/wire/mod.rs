//! An edge as a tracer sees it, and a form of it that a test can spell out.
//! It deliberately decodes the arguments by itself, from the table in README.md, and not with the library's
//! code.
#![allow(dead_code, reason = "each test reads what it is about")]

use guestscope_marker::token;

/// One firing of the probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) thread: i32,
    /// The probe's six arguments.
    pub(crate) arguments: [u64; 6],
    /// For the operations that carry a name: its first 64 bytes, and whether all their pages were resident.
    pub(crate) name: String,
    pub(crate) name_resident: bool,
}

impl Edge {
    pub(crate) fn operation(&self) -> u64 {
        self.arguments[0] & 0xff
    }

    pub(crate) fn version(&self) -> u64 {
        self.arguments[0] >> 8 & 0xff
    }

    pub(crate) fn instance(&self) -> u64 {
        self.arguments[0] >> 16 & 0xffff
    }

    pub(crate) fn number(&self) -> u64 {
        self.arguments[0] >> 32
    }

    pub(crate) fn token(&self) -> u64 {
        self.arguments[1]
    }
}

/// Edges for people: operation, token as root.child (roots counted from the thread's first), what else it
/// carries. A child number from the half that moved roots use is `moved`: other threads share its counter.
pub(crate) fn script(edges: &[Edge]) -> Vec<String> {
    let number = |token: u64| token::root(token) >> token::CHILD_BITS;
    let first = edges.iter().find(|edge| edge.token() != 0).map_or(0, |edge| number(edge.token()));
    let short = |token: u64| match (token, token & 0x3_ffff) {
        (0, _) => "0".to_owned(),
        (_, child) if child >= 1 << 17 => format!("{}.moved", 1 + number(token) - first),
        (_, child) => format!("{}.{child}", 1 + number(token) - first),
    };
    let joined =
        |how: &str, token: u64| if token == 0 { String::new() } else { format!("{how} {}", short(token)) };
    let line = |edge: &Edge| {
        let [_, token, a2, a3, a4, a5] = edge.arguments;
        let (token, name) = (short(token), &edge.name);
        match edge.operation() {
            1 => format!("begin {token} {name} {a4}") + &joined(" joins", a5),
            2 => format!("request {token} {name} {a4} {a5}"),
            3 => format!("end {token}") + &joined(" with", a3),
            4 => format!("leave {token}"),
            5 => format!("enter {token}"),
            6 if a5 == 1 => format!("parent {token} {a2:x} {a3:x} {a4:x}"),
            6 => format!("context {token} {a2:x} {a3:x} {a4:x}"),
            7 => format!("identity {token}"),
            8 => format!("mark {token} {name}"),
            other => format!("unknown {other}"),
        }
    };
    edges.iter().map(line).collect()
}
