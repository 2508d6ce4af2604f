//! Maps and globals of the object that several files need.
//!
//! Globals lie in .rodata, which the agent fills and freezes before loading: the verifier sees constants.

use aya_ebpf::{
    Global,
    macros::map,
    maps::{Array, HashMap, LruHashMap, PerCpuArray, Queue, RingBuf},
};
use guestscope_contract::{
    Beside, CALLS, COMM_BYTES, Counter, EdgeRecord, GPU_MAJORS, Position, QueueRecord, SLOTS, SPIN_LIBRARIES,
    SPINNERS, SpinCode, TIDS, Thinning, Turns, UNSEEN_ROOTS, UnseenRoot,
    connection::{CONNECTIONS_MOST, PATH_ROOM, PORT_WORDS, WATCHES, Watch},
    helpers::{Outside, Process},
    ledger::Ledger,
    pause::Pulse,
    visit::TARGETS_MOST,
};

use crate::{flight::Flight, last_io::LastIo};

/// The array is page-aligned with this flag, so that a ledger of 320 bytes is five whole cache lines.
const BPF_F_MMAPABLE: u32 = 1 << 10;

macro_rules! globals {
    ($($name:ident)*) => { $(
        #[unsafe(no_mangle)]
        pub(crate) static $name: Global<u32> = Global::new(0);
    )* };
}

