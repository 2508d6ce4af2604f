//! Table: the hooks of family `throttle`, which splits waiting for a CPU from lack of quota.

use super::{Hook, Place};

/// The clock itself is read by family `sched`, where waits begin and end.
pub const HOOKS: &[Hook] = &[Hook {
    id: "tp_btf/sched_migrate_task",
    program: "sched_migrate_task",
    place: Place::BtfTracepoint("sched_migrate_task"),
    purpose: "throttling of threads that are moved while they wait",
    is_needed: false,
}];
