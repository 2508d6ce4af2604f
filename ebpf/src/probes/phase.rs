//! Family `phase`: the marker library's probe point.
//!
//! Hook: a uprobe at `guestscope_edge`. Yields an edge record with the thread's whole ledger and the sum of
//! its process. It only reads the ledger: its own thread may be switched in the middle, so it copies,
//! compares the sequence and copies again. Edges are paired to phases by the agent.

use aya_ebpf::{
    EbpfContext, Global,
    helpers::{bpf_ktime_get_ns, generated::bpf_probe_read_user},
    macros::{map, uprobe},
    maps::ProgramArray,
    programs::ProbeContext,
};
use guestscope_contract::{
    Counter, EDGE_NAME_UNREADABLE, EDGE_TORN, EdgeRecord, Kind, MARKER_ABI_VERSION, NAME_BYTES, Operation,
    Source,
    connection::PEER_MOST,
    ledger::{Ledger, RUNNING},
};

use crate::{
    beside, driver, emit,
    maps::{HAS_ARRIVALS, STAGES},
    memory::{Memory, Plain},
    pending, quota, registers, steal, sum, taken,
    task::{Current, Task},
    topology, untracked, words,
};

/// Attempts to copy the ledger before an edge gives up and is marked as torn. A switch takes microseconds and
/// a copy 10 ns: two failures in a row were never seen.
const COPIES: u32 = 3;

/// Always zero: no jump is taken.
#[unsafe(no_mangle)]
static MAY_JUMP: Global<u32> = Global::new(0);
/// Always empty.
#[map]
static NOWHERE: ProgramArray = ProgramArray::with_max_entries(1, 0);

#[uprobe]
pub(crate) fn edge(ctx: ProbeContext) -> u32 {
    keep_own_stack(&ctx);
    let current = Current::new();
    let Some(ledger) = current.ledger() else { return without_ledger(&ctx) };
    // SAFETY: a ledger in a map value; its slot never changes while the thread lives.
    let slot = unsafe { (*ledger).slot };
    let Some(stage) = STAGES.get_ptr_mut(u32::from(slot)) else { return 0 };
    let operation = registers::argument::<0>(&ctx);
    if (operation >> 8) as u8 != MARKER_ABI_VERSION {
        emit::count(Counter::UnknownAbi);
        return 0;
    }
    // SAFETY: the stage belongs to this thread alone; every field is written below.
    unsafe {
        // First: from here on, waits of this thread are marked as possibly preceding this edge.
        (*stage).operation = operation;
        (*stage).token = registers::argument::<1>(&ctx);
        (*stage).arguments = [
            registers::argument::<2>(&ctx),
            registers::argument::<3>(&ctx),
            registers::argument::<4>(&ctx),
            registers::argument::<5>(&ctx),
        ];
        if HAS_ARRIVALS.load() != 0 && operation as u8 == Operation::Request as u8 {
            let [_, length, _, scheduled_ns] = (*stage).arguments;
            let is_pythons = Source::and_length(length).0 as u8 == Source::Python as u8;
            if is_pythons && scheduled_ns <= PEER_MOST {
                (*stage).arguments[3] = taken::socket_arrival(u32::from(slot), scheduled_ns as u32);
            }
        }
        let mut flags = 0;
        if Operation::has_name(operation as u8) && !read_name(stage) {
            flags |= EDGE_NAME_UNREADABLE;
        }
        hand_over(current, ledger, stage, flags);
    }
    0
}

/// The thread is not tracked.
#[inline(always)]
fn without_ledger(ctx: &ProbeContext) -> u32 {
    let (operation, token) = (registers::argument::<0>(ctx), registers::argument::<1>(ctx));
    if (operation >> 8) as u8 == MARKER_ABI_VERSION {
        untracked::mark(Operation::begins_request(operation as u8, token));
    }
    0
}

/// Effect of an edge on its thread.
#[derive(Clone, Copy)]
pub(crate) struct Outcome {
    /// The operation, as far as it begins or ends phases on this thread.
    pub(crate) operation: u8,
    /// Phases that ended as well, without an edge of their own. The thread was inside more than these.
    pub(crate) ended: u16,
    /// Flags of the record.
    pub(crate) flags: u32,
}

/// Fills the part that all edges have in common, and hands the edge over.
///
/// # Safety
/// The ledger is the running thread's, `stage` is its stage, and holds the edge's own part.
#[inline(always)]
pub(crate) unsafe fn hand_over(current: Current, ledger: *mut Ledger, stage: *mut EdgeRecord, flags: u32) {
    // SAFETY: the caller's.
    unsafe {
        let outcome = Outcome { operation: (*stage).operation as u8, ended: 0, flags };
        hand_over_as(stage, ledger, current, outcome);
    }
}