globals! {
    OFFSET_TASK_PID OFFSET_TASK_TGID OFFSET_TASK_COMM OFFSET_TASK_MIN_FLT OFFSET_TASK_MAJ_FLT OFFSET_TASK_STATE
    OFFSET_TASK_STACK
    OFFSET_TASK_LAST_ARRIVAL OFFSET_TASK_RUN_DELAY OFFSET_TASK_LAST_QUEUED OFFSET_TASK_EXEC OFFSET_TASK_EXEC_BEFORE
    OFFSET_TASK_FLAGS OFFSET_TASK_EXIT_STATE OFFSET_TASK_ON_CPU OFFSET_TASK_ON_RQ OFFSET_TASK_DELAYED OFFSET_TASK_CPU
    OFFSET_TASK_LEADER OFFSET_TASK_THREAD_PID OFFSET_PID_LEVEL OFFSET_PID_NUMBERS
    OFFSET_TASK_FILES OFFSET_FILES_FDT OFFSET_FDT_FD OFFSET_FDT_MAX OFFSET_FILE_INODE OFFSET_INODE_MODE OFFSET_INODE_DEVICE
    OFFSET_REGS_SYSCALL OFFSET_REGS_RESULT OFFSET_REGS_ARGUMENT OFFSET_REGS_ARGUMENT_32 OFFSET_REGS_MODE
    OFFSET_REGS_SECOND OFFSET_REGS_THIRD OFFSET_REGS_FOURTH OFFSET_REGS_FIFTH OFFSET_REGS_STACK
    OFFSET_TASK_MM OFFSET_MM_PROBES OFFSET_PROBES_RETURN
    OFFSET_TASK_STATUS OFFSET_TASK_IOWAIT MASK_TASK_IOWAIT
    OFFSET_TASK_FROZEN MASK_TASK_FROZEN
    OFFSET_TASK_CFS_RQ OFFSET_TASK_GROUP OFFSET_GROUP_CFS_RQ OFFSET_TASK_THROTTLED
    OFFSET_GROUP_CGROUP OFFSET_CGROUP_NODE OFFSET_NODE_ID
    OFFSET_CFS_COUNT OFFSET_CFS_CLOCK OFFSET_CFS_TIME OFFSET_CFS_RUNQUEUE
    OFFSET_RUNQUEUE_CLOCK OFFSET_RUNQUEUE_CLOCK_PELT OFFSET_RUNQUEUE_CLOCK_TASK OFFSET_RUNQUEUE_LOST
    OFFSET_RUNQUEUE_STEAL OFFSET_RUNQUEUE_LENGTH OFFSET_TIMER_EXPIRES OFFSET_BIO_OPERATION OFFSET_BIO_BYTES
    // Indexes of the bio among the arguments of block_bio_queue, and of the request among those of
    // block_rq_issue and block_rq_merge.
    BIO_ARGUMENT IO_ARGUMENT
    // Submissions have a hook of their own (6.5 and later); else an I/O is first seen at its issue to the
    // device.
    HAS_IO_START
    OFFSET_BIO_DEVICE OFFSET_DEVICE_NUMBER OFFSET_BIO_DISK OFFSET_DISK_MAJOR OFFSET_DISK_MINOR OFFSET_IO_BIO
    OFFSET_BIO_PAGES OFFSET_PAGE_HEAD
    OFFSET_FOLIO_MAPPING OFFSET_FOLIO_INDEX OFFSET_TASK_READ_BYTES
    OFFSET_IO_BYTES OFFSET_IO_START OFFSET_SOCK_PROTOCOL OFFSET_SOCK_TYPE OFFSET_TCP_RTT_MIN
    OFFSET_SOCK_FAMILY OFFSET_SOCK_PORT OFFSET_SOCK_PEER OFFSET_SOCK_STATE OFFSET_SOCK_QUEUED
    OFFSET_UNIX_ADDRESS OFFSET_ADDRESS_BYTES OFFSET_ADDRESS_NAME
    // Whether to follow requests by connections; those of Unix sockets; arrivals of requests that the program
    // marks itself.
    HAS_REQUESTS HAS_PATHS HAS_ARRIVALS
    // The kernel's throttle clock: a `ThrottleMode`, 0 for none.
    THROTTLE_MODE
    // sched_switch carries the state of the task that leaves (5.18 and later, and some vendor kernels).
    HAS_SWITCH_STATE
    // The tracepoint tcp_retransmit_skb also fires for failed sends, and has a field that says so.
    HAS_RETRANSMIT_ERROR
    // Helpers that hand out typed tasks and registers: `bpf_get_current_task_btf` and `bpf_task_pt_regs`
    // (5.15 and later).
    HAS_TYPED_HELPERS
    // A program can identify its probe with `bpf_get_attach_cookie` (5.15 and later).
    HAS_COOKIES
    // Without them: the likely distance of a task's saved registers from the start of its stack, and the
    // number of bpf(2), by which they are found.
    DISTANCE_REGISTERS NUMBER_BPF
    // The processor is arm64, not x86-64: its registers have other offsets.
    IS_ARM64
    // Types of this kernel's BTF, for `bpf_rdonly_cast`; 0 where the kernel does not have it.
    TYPE_BIO TYPE_FILE TYPE_POINTER TYPE_REGISTERS TYPE_REQUEST TYPE_TASK
    // The kernel has no BTF: threads are identified by their IDs alone, and events are read at the offsets of
    // their fields.
    BY_NUMBER
    FIELD_SWITCH_PREV FIELD_SWITCH_STATE FIELD_SWITCH_NEXT FIELD_WAKING_TID FIELD_WAKEUP_TID FIELD_NEW_TID
    FIELD_NEW_FLAGS FIELD_EXEC_TID FIELD_EXEC_OLD
    // Waits of at least so many ns are handed over; 0 for none.
    WAIT_THRESHOLD_NS
    // Whether to tell of programs that untracked threads execute; the file in a linux_binprm.
    TELLS_STARTS OFFSET_BINPRM_FILE
    // Whether requests may be left out.
    MAY_THIN
    // The agent's PID namespace: device and inode of its file; 0 if unknown.
    PID_NAMESPACE_DEVICE PID_NAMESPACE_INODE
    // Bytes waiting in a ring above which its reader is woken at once.
    WAKE_BYTES
}

