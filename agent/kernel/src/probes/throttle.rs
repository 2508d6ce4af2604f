//! Table: the hooks of family `throttle`, which splits waiting for a CPU from lack of quota.

use super::hook::{Hook, tracepoint};

/// The clock itself is read by family `sched`, where waits begin and end.
pub const HOOKS: &[Hook] = &[
    tracepoint!("sched_migrate_task", "throttling of threads that are moved while they wait", needed: false),
];
