//! Family `block`: I/O of threads on block devices, and its duration.
//!
//! Hooks, all of them tp_btf or raw_tp: block_bio_queue, in the submitter's context, yields counts and bytes
//! in the submitter's ledger, and the device of a wait that follows (`device.rs`); writeback for others
//! counts for the flusher, and each layer of a stacked device counts what it passes on. block_io_start (6.5
//! and later), block_rq_issue and block_rq_complete follow an I/O: the first one runs in its submitter, the
//! others anywhere, so the submitter is noted at the first. At its completion a record goes out with its
//! times, by this program's own clock: the kernel's stamps are kept only on demand, or are those of a whole
//! plug. block_rq_complete comes before the waiting thread is woken, so that its record precedes the end of
//! that thread's phase. It charges no time: that is account `block_io`.
//!
//! An I/O that completes in parts is done with the last one. One that the device takes back and gets again
//! has been with it since the first time. One that is merged into another (block_rq_merge) is part of it from
//! then on, with its bytes. A request's memory is used again for a later I/O: where the end of one was
//! missed, the kernel's stamp of its start shows that this is another one.

use aya_ebpf::{
    Global,
    helpers::bpf_ktime_get_ns,
    macros::map,
    maps::{Array, HashMap},
};
use guestscope_contract::{Counter, Header, IOS, Kind, SLOTS, ledger::Ledger};

use crate::{
    device, emit,
    maps::{
        BIO_ARGUMENT, HAS_IO_START, IO_ARGUMENT, OFFSET_BIO_BYTES, OFFSET_BIO_OPERATION, OFFSET_IO_BIO,
        OFFSET_IO_BYTES, OFFSET_IO_START, TYPE_REQUEST,
    },
    memory::{Arguments, Memory, follow, load, twins},
    task::Current,
};

/// The low byte of a bio's flags, `REQ_OP_MASK`.
const OPERATION: u32 = 0xff;
/// `REQ_OP_READ`.
const READ: u32 = 0;
/// `REQ_OP_WRITE`.
const WRITE: u32 = 1;

/// A pending I/O of a tracked thread.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Io {
    born_ns: u64,
    submitted_ns: u64,
    /// Time of its issue to the device; 0 before.
    issued_ns: u64,
    /// The kernel's own stamp of its start, as of its issue to the device (until then it may change):
    /// compared only.
    started: u64,
    tid: u32,
    tgid: u32,
}

/// A thread's current batch: its I/O since devices last got any of it, or since it last slept. Until then the
/// kernel may hold I/O back, to submit it together. Only its own thread writes it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Batch {
    /// Start of the batch; before the birth of its thread it belongs to an earlier thread of the slot.
    since_ns: u64,
    /// Count of the thread's sleeps.
    voluntary: u32,
    /// The batch is being handed to devices: the next I/O begins another one.
    is_handed_over: u32,
}

/// Pending I/Os by the addresses of their requests, which the kernel reuses for later ones.
#[map]
static ON_THEIR_WAY: HashMap<u64, Io> = HashMap::with_max_entries(IOS, 0);

/// Slot to its thread's last batch for block devices, where an I/O is first seen at its issue to the device.
#[map]
static BATCHES: Array<Batch> = Array::with_max_entries(SLOTS, 0);

twins! {
    block_bio_queue raw_block_bio_queue "block_bio_queue" queued;
    block_io_start raw_block_io_start "block_io_start" submitted;
    block_rq_issue raw_block_rq_issue "block_rq_issue" issued;
    block_rq_merge raw_block_rq_merge "block_rq_merge" merged;
    block_rq_complete raw_block_rq_complete "block_rq_complete" completed;
}

