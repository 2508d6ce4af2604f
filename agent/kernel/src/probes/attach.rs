//! Table: the hook of family `attach`, which finds threads that run already.

use super::hook::{Hook, Place};

/// Needed only by `attach`.
pub const HOOKS: &[Hook] = &[Hook {
    id: "iter/task",
    program: "attach",
    place: Place::Iterator,
    purpose: "threads that are already running, for `attach`",
    is_needed: false,
    twin: None,
    classic: None,
}];
