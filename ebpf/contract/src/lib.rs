//! The contract between the BPF programs and the agent: records, operations, counters, limits.
//!
//! Plain integers in `repr(C)` structures; sizes are checked at compile time and padding is explicit. Both
//! sides compile this crate, so they cannot diverge. It contains no kernel structures and makes no decisions.
#![cfg_attr(not(test), no_std)]

#[macro_use]
mod row;
mod account;
mod activity;
mod call;
pub mod calls;
pub mod connection;
mod counter;
pub mod driver;
pub mod fields;
pub mod framing;
mod header;
pub mod helpers;
mod io;
pub mod ledger;
pub mod limit;
pub mod metrics;
mod operation;
pub mod pause;
mod position;
mod source;
mod start;
mod thinning;
mod traffic;
mod turn;
pub mod visit;
pub mod waker;

pub use account::{ACCOUNTS, Account};
pub use activity::{
    ACTIVITIES, Activity, Beside, COMPUTES, PAUSE_WORDS, SAMPLES_PER_S, SPIN_LIBRARIES, SPIN_RANGES,
    SPINNERS, Samples, SpinCode, has_pause,
};
pub use call::{
    BY_FREEZER, BY_SIGNAL, BY_TRACER, CALLS, CALLS_32, NO_SYSCALL, SYSCALLS, UNKNOWN_CALL, WAIT_FROZEN,
    WAIT_STOPPED, WAIT_TRACED, kept, kept_by, last_blocked_in, name as call_name, waits_in,
};
pub use counter::Counter;
pub use header::{COMM_BYTES, Header, Kind};
pub use io::{
    IO_HELD, IO_OF_RING, IO_URING_ENTER, IO_WRITES, IOS, IoRecord, MINOR_BITS, NO_DEVICE, WAIT_HELD,
    WAIT_WRITES, reads_and_writes_under_way, under_way,
};
pub use operation::{
    Operation, THREAD_AS_BEFORE, THREAD_INSIDE, THREAD_OUTSIDE, TOKEN_CHILD_BITS, WITH_INNER, is_root_token,
};
pub use position::{DISTANCES, Distance, Position};
pub use source::{DETAIL, KERNEL_INSTANCE, SOURCE_SHIFT, SOURCES, Source, UNNUMBERED};
pub use start::{START_FILE_BYTES, StartRecord};
pub use thinning::{Choice, Thinning, UNSEEN_ROOTS, UnseenRoot, ends_another, root_of};
pub use traffic::Traffic;
pub use turn::{CpuUser, QueueRecord, SHORT_NS, TURNS, Turn, Turns, USERS};

use helpers::{HelperSum, MEMBERS, Outside, Process};
use ledger::Ledger;

/// Version of the records. Agent and object are built together; the manifest of a run names it.
pub const CONTRACT_VERSION: u32 = 19;
/// Version of the marker library's probe arguments (bits 8 to 15 of the first one).
pub const MARKER_ABI_VERSION: u8 = 1;
/// Bytes of a phase's name in a record; a longer name is cut and says so.
pub const NAME_BYTES: usize = 64;
/// Thread numbers of the initial namespace in the slot table: PID_MAX_LIMIT of a 64-bit kernel, because
/// pid_max is per namespace from 6.14 on and a guest in a namespace cannot see the outer one.
pub const TIDS: u32 = 4 << 20;
/// Most threads that are tracked at once unless the agent asks for fewer.
pub const SLOTS: u32 = 4096;
/// Flag beside an account in the account table: the file descriptor decides (`net` for a socket, `gpu` for
/// the device of a graphics processor).
pub const CHECK_FILE: u8 = 0x80;
/// Flag in a syscall's entry: it waits for one of the descriptors in its first argument's array, which has as
/// many as its second one says; `gpu` for the device of a graphics processor.
pub const CHECK_POLLED: u8 = 0x20;
/// Flag in a syscall's entry: it continues the syscall that a stop, a freezer or a debugger interrupted.
pub const RESTARTS: u8 = 0x40;

/// Maximum number of major device numbers of GPU drivers.
pub const GPU_MAJORS: usize = 8;

