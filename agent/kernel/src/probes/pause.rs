//! Table: the hooks of family `pause`, which show whether the whole machine was stopped.

use super::hook::{Hook, Place, tracepoint};

/// Without them a pause counts in the running accounts, unnoticed.
pub const HOOKS: &[Hook] = &[
    tracepoint!("hrtimer_expire_entry", "pauses of the whole guest, to a millisecond", needed: false),
    Hook {
        id: "perf_event/cpu-clock/each-cpu",
        program: "pulse",
        place: Place::EachCpu,
        purpose: "pauses of the whole guest of 55 ms or more, if its clock continued",
        is_needed: false,
        twin: None,
        classic: None,
    },
];
