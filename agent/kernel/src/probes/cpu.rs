//! Table: the hooks of family `cpu`, which look inside account `cpu`.

use super::hook::{Hook, Place};

/// Without it the accounts are the same, and the content of `cpu` is unknown.
pub const HOOKS: &[Hook] = &[Hook {
    id: "perf_event/cpu-clock",
    program: "sample",
    place: Place::Sampler,
    purpose: "composition of cpu: own code, busy-waiting, page faults, system calls, softirqs",
    is_needed: false,
    twin: None,
    classic: None,
}];