/// The object's instruction that calls the kernel's `bpf_rdonly_cast`: call (0x85) of a kernel function
/// (0x20), and, in place of the function's BTF ID, a constant that occurs nowhere else.
pub const CALL_RDONLY_CAST: u64 = 0x7473_6163_0000_2085;

/// The kernel's clock of the time for which a group was throttled on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ThrottleMode {
    /// Groups have no quota in this kernel.
    Absent = 0,
    /// `throttled_clock_self`, by `rq.clock` (6.6 and later).
    Own = 1,
    /// `throttled_clock_pelt`, by `rq.clock_pelt` less idle losses (5.19 and later, and backports).
    Pelt = 2,
    /// `throttled_clock_task`, by `rq.clock_task`, which leaves interrupts and stolen time out.
    Task = 3,
}

/// Flag of an edge: the name could not be read.
pub const EDGE_NAME_UNREADABLE: u32 = 1;
/// Flag of an edge: switches came between all copies, so the accounts may be torn.
pub const EDGE_TORN: u32 = 2;
/// Flag of an edge: a thread was being written, or ended, during the summing; the sum is invalid.
pub const EDGE_HELPERS_TORN: u32 = 4;
/// Flag of a wait: its system call was asked to return after some time at the latest.
pub const WAIT_LIMITED: u32 = 2;
/// Flag of a fork: the task was adopted; its parent is not tracked.
pub const FORK_ADOPTED: u32 = 1;
/// Flag of a fork of an adopted task: it had run before, for an unknown time.
pub const FORK_LATE: u32 = 2;

/// Flag of an exit: the leader of a process, replaced by its thread that called exec.
pub const EXIT_REPLACED: u32 = 1;
/// Flag of an exit: found gone without a switch. Its last stay on a CPU is not in the accounts.
pub const EXIT_UNSEEN: u32 = 2;

/// A marker fired on a tracked thread: its statement, and the thread's whole ledger at that instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct EdgeRecord {
    /// `kind` is [`Kind::Edge`].
    pub header: Header,
    /// The ledger as it stood; the interval since `since_ns` is still to be added.
    pub ledger: Ledger,
    /// Operation (bits 0-7), ABI version (8-15), instance of the library (16-31), edge number (32-63).
    pub operation: u64,
    /// Token of the phase; 0 is the thread's innermost.
    pub token: u64,
    /// Arguments of the operation, in its order.
    pub arguments: [u64; 4],
    /// Minor faults of the thread since its birth.
    pub minor_faults: u64,
    /// Major faults of the thread since its birth.
    pub major_faults: u64,
    /// Edges of the thread so far that were not handed over, on purpose: see [`Thinning`]. It wraps.
    pub left_out: u32,
    /// Other threads of the process that are inside a request that is not handed over.
    pub unseen_threads: u32,
    /// The thread's data beside its ledger.
    pub beside: Beside,
    /// Sum over all threads of the process, outside phases.
    pub helpers: HelperSum,
    /// First bytes of the name; its length is the second argument, see [`Source::and_length`].
    pub name: [u8; NAME_BYTES],
}

/// A tracked task was born, replaced its program, got another name, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TaskRecord {
    /// `kind` is fork, exec, exit or rename.
    pub header: Header,
    /// Ledger of the task itself.
    pub ledger: Ledger,
    /// Fork: the parent's tid. Exec: the tid before it. Else 0.
    pub other_tid: u32,
    /// Fork: the parent's tgid. Else 0.
    pub other_tgid: u32,
    /// Fork: the parent's `born_ns`. Exec: `born_ns` of the leader that ended for it, or 0.
    pub other_born_ns: u64,
    /// Minor faults of the thread since its birth.
    pub minor_faults: u64,
    /// Major faults of the thread since its birth.
    pub major_faults: u64,
    /// The thread's data beside its ledger.
    pub beside: Beside,
    /// Name of the task, ended by a zero byte.
    pub comm: [u8; COMM_BYTES],
}

/// Short form of an edge's number in a wait; 0 for number 0, which is no edge: edges count from 1.
pub const fn edge_mark(number: u32) -> u8 {
    if number == 0 { 0 } else { number as u8 | 0x80 }
}

/// Whether an edge with this number is the marked one, or one of the 63 after it.
pub const fn is_at_mark(number: u32, mark: u8) -> bool {
    (number as u8).wrapping_sub(mark) & 0x7f < 64
}