#[inline(always)]
fn queued<C: Arguments>(ctx: &C) -> i32 {
    if OFFSET_BIO_OPERATION.load() == 0 || OFFSET_BIO_BYTES.load() == 0 {
        return 0;
    }
    let current = Current::new();
    let Some(ledger) = current.ledger() else { return 0 };
    if HAS_IO_START.load() == 0 {
        asked(ledger);
    }
    let bio = first_or_second(ctx, &BIO_ARGUMENT);
    // SAFETY: a bio, at offsets of members of these sizes that the agent resolved; the ledger is in a map
    // value, and its own thread runs this program.
    unsafe {
        let operation = load::<C::Memory, u32>(bio, &OFFSET_BIO_OPERATION) & OPERATION;
        let bytes = u64::from(load::<C::Memory, u32>(bio, &OFFSET_BIO_BYTES));
        device::submits::<C::Memory>(current, ledger, bio, operation);
        if operation == READ {
            (*ledger).block_reads = (*ledger).block_reads.wrapping_add(1);
            (*ledger).block_read_bytes = (*ledger).block_read_bytes.wrapping_add(bytes);
        } else if operation == WRITE && bytes != 0 {
            (*ledger).block_writes = (*ledger).block_writes.wrapping_add(1);
            (*ledger).block_write_bytes = (*ledger).block_write_bytes.wrapping_add(bytes);
        }
    }
    0
}

/// The hook's object. Up to 5.10 the device's queue came first.
#[inline(always)]
fn first_or_second<C: Arguments>(ctx: &C, place: &Global<u32>) -> *const u8 {
    let word = if place.load() == 0 { ctx.word::<0>() } else { ctx.word::<1>() };
    word as *const u8
}

/// The running thread requests an I/O.
#[inline(always)]
fn asked(ledger: *const Ledger) {
    // SAFETY: a ledger in a map value.
    let (slot, voluntary, born_ns) =
        unsafe { (u32::from((*ledger).slot), (*ledger).voluntary, (*ledger).born_ns) };
    let Some(batch) = BATCHES.get_ptr_mut(slot) else { return };
    // SAFETY: a value of a map, which its own thread alone writes; the BPF helper has no preconditions.
    unsafe {
        if (*batch).is_handed_over != 0 || (*batch).voluntary != voluntary || (*batch).since_ns < born_ns {
            *batch = Batch { since_ns: bpf_ktime_get_ns(), voluntary, is_handed_over: 0 };
        }
    }
}

/// Whether an I/O that the thread of this ledger issues to a device is its own: it began after the thread's
/// batch did. I/Os of others that wait in an I/O scheduler mostly are older. One without a stamp belongs to
/// no thread.
#[inline(always)]
fn is_its_own(ledger: *const Ledger, started_ns: u64) -> bool {
    // SAFETY: a ledger in a map value.
    let (slot, born_ns) = unsafe { (u32::from((*ledger).slot), (*ledger).born_ns) };
    let Some(batch) = BATCHES.get_ptr_mut(slot) else { return false };
    // SAFETY: as above.
    unsafe {
        (*batch).is_handed_over = 1;
        (*batch).since_ns >= born_ns && started_ns >= (*batch).since_ns
    }
}

/// Whether the needed members of a request are known.
#[inline(always)]
fn is_known() -> bool {
    OFFSET_IO_BYTES.load() != 0 && OFFSET_IO_START.load() != 0
}

#[inline(always)]
fn submitted<C: Arguments>(ctx: &C) -> i32 {
    if !is_known() {
        return 0;
    }
    let request: *const u8 = ctx.at(0);
    // The end of an earlier I/O in this request was missed: the new one, of any submitter, must not be taken
    // for it.
    if ON_THEIR_WAY.get_ptr(request as u64).is_some() {
        forget(request);
    }
    let current = Current::new();
    let Some(ledger) = current.ledger() else { return 0 };
    // SAFETY: the BPF helper has no preconditions.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    note::<C::Memory>(request, ledger, now_ns, 0);
    submits_again::<C::Memory>(current, request, ledger);
    0
}

/// The thread may have slept between its bio and this hook: the queue was full, or a limit held it back.
#[inline(always)]
fn submits_again<M: Memory>(current: Current, request: *const u8, ledger: *const Ledger) {
    if OFFSET_IO_BIO.load() == 0 || OFFSET_BIO_OPERATION.load() == 0 {
        return;
    }
    // SAFETY: a request and its first bio, if it has any, at offsets of members of these sizes that the agent
    // resolved.
    unsafe {
        let bio = follow::<M>(request, &TYPE_REQUEST, &OFFSET_IO_BIO);
        if !bio.is_null() {
            device::submits::<M>(
                current,
                ledger,
                bio,
                load::<M, u32>(bio, &OFFSET_BIO_OPERATION) & OPERATION,
            );
        }
    }
}