/// Syscall to account, by [`guestscope_contract::call_name`], with [`guestscope_contract::CHECK_FILE`] where
/// the file descriptor decides.
#[unsafe(no_mangle)]
pub(crate) static ACCOUNT_OF: [u8; CALLS] = [0; CALLS];

/// Syscall to the argument that limits its wait, by [`guestscope_contract::call_name`]: see
/// [`guestscope_contract::limit`].
#[unsafe(no_mangle)]
pub(crate) static LIMIT_OF: [u8; CALLS] = [0; CALLS];

/// Major numbers of graphics processors' devices, 0 for none.
#[unsafe(no_mangle)]
pub(crate) static MAJORS_OF_GPUS: [u32; GPU_MAJORS] = [0; GPU_MAJORS];

/// Place of tasks' saved registers.
pub(crate) struct Registers {
    /// Address of one task's registers.
    pub(crate) address: u64,
    /// Distance from the start of a task's stack; 0 while unknown.
    pub(crate) distance: u64,
}

/// Written by the first program that runs, the same at every time.
#[unsafe(no_mangle)]
pub(crate) static mut REGISTERS: Registers = Registers { address: 0, distance: 0 };

/// CPU to its pulse. The agent sizes it and starts each pulse.
#[map]
pub(crate) static PULSES: Array<Pulse> = Array::with_max_entries(1, 0);

/// Beats that came late. The agent reads it when it looks at its rings, and is not woken for it.
#[map]
pub(crate) static GAPS: RingBuf = RingBuf::with_byte_size(64 << 10, 0);

/// Thread number to slot, 0 for none. Four to an element: an array rounds its elements up to 8 bytes.
#[map]
pub(crate) static SLOT_OF: Array<[u16; 4]> = Array::with_max_entries(TIDS / 4, 0);

/// Slot to ledger. Slot 0 is never given out.
#[map]
pub(crate) static LEDGERS: Array<Ledger> = Array::with_max_entries(SLOTS, BPF_F_MMAPABLE);

/// Slot to the data beside its ledger.
#[map]
pub(crate) static BESIDE: Array<Beside> = Array::with_max_entries(SLOTS, 0);

/// Slot to the name of the one that ended its thread's last long wait.
#[map]
pub(crate) static WAKERS: Array<[u64; COMM_BYTES / 8]> = Array::with_max_entries(SLOTS, 0);

/// Slot to the device of its thread's last I/O.
#[map]
pub(crate) static LAST_IOS: Array<LastIo> = Array::with_max_entries(SLOTS, 0);

/// Slot to what its thread's waits need to know of its I/Os.
#[map]
pub(crate) static FLIGHTS: Array<Flight> = Array::with_max_entries(SLOTS, 0);

/// Port to the number of its watch, 0 for none. Eight to an element, since an array rounds up to 8 bytes.
/// Filled by the agent.
#[map]
pub(crate) static PORTS: Array<[u8; 8]> = Array::with_max_entries(PORT_WORDS, 0);

/// Address of a Unix socket to the number of its watch. Filled by the agent.
#[map]
pub(crate) static PATHS: HashMap<[u8; PATH_ROOM], u32> = HashMap::with_max_entries(WATCHES, 0);

/// Port of a connection's other end to the address of its socket; 0 where two connections have that port.
#[map]
pub(crate) static PEERS: LruHashMap<u32, u64> = LruHashMap::with_max_entries(CONNECTIONS_MOST, 0);

/// The watches, from 1 on. Filled by the agent.
#[map]
pub(crate) static WATCHED: Array<Watch> = Array::with_max_entries(WATCHES, 0);

/// Process, by its number in the agent's PID namespace, to the ranges of its busy-waiting libraries. Filled
/// by the agent.
#[map]
pub(crate) static SPIN_CODE: HashMap<u32, SpinCode> = HashMap::with_max_entries(SPINNERS, 0);