/// Like [`hand_over`], for an edge that does more than its operation says.
///
/// # Safety
/// As for [`hand_over`].
#[inline(always)]
pub(crate) unsafe fn hand_over_as(
    stage: *mut EdgeRecord,
    ledger: *mut Ledger,
    current: Current,
    outcome: Outcome,
) {
    // SAFETY: the caller's.
    unsafe {
        let (minor, major) = current.faults();
        (*stage).minor_faults = minor;
        (*stage).major_faults = major;
        driver::settle(current, ledger);
        beside::copy((*ledger).slot, &raw mut (*stage).beside);
        pending::settle(ledger);
        let (now_ns, torn) = copy(ledger, &raw mut (*stage).ledger);
        (*ledger).forget_polled();
        match Current::task() {
            Some(task) => put_right(task, &mut (*stage).ledger, now_ns),
            None => put_right_untyped(current.address, &raw mut (*stage).ledger, now_ns),
        }
        let mut flags = outcome.flags;
        if torn {
            flags |= EDGE_TORN;
            emit::count(Counter::TornEdge);
        }
        (*stage).header.kind = Kind::Edge as u32;
        (*stage).header.flags = flags;
        (*stage).header.time_ns = now_ns;
        let head = (*stage).operation & !0xff | u64::from(outcome.operation);
        if !sum::edge(stage, now_ns, head, outcome.ended) {
            return;
        }
    }
    emit::edge(stage);
}

/// Makes the verifier give this program the stack of its thread.
#[inline(always)]
pub(crate) fn keep_own_stack(ctx: &impl EbpfContext) {
    // From 6.13 on the verifier gives programs a stack per CPU instead of the thread's own, except to those
    // with a tail call, even one that is never reached. A uprobe's program can be preempted and run again on
    // the same CPU by another thread, and nothing guards against that: each then overwrites the other's
    // stack, and Linux 7.3 with PREEMPT_LAZY died of it in a storm of edges (null pointer dereference in this
    // program).
    if MAY_JUMP.load() != 0 {
        // SAFETY: the array is empty, so the call comes back.
        unsafe { NOWHERE.tail_call(ctx, 0) };
    }
}

/// This thread runs, whatever was seen of it: corrects the copy as the next switch-out will do it.
#[inline(always)]
fn put_right<M: Memory>(task: Task<M>, ledger: &mut Ledger, now_ns: u64) {
    let at = topology::arrival(ledger);
    ledger.stolen_until(now_ns, at.cpu, steal::clock(task));
    if ledger.state != RUNNING {
        quota::arriving(task, ledger, now_ns);
        ledger.arrived_unseen(now_ns, task.stamps(), at);
    }
}

/// The same for a task without a type. A function of its own, left out of programs that do not call it: the
/// compiler mixes it with the other one otherwise, and the verifier takes a tenth longer for the whole
/// program.
#[inline(never)]
fn put_right_untyped(address: u64, ledger: *mut Ledger, now_ns: u64) {
    // SAFETY: the caller's own copy, in a map value.
    put_right(Task::<Plain>::at(address as *const u8), unsafe { &mut *ledger }, now_ns);
}

/// Copies the ledger and reads the clock, so that both match. Returns the clock and whether it failed.
///
/// # Safety
/// Both must point to whole ledgers in map values.
#[inline(always)]
unsafe fn copy(from: *const Ledger, to: *mut Ledger) -> (u64, bool) {
    let mut round = 0;
    let mut now_ns = 0;
    while round < COPIES {
        // SAFETY: the caller promised both; the sequence is read anew each time.
        unsafe {
            let sequence = core::ptr::read_volatile(&raw const (*from).sequence);
            words::copy(from, to);
            now_ns = bpf_ktime_get_ns();
            if core::ptr::read_volatile(&raw const (*from).sequence) == sequence {
                return (now_ns, false);
            }
        }
        round += 1;
    }
    (now_ns, true)
}

/// Reads the first bytes of the name. False if the page is not there; the library touches it before it fires.
///
/// # Safety
/// `stage` must point to a whole record in a map value.
#[inline(always)]
unsafe fn read_name(stage: *mut EdgeRecord) -> bool {
    // SAFETY: the caller promised it.
    let (pointer, length) = unsafe { ((*stage).arguments[0], Source::and_length((*stage).arguments[1]).1) };
    if length == 0 {
        return true;
    }
    let mut bytes = length;
    if bytes > NAME_BYTES as u64 {
        bytes = NAME_BYTES as u64;
    }
    // SAFETY: `name` has NAME_BYTES bytes, and the BPF helper checks the user's memory.
    unsafe { bpf_probe_read_user((&raw mut (*stage).name).cast(), bytes as u32, pointer as *const _) == 0 }
}
