//! What a marker says at an edge.

/// Operation of the marker library at an edge (bits 0 to 7 of its first argument).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// A phase begins. Arguments: name, length, request number, token of what it joins: the phase that ends
    /// here, or its own root, with which it began.
    Begin = 1,
    /// An outermost phase begins. Arguments: name, length, request number, scheduled time in ns.
    Request = 2,
    /// A phase ends; token 0 means the thread's innermost. Arguments: [`THREAD_OUTSIDE`] or
    /// [`THREAD_INSIDE`], token of a phase within it that ends as well.
    End = 3,
    /// A phase is suspended on this thread. Argument: [`THREAD_OUTSIDE`] or [`THREAD_INSIDE`].
    Leave = 4,
    /// A suspended phase continues, on this thread.
    Enter = 5,
    /// The root of the token joins a trace. Arguments: trace id high, low, parent span id.
    Context = 6,
    /// The library made the ids. Arguments: trace id high, low, span id of the token.
    Identity = 7,
    /// A point in time. Arguments: name, length.
    Mark = 8,
    /// An open phase gets its final name. Arguments: name, length (0: it keeps its name), status code.
    Rename = 9,
    /// A source's statement about itself. Arguments: text, length.
    Tell = 10,
}

impl Operation {
    /// The operation with this number, if there is one.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Operation> {
        match number {
            1 => Some(Operation::Begin),
            2 => Some(Operation::Request),
            3 => Some(Operation::End),
            4 => Some(Operation::Leave),
            5 => Some(Operation::Enter),
            6 => Some(Operation::Context),
            7 => Some(Operation::Identity),
            8 => Some(Operation::Mark),
            9 => Some(Operation::Rename),
            10 => Some(Operation::Tell),
            _ => None,
        }
    }

    /// Whether the second and third argument are a name and its length, beside which the
    /// [`Source`](crate::Source) stands.
    #[must_use]
    pub const fn has_name(number: u8) -> bool {
        matches!(number, 1 | 2 | 8 | 9 | 10)
    }

    /// Whether an edge begins a request: an outermost phase.
    #[must_use]
    pub const fn begins_request(number: u8, token: u64) -> bool {
        number == Operation::Request as u8 || number == Operation::Begin as u8 && is_root_token(token)
    }
}

/// First argument of an end or a leave: the thread is inside no phase afterwards.
pub const THREAD_OUTSIDE: u64 = 1;
/// First argument of an end or a leave: the thread is still inside another phase. Other values carry no
/// meaning.
pub const THREAD_INSIDE: u64 = 2;
/// First argument of an end or a leave: the thread is inside as many phases as before.
pub const THREAD_AS_BEFORE: u64 = 3;

/// First argument of an enter that the kernel side makes: phases that were open within the phase as it was
/// left continue with it.
pub const WITH_INNER: u64 = 1;

/// Bits of a token that number the phases of one root.
pub const TOKEN_CHILD_BITS: u32 = 18;

/// Whether a token is a root's: the library makes one where nothing is open on the thread, or for a request.
#[must_use]
pub const fn is_root_token(token: u64) -> bool {
    token != 0 && token & ((1 << TOKEN_CHILD_BITS) - 1) == 0
}