#[inline(always)]
fn issued<C: Arguments>(ctx: &C) -> i32 {
    if !is_known() {
        return 0;
    }
    let request = first_or_second(ctx, &IO_ARGUMENT);
    if let Some(io) = ON_THEIR_WAY.get_ptr_mut(request as u64) {
        // SAFETY: a value of a map; one CPU at a time has a request.
        unsafe {
            if (*io).issued_ns == 0 {
                (*io).issued_ns = bpf_ktime_get_ns();
                (*io).started = load::<C::Memory, u64>(request, &OFFSET_IO_START);
                return 0;
            }
        }
        if is_same::<C::Memory>(request, io) {
            return 0;
        }
        forget(request);
    }
    if HAS_IO_START.load() != 0 {
        return 0;
    }
    // The submitter itself may run this. The kernel's stamp, which uses the same clock, gives the time of the
    // submission.
    let current = Current::new();
    let Some(ledger) = current.ledger() else { return 0 };
    // SAFETY: as above; the BPF helper has no preconditions.
    let (now_ns, started_ns) =
        unsafe { (bpf_ktime_get_ns(), load::<C::Memory, u64>(request, &OFFSET_IO_START)) };
    if is_its_own(ledger, started_ns) {
        note::<C::Memory>(request, ledger, started_ns.min(now_ns), now_ns);
        submits_again::<C::Memory>(current, request, ledger);
    }
    0
}

#[inline(always)]
fn merged<C: Arguments>(ctx: &C) -> i32 {
    let request = first_or_second(ctx, &IO_ARGUMENT);
    let _ = ON_THEIR_WAY.remove(request as u64);
    0
}

#[inline(always)]
fn completed<C: Arguments>(ctx: &C) -> i32 {
    if !is_known() {
        return 0;
    }
    let request: *const u8 = ctx.at(0);
    let Some(io) = ON_THEIR_WAY.get_ptr(request as u64) else { return 0 };
    let bytes_done = ctx.at::<u64>(2) as u32;
    // SAFETY: a request, at the offset of an unsigned int.
    let bytes_left = unsafe { load::<C::Memory, u32>(request, &OFFSET_IO_BYTES) };
    if !is_same::<C::Memory>(request, io) {
        emit::count(Counter::StaleIo);
    } else if bytes_done < bytes_left {
        return 0;
    } else {
        done(io);
    }
    let _ = ON_THEIR_WAY.remove(request as u64);
    0
}

/// Whether this request is still the recorded I/O, as far as is known: the kernel stamps nothing where the
/// device's statistics are off, and an I/O that was never issued has no stamp here.
#[inline(always)]
fn is_same<M: Memory>(request: *const u8, io: *const Io) -> bool {
    // SAFETY: a request, at an offset that the agent resolved, and a value of a map.
    unsafe { (*io).issued_ns == 0 || load::<M, u64>(request, &OFFSET_IO_START) == (*io).started }
}

#[inline(always)]
fn done(io: *const Io) {
    emit::io(|record| {
        // SAFETY: the record is reserved memory of exactly this size, every field is written; the other is a
        // value of a map.
        unsafe {
            let time_ns = bpf_ktime_get_ns();
            (*record).header = Header { kind: Kind::Io as u32, flags: 0, time_ns };
            (*record).born_ns = (*io).born_ns;
            (*record).submitted_ns = (*io).submitted_ns;
            (*record).issued_ns = (*io).issued_ns;
            (*record).tid = (*io).tid;
            (*record).tgid = (*io).tgid;
        }
    });
}

/// Another I/O begins at this address: the end of the noted one was never seen.
#[inline(always)]
fn forget(request: *const u8) {
    emit::count(Counter::StaleIo);
    let _ = ON_THEIR_WAY.remove(request as u64);
}

/// Notes an I/O of the running thread.
#[inline(always)]
fn note<M: Memory>(io: *const u8, ledger: *const Ledger, submitted_ns: u64, issued_ns: u64) {
    // SAFETY: a request, at the offset of a member of this size that the agent resolved; the ledger is in a
    // map value, and its own thread runs this program.
    let noted = unsafe {
        Io {
            born_ns: (*ledger).born_ns,
            submitted_ns,
            issued_ns,
            started: load::<M, u64>(io, &OFFSET_IO_START),
            tid: (*ledger).tid,
            tgid: (*ledger).tgid,
        }
    };
    if ON_THEIR_WAY.insert(io as u64, noted, 0).is_err() {
        emit::count(Counter::LostIo);
    }
}
