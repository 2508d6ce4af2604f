//! Table: the kernel fields whose offsets the agent writes into the object's read-only globals before
//! loading.
//!
//! One row per field: the global, and the dotted paths under which kernels of different age know it, best
//! first. The globals are frozen, so the verifier sees constants and removes what a kernel lacks. Offsets are
//! looked up in the agent (`kernel/btf`).

/// Result bit of the program `trial`: the offsets of a task's numbers and name do not fit.
pub const TRIAL_IDENTITY: u32 = 1;
/// Result bit: the saved registers do not fit.
pub const TRIAL_REGISTERS: u32 = 2;
/// Result bit: the open files do not fit.
pub const TRIAL_FILES: u32 = 4;
/// Result bit: the task's CPU does not fit.
pub const TRIAL_CPU: u32 = 8;
/// Result bit: the clock of that CPU's run queue, by way of the task's queue, does not fit.
pub const TRIAL_CLOCK: u32 = 16;

/// A field of a kernel structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The `Global<u32>` that takes the offset in bytes.
    pub offset: &'static str,
    /// The `Global<u32>` that takes the mask of a bit field within its byte; empty for whole members.
    pub mask: &'static str,
    /// Paths through structures, unions and typedefs, best first; trailing stars are the levels of pointers
    /// that the member has to have.
    pub paths: &'static [&'static str],
    /// Whether the ledger is wrong without this field; if false, only what the comment at its use names is
    /// missing.
    pub required: bool,
}