/// A tracked task is on a CPU again after a wait above the threshold: the object of its wait, and the last
/// user of the CPU. A new task's first wait begins with its birth, on the CPU of its maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct WaitRecord {
    /// `kind` is [`Kind::Wait`]; the time is that of the switch-in.
    pub header: Header,
    /// Start time of the thread; with the thread ID it is unique.
    pub born_ns: u64,
    /// Time at which it left a CPU.
    pub left_ns: u64,
    /// Time from which on it could run; the same where it never stopped being able to.
    pub ready_ns: u64,
    /// Part of the time from then on in which its group was out of quota.
    pub throttled_ns: u64,
    /// Thread number.
    pub tid: u32,
    /// Process number.
    pub tgid: u32,
    /// The task that began to wake it (in an interrupt, the interrupted one) and its system call, packed by
    /// [`waker`]; 0 if none was needed or seen.
    pub waker: u32,
    /// Thread that got the CPU that it left; 0 for the idle task and for a new task, which left none.
    pub replaced_by_tid: u32,
    /// Thread on the CPU that it got, until then.
    pub ran_before_tid: u32,
    /// Process of that thread.
    pub ran_before_tgid: u32,
    /// The CPU that it left.
    pub left_cpu: u16,
    /// The CPU that it got.
    pub cpu: u16,
    /// The syscall of the wait, by [`call_name`]; 0xffff outside any.
    pub syscall: u16,
    /// Account of the time before `ready_ns`.
    pub account: u8,
    /// The last edge that its thread had begun, by [`edge_mark`]; 0 if none.
    pub edge: u8,
    /// The block device of the wait in the kernel's numbering (20 bits of minor number): the last that it
    /// submitted to since its sleep before. [`NO_DEVICE`] without a submission, and for waits of other
    /// accounts than [`Account::BlockIo`] and [`Account::Fault`].
    pub device: u32,
    /// Thread number in its own PID namespace; 0 where unknown.
    pub ns_tid: u32,
    /// Another thread of its process that a sample met on a CPU during the wait, the last one; 0 if none.
    pub beside_tid: u32,
    /// Time limit of the system call, ms; 0 where it has none, or has it in memory: see [`WAIT_LIMITED`].
    pub limit_ms: u32,
    /// First argument of the system call: a file descriptor, the address of a futex, a process; 0 outside
    /// any.
    pub argument: u64,
    /// Directory number of the control group that controls its CPU time; 0 where unknown.
    pub group: u64,
    /// Name of the thread that was on that CPU, ended by a zero byte.
    pub ran_before_comm: [u8; COMM_BYTES],
    /// Name of the waker; zeros if the time before `ready_ns` was not long enough to be handed over by
    /// itself.
    pub waker_comm: [u8; COMM_BYTES],
}

// Each field is a multiple of the next one's alignment, so records have no padding: sizes are plain sums.
const _: () = assert!(size_of::<Ledger>() == 320 && align_of::<Ledger>() == 8);
const _: () = assert!(size_of::<Header>() == 16 && size_of::<Position>() == 8 && DISTANCES.is_power_of_two());
const LEDGER: usize = size_of::<Header>() + size_of::<Ledger>();
const BESIDE: usize = size_of::<Beside>();
const _: () = assert!(size_of::<EdgeRecord>() == LEDGER + 72 + BESIDE + size_of::<HelperSum>() + NAME_BYTES);
const _: () = assert!(size_of::<TaskRecord>() == LEDGER + 16 + 16 + BESIDE + COMM_BYTES);
const _: () = assert!(BESIDE == 4 * ACTIVITIES + 8 + size_of::<Traffic>() + size_of::<driver::Driver>());
const _: () = assert!(size_of::<driver::Driver>() == 5 * 8 + 4 * 4);
const _: () = assert!(size_of::<HelperSum>() == 96 && size_of::<Outside>() == 120);
const _: () = assert!(size_of::<Process>() == 2 * MEMBERS + 8 * ACCOUNTS + 72 && MEMBERS.is_power_of_two());
const _: () = assert!(size_of::<WaitRecord>() == 16 + 6 * 8 + 6 * 4 + 3 * 2 + 2 + 4 * 4 + 2 * COMM_BYTES);
