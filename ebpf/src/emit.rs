//! The only way out of the kernel: hand over a record, or count that it was lost.
//!
//! A record is copied from memory that belongs to its thread, so a preempted thread holds no part of a ring.

use aya_ebpf::{
    bindings::BPF_RB_NO_WAKEUP,
    helpers::generated::{bpf_ringbuf_output, bpf_ringbuf_query},
    maps::RingBuf,
};
use guestscope_contract::{Counter, EdgeRecord, IoRecord, Kind, QueueRecord, TaskRecord, WaitRecord};

use crate::{
    maps::{COUNTERS, EDGES, EVENTS, WAITS, WAKE_BYTES},
    memory::add,
};

/// `BPF_RB_AVAIL_DATA`: bytes that have not been read yet.
const AVAILABLE: u64 = 0;

/// Adds one to a counter of this CPU.
#[inline(always)]
pub(crate) fn count(counter: Counter) {
    if let Some(values) = COUNTERS.get_ptr_mut(0) {
        // SAFETY: the pointer is to this CPU's value of a map that lives as long as the program, which has
        // each counter. A program that preempts this one on the same CPU may count as well: a load and a
        // store would lose one of both counts.
        unsafe { add(values.cast::<u64>().add(counter as usize), 1) };
    }
}

/// The agent reads on a timer; only a filling ring wakes it, since a wake-up costs an interrupt.
#[inline(always)]
fn wake_flags(ring: &'static RingBuf) -> u64 {
    // SAFETY: a ring buffer's address is what the BPF helper takes; it only reads the positions.
    let waiting = unsafe { bpf_ringbuf_query(core::ptr::from_ref(ring).cast_mut().cast(), AVAILABLE) };
    if waiting > u64::from(WAKE_BYTES.load()) { 0 } else { u64::from(BPF_RB_NO_WAKEUP) }
}

/// Hands over an edge.
#[inline(always)]
pub(crate) fn edge(record: *mut EdgeRecord) {
    let flags = wake_flags(&EDGES);
    let ring = core::ptr::from_ref(&EDGES).cast_mut().cast();
    // SAFETY: `record` points to a whole record inside a map value; the BPF helper copies it.
    let lost = unsafe { bpf_ringbuf_output(ring, record.cast(), size_of::<EdgeRecord>() as u64, flags) };
    if lost != 0 {
        count(Counter::LostEdge);
    }
}

/// Fills and submits a fork, exec, exit or rename record. Most run inside a tracepoint with preemption off,
/// so a reservation cannot be held up; that of an exec or rename can on 7.x, which delays the records behind
/// it. `fill` writes the record; fields that it leaves out are zero.
#[inline(always)]
pub(crate) fn task(kind: Kind, fill: impl FnOnce(*mut TaskRecord)) {
    let flags = wake_flags(&EVENTS);
    let Some(mut entry) = EVENTS.reserve::<TaskRecord>(0) else {
        count(match kind {
            Kind::Fork => Counter::LostFork,
            Kind::Exec => Counter::LostExec,
            Kind::Rename => Counter::LostRename,
            Kind::Edge | Kind::Exit | Kind::Wait | Kind::Io | Kind::Queue => Counter::LostExit,
        });
        return;
    };
    let record = entry.as_mut_ptr();
    fill(record);
    entry.submit(flags);
}

/// The same for a long wait, inside sched_switch.
#[inline(always)]
pub(crate) fn wait(fill: impl FnOnce(*mut WaitRecord)) {
    let flags = wake_flags(&WAITS);
    let Some(mut entry) = WAITS.reserve::<WaitRecord>(0) else {
        count(Counter::LostWait);
        return;
    };
    let record = entry.as_mut_ptr();
    fill(record);
    entry.submit(flags);
}

/// Hands over the users of a CPU, right before the wait for it, inside sched_switch.
#[inline(always)]
pub(crate) fn queue(record: *mut QueueRecord) {
    let ring = core::ptr::from_ref(&WAITS).cast_mut().cast();
    let bytes = size_of::<QueueRecord>() as u64;
    // The wait itself follows, and wakes the reader.
    let flags = u64::from(BPF_RB_NO_WAKEUP);
    // Without room the wait that follows mostly has none either, and counts as lost; if it has, it names the
    // last user alone.
    // SAFETY: `record` points to a whole record inside a map value; the BPF helper copies it.
    unsafe { bpf_ringbuf_output(ring, record.cast(), bytes, flags) };
}

/// The same for an I/O, in the context of its completion: preemption is off in all of them up to 6.x, in most
/// on 7.x.
#[inline(always)]
pub(crate) fn io(fill: impl FnOnce(*mut IoRecord)) {
    let flags = wake_flags(&WAITS);
    let Some(mut entry) = WAITS.reserve::<IoRecord>(0) else {
        count(Counter::LostIo);
        return;
    };
    let record = entry.as_mut_ptr();
    fill(record);
    entry.submit(flags);
}
