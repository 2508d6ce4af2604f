//! Table: the hooks of family `sched`, which keep the ledgers.

use super::{Hook, Place};

/// All but one are needed: without them the accounts would be wrong, not merely coarser.
pub const HOOKS: &[Hook] = &[
    Hook {
        id: "tp_btf/sched_process_fork",
        program: "sched_process_fork",
        place: Place::BtfTracepoint("sched_process_fork"),
        purpose: "threads and processes that the program starts",
        is_needed: true,
    },
    Hook {
        id: "tp_btf/sched_process_exec",
        program: "sched_process_exec",
        place: Place::BtfTracepoint("sched_process_exec"),
        purpose: "programs that it becomes",
        is_needed: true,
    },
    Hook {
        id: "tp_btf/sched_waking",
        program: "sched_waking",
        place: Place::BtfTracepoint("sched_waking"),
        purpose: "when a wait ended",
        is_needed: true,
    },
    Hook {
        id: "tp_btf/sched_wakeup",
        program: "sched_wakeup",
        place: Place::BtfTracepoint("sched_wakeup"),
        purpose: "when waiting for a CPU began",
        is_needed: true,
    },
    Hook {
        id: "tp_btf/sched_switch",
        program: "sched_switch",
        place: Place::BtfTracepoint("sched_switch"),
        purpose: "time on and off the CPU, by what was waited for",
        is_needed: true,
    },
    Hook {
        id: "tp_btf/sched_process_free",
        program: "sched_process_free",
        place: Place::BtfTracepoint("sched_process_free"),
        purpose: "ends of threads that no switch showed",
        is_needed: false,
    },
    Hook {
        id: "raw_tp/adopt",
        program: "adopt",
        place: Place::Called,
        purpose: "tracking of the program that is started, in any PID namespace",
        is_needed: true,
    },
];