const fn field(offset: &'static str, paths: &'static [&'static str]) -> Field {
    Field { offset, mask: "", paths, required: true }
}

const fn optional(offset: &'static str, paths: &'static [&'static str]) -> Field {
    Field { offset, mask: "", paths, required: false }
}

/// Every field that a program reads.
pub const FIELDS: &[Field] = &[
    field("OFFSET_TASK_PID", &["task_struct.pid"]),
    field("OFFSET_TASK_TGID", &["task_struct.tgid"]),
    field("OFFSET_TASK_COMM", &["task_struct.comm"]),
    field("OFFSET_TASK_MIN_FLT", &["task_struct.min_flt"]),
    field("OFFSET_TASK_MAJ_FLT", &["task_struct.maj_flt"]),
    // A long up to 5.13, an unsigned int under another name from 5.14 on; read only where sched_switch does
    // not carry it. The low 32 bits are the same on a little-endian machine.
    field("OFFSET_TASK_STATE", &["task_struct.__state", "task_struct.state"]),
    // When the task was last put on a CPU, its total wait for a CPU, and the start of its current wait, by
    // the run queue's clock (CONFIG_SCHED_INFO). Without them, an unseen switch-in is charged to the wait
    // before it, and a wait for a CPU after an unseen wake-up to the wait before that.
    optional("OFFSET_TASK_LAST_ARRIVAL", &["task_struct.sched_info.last_arrival"]),
    optional("OFFSET_TASK_RUN_DELAY", &["task_struct.sched_info.run_delay"]),
    optional("OFFSET_TASK_LAST_QUEUED", &["task_struct.sched_info.last_queued"]),
    // Time on CPUs in all, and at the start of the last stay. Without them the last stay of a thread whose
    // end was not seen is unknown.
    optional("OFFSET_TASK_EXEC", &["task_struct.se.sum_exec_runtime"]),
    optional("OFFSET_TASK_EXEC_BEFORE", &["task_struct.se.prev_sum_exec_runtime"]),
    // The throttle clock of a group on a CPU (`CONFIG_CFS_BANDWIDTH`, in three forms); without it `throttled`
    // is part of `runq`.
    optional("OFFSET_TASK_CFS_RQ", &["task_struct.se.cfs_rq"]),
    optional("OFFSET_TASK_GROUP", &["task_struct.sched_task_group"]),
    // An array with a pointer for each CPU. Where it is one per-CPU pointer (7.3) no other CPU's queue is
    // found, and a thread that is moved while it is kept off its queue counts as throttled until it runs.
    optional("OFFSET_GROUP_CFS_RQ", &["task_group.cfs_rq**"]),
    // The number of a control group; without these long waits have none.
    optional("OFFSET_GROUP_CGROUP", &["task_group.css.cgroup"]),
    optional("OFFSET_CGROUP_NODE", &["cgroup.kn"]),
    optional("OFFSET_NODE_ID", &["kernfs_node.id"]),
    optional("OFFSET_CFS_COUNT", &["cfs_rq.throttle_count"]),
    optional(
        "OFFSET_CFS_CLOCK",
        &["cfs_rq.throttled_clock_self", "cfs_rq.throttled_clock_pelt", "cfs_rq.throttled_clock_task"],
    ),
    optional(
        "OFFSET_CFS_TIME",
        &[
            "cfs_rq.throttled_clock_self_time",
            "cfs_rq.throttled_clock_pelt_time",
            "cfs_rq.throttled_clock_task_time",
        ],
    ),
    optional("OFFSET_CFS_RUNQUEUE", &["cfs_rq.rq"]),
    optional("OFFSET_RUNQUEUE_CLOCK", &["rq.clock"]),
    optional("OFFSET_RUNQUEUE_CLOCK_PELT", &["rq.clock_pelt"]),
    optional("OFFSET_RUNQUEUE_CLOCK_TASK", &["rq.clock_task"]),
    optional("OFFSET_RUNQUEUE_LOST", &["rq.lost_idle_time"]),
    // The time that a hypervisor has taken from a CPU: up to now (`CONFIG_PARAVIRT_TIME_ACCOUNTING`), or up
    // to the last tick (`CONFIG_PARAVIRT` alone, as in Debian), which charges the task at a tick with what
    // was taken since the tick before. Without both, stolen time is in `cpu` unnamed.
    optional("OFFSET_RUNQUEUE_STEAL", &["rq.prev_steal_time_rq", "rq.prev_steal_time"]),
    // Number of threads that run or are queued on a CPU. Without it a wait for a CPU is blamed on the thread
    // that ran last.
    optional("OFFSET_RUNQUEUE_LENGTH", &["rq.nr_running"]),
    // The file that is executed; without it programs that end at once are not counted.
    optional("OFFSET_BINPRM_FILE", &["linux_binprm.filename*"]),
    // A timer's due time; without it a pause seems to begin at the last timer before it.
    optional("OFFSET_TIMER_EXPIRES", &["hrtimer.node.expires"]),
    // Operation and size of an I/O; without them I/Os are not counted.
    optional("OFFSET_BIO_OPERATION", &["bio.bi_opf"]),
    optional("OFFSET_BIO_BYTES", &["bio.bi_iter.bi_size"]),
    // What a task has asked block devices for in all (`CONFIG_TASK_IO_ACCOUNTING`), the pages of an I/O, and
    // the file of a page. Without them what a limit of a group holds back is nobody's.
    optional("OFFSET_TASK_READ_BYTES", &["task_struct.ioac.read_bytes"]),
    optional("OFFSET_BIO_PAGES", &["bio.bi_io_vec"]),
    optional("OFFSET_PAGE_HEAD", &["page.compound_head"]),
    optional("OFFSET_FOLIO_MAPPING", &["folio.mapping", "page.mapping"]),
    optional("OFFSET_FOLIO_INDEX", &["folio.index", "page.index"]),
    // The device of an I/O: from 5.12 on by its own number (a partition has one), before by its disk's.
    // Without them waits for devices do not name the device.
    optional("OFFSET_BIO_DEVICE", &["bio.bi_bdev"]),
    optional("OFFSET_DEVICE_NUMBER", &["block_device.bd_dev"]),
    optional("OFFSET_BIO_DISK", &["bio.bi_disk"]),
    optional("OFFSET_DISK_MAJOR", &["gendisk.major"]),
    optional("OFFSET_DISK_MINOR", &["gendisk.first_minor"]),
    // The first part of an I/O: without it an I/O that waited for its turn to be submitted forgets its device
    // there.
    optional("OFFSET_IO_BIO", &["request.bio"]),
    // The remaining bytes of an I/O, and the time of its start (to tell it from another one in its place).
    // Without them its time is not known.
    optional("OFFSET_IO_BYTES", &["request.__data_len"]),
    optional("OFFSET_IO_START", &["request.start_time_ns"]),
    // A socket's protocol and type, and TCP's shortest round trip (the second half of a sample).
    optional("OFFSET_SOCK_PROTOCOL", &["sock.sk_protocol"]),
    optional("OFFSET_SOCK_TYPE", &["sock.sk_type"]),
    optional("OFFSET_TCP_RTT_MIN", &["tcp_sock.rtt_min"]),
    // A connection's family, own port, state, and unread bytes. Without them no request is known by its
    // socket.
    optional("OFFSET_SOCK_FAMILY", &["sock.__sk_common.skc_family"]),
    optional("OFFSET_SOCK_PORT", &["sock.__sk_common.skc_num"]),
    optional("OFFSET_SOCK_PEER", &["sock.__sk_common.skc_dport"]),
    optional("OFFSET_SOCK_STATE", &["sock.__sk_common.skc_state"]),
    optional("OFFSET_SOCK_QUEUED", &["sock.sk_receive_queue.qlen"]),
    // The path of a Unix socket; without them Unix sockets have no requests.
    optional("OFFSET_UNIX_ADDRESS", &["unix_sock.addr"]),
    optional("OFFSET_ADDRESS_BYTES", &["unix_address.len"]),
    optional("OFFSET_ADDRESS_NAME", &["unix_address.name"]),
    // A task that is throttled by itself, not with its queue (6.18).
    optional("OFFSET_TASK_THROTTLED", &["task_struct.throttled"]),
    // State of a thread when the iterator meets it; `run` needs none of them.
    optional("OFFSET_TASK_FLAGS", &["task_struct.flags"]),
    optional("OFFSET_TASK_EXIT_STATE", &["task_struct.exit_state"]),
    optional("OFFSET_TASK_ON_CPU", &["task_struct.on_cpu"]),
    optional("OFFSET_TASK_ON_RQ", &["task_struct.on_rq"]),
    optional("OFFSET_TASK_DELAYED", &["task_struct.se.sched_delayed"]),
    optional("OFFSET_TASK_CPU", &["task_struct.thread_info.cpu", "task_struct.cpu"]),
    optional("OFFSET_TASK_LEADER", &["task_struct.group_leader"]),
    optional("OFFSET_TASK_THREAD_PID", &["task_struct.thread_pid"]),
    optional("OFFSET_PID_LEVEL", &["pid.level"]),
    optional("OFFSET_PID_NUMBERS", &["pid.numbers"]),
    field("OFFSET_TASK_STACK", &["task_struct.stack"]),
    field("OFFSET_TASK_FILES", &["task_struct.files"]),
    field("OFFSET_FILES_FDT", &["files_struct.fdt"]),
    field("OFFSET_FDT_FD", &["fdtable.fd"]),
    field("OFFSET_FDT_MAX", &["fdtable.max_fds"]),
    field("OFFSET_FILE_INODE", &["file.f_inode"]),
    field("OFFSET_INODE_MODE", &["inode.i_mode"]),
    // Without it waits for a graphics processor's driver are `other`.
    optional("OFFSET_INODE_DEVICE", &["inode.i_rdev"]),
    field("OFFSET_REGS_SYSCALL", &["pt_regs.orig_ax", "pt_regs.syscallno"]),
    // x86-64: filled with -ENOSYS until the call has returned (arm64: the first register); without it work on
    // the way back, such as a page fault for a signal's frame, is charged to the call.
    optional("OFFSET_REGS_RESULT", &["pt_regs.ax"]),
    field("OFFSET_REGS_ARGUMENT", &["pt_regs.di", "pt_regs.orig_x0"]),
    // The second argument of a 64-bit call on x86-64: how many descriptors are polled. Without it no polled
    // descriptor is looked at.
    optional("OFFSET_REGS_SECOND", &["pt_regs.si"]),
    // Further arguments of a 64-bit call on x86-64 (arm64 has them at fixed places): whether a wait had a
    // time limit.
    optional("OFFSET_REGS_THIRD", &["pt_regs.dx"]),
    optional("OFFSET_REGS_FOURTH", &["pt_regs.r10"]),
    optional("OFFSET_REGS_FIFTH", &["pt_regs.r8"]),
    // A program's stack pointer: whether it is inside a function of a driver. Without it none is followed.
    optional("OFFSET_REGS_STACK", &["pt_regs.sp"]),
    // The address that return probes put in place of return addresses in this process: whether it is still
    // there. Without it a thread that has jumped out of a call seems inside while it calls other functions.
    optional("OFFSET_TASK_MM", &["task_struct.mm"]),
    optional("OFFSET_MM_PROBES", &["mm_struct.uprobes_state.xol_area"]),
    optional("OFFSET_PROBES_RETURN", &["xol_area.vaddr"]),
    // The first argument of a 32-bit call, and how to tell such a call: x86-64's entry code marks the task
    // for the length of the call, arm64 saves the processor's mode. Either architecture lacks the fields of
    // the other.
    optional("OFFSET_REGS_ARGUMENT_32", &["pt_regs.bx"]),
    optional("OFFSET_TASK_STATUS", &["task_struct.thread_info.status"]),
    optional("OFFSET_REGS_MODE", &["pt_regs.pstate"]),
    Field {
        offset: "OFFSET_TASK_IOWAIT",
        mask: "MASK_TASK_IOWAIT",
        paths: &["task_struct.in_iowait"],
        required: true,
    },
    // Set by the freezer of cgroup v2 (5.2 and later). Without it a thread that is frozen outside system
    // calls seems to wait in a page fault, up to 6.0.
    Field {
        offset: "OFFSET_TASK_FROZEN",
        mask: "MASK_TASK_FROZEN",
        paths: &["task_struct.frozen"],
        required: false,
    },
];

/// A field of a classic tracepoint's event, as tracefs describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventField {
    /// The `Global<u32>` that takes the offset in bytes.
    pub offset: &'static str,
    /// The tracepoint, as `category/name`.
    pub event: &'static str,
    /// The field's name.
    pub name: &'static str,
    /// Size in bytes; the BPF programs rely on it.
    pub bytes: u32,
}

const fn event_field(
    offset: &'static str,
    event: &'static str,
    name: &'static str,
    bytes: u32,
) -> EventField {
    EventField { offset, event, name, bytes }
}

/// Every field of an event that a program reads where the kernel has no BTF.
pub const EVENT_FIELDS: &[EventField] = &[
    event_field("FIELD_SWITCH_PREV", "sched/sched_switch", "prev_pid", 4),
    event_field("FIELD_SWITCH_STATE", "sched/sched_switch", "prev_state", 8),
    event_field("FIELD_SWITCH_NEXT", "sched/sched_switch", "next_pid", 4),
    event_field("FIELD_WAKING_TID", "sched/sched_waking", "pid", 4),
    event_field("FIELD_WAKEUP_TID", "sched/sched_wakeup", "pid", 4),
    event_field("FIELD_NEW_TID", "task/task_newtask", "pid", 4),
    event_field("FIELD_NEW_FLAGS", "task/task_newtask", "clone_flags", 8),
    event_field("FIELD_EXEC_TID", "sched/sched_process_exec", "pid", 4),
    event_field("FIELD_EXEC_OLD", "sched/sched_process_exec", "old_pid", 4),
];
