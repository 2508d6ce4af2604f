//! Table: the kernel fields whose offsets the agent writes into the object's read-only globals before loading.
//!
//! One row per field: the global, and the dotted paths under which kernels of different age know it, best first.
//! The globals are frozen, so the verifier sees constants and removes what a kernel lacks. It resolves nothing.

/// A field of a kernel structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The `Global<u32>` that takes the offset in bytes.
    pub offset: &'static str,
    /// The `Global<u32>` that takes the mask of a bit field within its byte; empty for whole members.
    pub mask: &'static str,
    /// Paths through structures, unions and typedefs, best first.
    pub paths: &'static [&'static str],
    /// Without it the ledger would be wrong; else only what the comment at its use names is missing.
    pub required: bool,
}

const fn field(offset: &'static str, paths: &'static [&'static str]) -> Field {
    Field { offset, mask: "", paths, required: true }
}

/// Every field that a program reads.
pub const FIELDS: &[Field] = &[
    field("OFFSET_TASK_PID", &["task_struct.pid"]),
    field("OFFSET_TASK_TGID", &["task_struct.tgid"]),
    field("OFFSET_TASK_COMM", &["task_struct.comm"]),
    field("OFFSET_TASK_MIN_FLT", &["task_struct.min_flt"]),
    field("OFFSET_TASK_MAJ_FLT", &["task_struct.maj_flt"]),
    // A long up to 5.13, an unsigned int under another name from 5.14 on; read only where sched_switch does not
    // carry it. The low 32 bits are the same on a little-endian machine.
    field("OFFSET_TASK_STATE", &["task_struct.__state", "task_struct.state"]),
    // When the task was last put on a CPU, how long it has waited for one in all, and since when it does now, by the run
    // queue's clock (CONFIG_SCHED_INFO). Without them a switch-in that reached no hook is charged to the wait before it,
    // and a wait for a CPU after a wake-up that reached none to what was waited for before.
    Field {
        offset: "OFFSET_TASK_LAST_ARRIVAL",
        mask: "",
        paths: &["task_struct.sched_info.last_arrival"],
        required: false,
    },
    Field {
        offset: "OFFSET_TASK_RUN_DELAY",
        mask: "",
        paths: &["task_struct.sched_info.run_delay"],
        required: false,
    },
    Field {
        offset: "OFFSET_TASK_LAST_QUEUED",
        mask: "",
        paths: &["task_struct.sched_info.last_queued"],
        required: false,
    },
    field("OFFSET_TASK_STACK", &["task_struct.stack"]),
    field("OFFSET_TASK_FILES", &["task_struct.files"]),
    field("OFFSET_FILES_FDT", &["files_struct.fdt"]),
    field("OFFSET_FDT_FD", &["fdtable.fd"]),
    field("OFFSET_FDT_MAX", &["fdtable.max_fds"]),
    field("OFFSET_FILE_INODE", &["file.f_inode"]),
    field("OFFSET_INODE_MODE", &["inode.i_mode"]),
    field("OFFSET_REGS_SYSCALL", &["pt_regs.orig_ax", "pt_regs.syscallno"]),
    field("OFFSET_REGS_ARGUMENT", &["pt_regs.di", "pt_regs.orig_x0"]),
    Field {
        offset: "OFFSET_TASK_IOWAIT",
        mask: "MASK_TASK_IOWAIT",
        paths: &["task_struct.in_iowait"],
        required: true,
    },
];
