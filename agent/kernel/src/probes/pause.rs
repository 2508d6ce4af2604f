//! Table: the hooks of family `pause`, which show whether the whole machine was stopped.

use super::{Hook, Place, tracepoint};

/// Without them a pause counts in the running accounts, unnoticed.
pub const HOOKS: &[Hook] = &[
    tracepoint!("hrtimer_expire_entry", "to a millisecond, when the whole machine was stopped", needed: false),
    Hook {
        id: "perf_event/cpu-clock/each-cpu",
        program: "pulse",
        place: Place::EachCpu,
        purpose: "whether the whole machine was stopped, for 55 ms or more, while its clock went on",
        is_needed: false,
        twin: None,
        classic: None,
    },
];
