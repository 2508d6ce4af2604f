//! Table: the hooks of family `sched`, which keep the ledgers.

use super::hook::{Hook, Place, tracepoint};

/// All but one are required: without them the accounts would be wrong, not just coarser.
pub const HOOKS: &[Hook] = &[
    tracepoint!("sched_wakeup_new", "threads and processes that the program starts", needed: true, by: "task" / "task_newtask"),
    tracepoint!("sched_process_exec", "exec calls of the program", needed: true, by: "sched" / "sched_process_exec"),
    tracepoint!("sched_waking", "end of a wait", needed: true, by: "sched" / "sched_waking"),
    tracepoint!("sched_wakeup", "start of a wait for a CPU", needed: true, by: "sched" / "sched_wakeup"),
    tracepoint!("sched_switch", "time on and off the CPU, by kind of wait", needed: true, by: "sched" / "sched_switch"),
    tracepoint!("sched_process_free", "ends of threads whose last context switch was not seen", needed: false),
    tracepoint!("task_rename", "names that threads get after they are made", needed: false),
    Hook {
        id: "raw_tp/adopt",
        program: "adopt",
        place: Place::Called,
        purpose: "tracking of the program that is started, in any PID namespace",
        is_needed: true,
        twin: None,
        classic: None,
    },
];