/// Samples of busy-waiting by the number of the library, over all processes.
#[map]
pub(crate) static SPUN: Array<u64> = Array::with_max_entries(SPIN_LIBRARIES, 0);

/// Samples in system calls by the name of the call, over all processes.
#[map]
pub(crate) static CALLED: Array<u64> = Array::with_max_entries(CALLS as u32, 0);

/// Free slots. Filled by the agent.
#[map]
pub(crate) static FREE: Queue<u32> = Queue::with_max_entries(SLOTS, 0);

/// Slot to the thread's time outside phases.
#[map]
pub(crate) static OUTSIDE: Array<Outside> = Array::with_max_entries(SLOTS, 0);

/// Process by our number. 0 is never given out.
#[map]
pub(crate) static PROCESSES: Array<Process> = Array::with_max_entries(SLOTS, 0);

/// Process number of the initial namespace to ours. Looked up only at births and ends.
#[map]
pub(crate) static PROCESS_OF: HashMap<u32, u32> = HashMap::with_max_entries(SLOTS, 0);

/// Taken places, keyed by a process's number and the place in its list: of two threads that want one, one
/// gets it.
#[map]
pub(crate) static PLACES: HashMap<u32, u32> = HashMap::with_max_entries(SLOTS, 0);

/// Free numbers of processes. Filled by the agent.
#[map]
pub(crate) static FREE_PROCESSES: Queue<u32> = Queue::with_max_entries(SLOTS, 0);

/// CPU to its last turns. The agent sizes it.
#[map]
pub(crate) static LAST_TURNS: Array<Turns> = Array::with_max_entries(1, 0);

/// The record that this CPU assembles: see `turns.rs`.
#[map]
pub(crate) static QUEUE: PerCpuArray<QueueRecord> = PerCpuArray::with_max_entries(1, 0);

/// CPU to its position. Sized and filled by the agent.
#[map]
pub(crate) static TOPOLOGY: Array<Position> = Array::with_max_entries(1, 0);

/// The map takes memory as it is filled: most attach to one process.
const BPF_F_NO_PREALLOC: u32 = 1;

/// Processes to adopt, by their numbers in the agent's PID namespace. Filled by the agent.
#[map]
pub(crate) static TARGETS: HashMap<u32, u8> = HashMap::with_max_entries(TARGETS_MOST, BPF_F_NO_PREALLOC);

/// Buffers in which an edge is assembled before it is handed over in one call. One per slot, since two
/// threads on one CPU may be inside their edges at once (a uprobe program can be preempted).
#[map]
pub(crate) static STAGES: Array<EdgeRecord> = Array::with_max_entries(SLOTS, 0);

/// Edges have a ring of their own, so that no storm of other events can lose one.
#[map]
pub(crate) static EDGES: RingBuf = RingBuf::with_byte_size(4 << 20, 0);

/// Forks, execs and exits.
#[map]
pub(crate) static EVENTS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

/// Long waits, and completed I/Os. Their own ring: a storm of them costs neither an edge nor an end.
#[map]
pub(crate) static WAITS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

/// Programs that untracked threads executed: 512 of them, as the agent looks once a second. It is a page long
/// where nobody wants to know.
#[map]
pub(crate) static STARTS: RingBuf = RingBuf::with_byte_size(64 << 10, 0);

/// The part of the requests that is handed over. Written by the agent at any time.
#[map]
pub(crate) static THINNING: Array<Thinning> = Array::with_max_entries(1, 0);

/// Open requests that are not handed over. Those that never end are forgotten first.
#[map]
pub(crate) static UNSEEN: LruHashMap<UnseenRoot, u8> = LruHashMap::with_max_entries(UNSEEN_ROOTS, 0);

/// Counters of the kernel side about itself, by [`Counter`]: one value, so that the agent reads all at once.
#[map]
pub(crate) static COUNTERS: PerCpuArray<[u64; Counter::COUNT]> = PerCpuArray::with_max_entries(1, 0);
