//! Family `block`: I/O of threads on block devices, and its duration.
//!
//! Hooks, all of them tp_btf or raw_tp: block_bio_queue, in the submitter's context, yields counts and bytes
//! in the submitter's ledger, and the device of a wait that follows (`device.rs`); writeback for others
//! counts for the flusher, and each layer of a stacked device counts what it passes on. Where a limit of the
//! submitter's group holds a read back, that hook runs in the kernel's worker that hands it on; its reader is
//! found by the pages (mm_filemap_add_to_page_cache, `held.rs`). block_io_start (6.5 and later),
//! block_rq_issue and block_rq_complete follow an I/O: the first one runs in its submitter or such a worker,
//! the others anywhere, so the submitter is noted at the
//! first (`pending.rs`). At its completion a record goes out with its
//! times, by this program's own clock: the kernel's stamps are kept only on demand, or are those of a whole
//! plug. block_rq_complete comes before the waiting thread is woken, so that its record precedes the end of
//! that thread's phase. It charges no time: that is account `block_io`.
//!
//! An I/O that completes in parts is done with the last one. One that the device takes back and gets again
//! has been with it since the first time. One that is merged into another (block_rq_merge) is part of it from
//! then on, with its bytes. A request's memory is used again for a later I/O: where the end of one was
//! missed, the kernel's stamp of its start shows that this is another one.

use aya_ebpf::{Global, helpers::bpf_ktime_get_ns, macros::map, maps::Array};
use guestscope_contract::{Counter, IO_OF_RING, IO_WRITES, SLOTS, ledger::Ledger};

use crate::{
    device, emit, held,
    maps::{
        BIO_ARGUMENT, HAS_IO_START, IO_ARGUMENT, OFFSET_BIO_BYTES, OFFSET_BIO_OPERATION, OFFSET_IO_BIO,
        OFFSET_IO_BYTES, OFFSET_IO_START, TYPE_REQUEST,
    },
    memory::{Arguments, Memory, follow, load, twins},
    pending::{self, Io, Owner},
    task::Current,
    workers,
};

/// The low byte of a bio's flags, `REQ_OP_MASK`.
const OPERATION: u32 = 0xff;
/// `REQ_OP_READ`.
const READ: u32 = 0;
/// `REQ_OP_WRITE`.
const WRITE: u32 = 1;

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

/// Slot to its thread's last batch for block devices, where an I/O is first seen at its issue to the device.
#[map]
static BATCHES: Array<Batch> = Array::with_max_entries(SLOTS, 0);

twins! {
    mm_filemap_add_to_page_cache raw_mm_filemap_add_to_page_cache "mm_filemap_add_to_page_cache" cached;
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
    let bio = first_or_second(ctx, &BIO_ARGUMENT);
    let Some(ledger) = current.ledger() else {
        match workers::served_by(current) {
            Some(owner) => serves::<C::Memory>(&owner, bio),
            None => queued_by_others::<C::Memory>(current, bio),
        }
        return 0;
    };
    if HAS_IO_START.load() == 0 {
        asked(ledger);
    }
    // SAFETY: a bio, at offsets of members of these sizes that the agent resolved.
    let (operation, bytes) = unsafe {
        (
            load::<C::Memory, u32>(bio, &OFFSET_BIO_OPERATION) & OPERATION,
            load::<C::Memory, u32>(bio, &OFFSET_BIO_BYTES),
        )
    };
    device::submits::<C::Memory>(current, ledger, bio, operation);
    if operation == READ {
        held::reads(current, ledger, bytes);
    }
    counted(ledger, operation, bytes);
    0
}

/// A page comes into the page cache.
#[inline(always)]
fn cached<C: Arguments>(ctx: &C) -> i32 {
    held::adds::<C::Memory>(ctx.at(0));
    0
}

/// A task that is not tracked queues a bio, perhaps one that a limit has held back.
#[inline(always)]
fn queued_by_others<M: Memory>(current: Current, bio: *const u8) {
    // SAFETY: a bio, at offsets of members of these sizes that the agent resolved.
    let (operation, bytes) = unsafe {
        (load::<M, u32>(bio, &OFFSET_BIO_OPERATION) & OPERATION, load::<M, u32>(bio, &OFFSET_BIO_BYTES))
    };
    if operation == READ {
        held::queued::<M>(current, bio, bytes);
    }
}

/// Counts a bio of the running thread.
#[inline(always)]
fn counted(ledger: *mut Ledger, operation: u32, bytes: u32) {
    // SAFETY: a ledger in a map value, and its own thread runs this program.
    unsafe {
        if operation == READ {
            (*ledger).block_reads = (*ledger).block_reads.wrapping_add(1);
            (*ledger).block_read_bytes = (*ledger).block_read_bytes.wrapping_add(u64::from(bytes));
        } else if operation == WRITE && bytes != 0 {
            (*ledger).block_writes = (*ledger).block_writes.wrapping_add(1);
            (*ledger).block_write_bytes = (*ledger).block_write_bytes.wrapping_add(u64::from(bytes));
        }
    }
}

/// A worker of io_uring submits a bio for a thread.
#[inline(always)]
fn serves<M: Memory>(owner: &Owner, bio: *const u8) {
    // SAFETY: a bio, at offsets of members of these sizes that the agent resolved.
    let (operation, bytes) = unsafe {
        (load::<M, u32>(bio, &OFFSET_BIO_OPERATION) & OPERATION, load::<M, u32>(bio, &OFFSET_BIO_BYTES))
    };
    if operation == READ || (operation == WRITE && bytes != 0) {
        workers::submitted(owner, device::number::<M>(bio), operation == WRITE, u64::from(bytes));
    }
}

/// Flags of an I/O of the running thread with this operation. All operations that change a device are odd.
#[inline(always)]
fn flags(ledger: *const Ledger, operation: u32) -> u32 {
    let of_ring = if device::is_of_ring(ledger) { IO_OF_RING } else { 0 };
    of_ring | if operation & 1 != 0 { IO_WRITES } else { 0 }
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
    if let Some(io) = pending::of(request) {
        pending::forget(request, io);
    }
    let current = Current::new();
    let (bio, operation) = first_bio::<C::Memory>(request);
    if let Some(ledger) = current.ledger() {
        if !bio.is_null() {
            device::submits::<C::Memory>(current, ledger, bio, operation);
        }
        note_own::<C::Memory>(request, ledger, operation);
    } else if let Some(owner) = workers::served_by(current) {
        // SAFETY: the BPF helper has no preconditions.
        let now_ns = unsafe { bpf_ktime_get_ns() };
        let writes = if operation & 1 != 0 { IO_WRITES } else { 0 };
        pending::note::<C::Memory>(request, owner.with(writes), now_ns, 0);
    } else if !bio.is_null() && operation == READ {
        held::submitted::<C::Memory>(current, request, bio);
    }
    0
}

/// Notes an I/O that the running thread submits now.
#[inline(always)]
fn note_own<M: Memory>(request: *const u8, ledger: *const Ledger, operation: u32) {
    // SAFETY: the BPF helper has no preconditions.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    pending::note::<M>(request, Owner::of(ledger, flags(ledger, operation)), now_ns, 0);
}

/// The first bio of a request and its operation; null where it has none or the members are unknown.
#[inline(always)]
fn first_bio<M: Memory>(request: *const u8) -> (*const u8, u32) {
    if OFFSET_IO_BIO.load() == 0 || OFFSET_BIO_OPERATION.load() == 0 {
        return (core::ptr::null(), 0);
    }
    // SAFETY: a request and its first bio, if it has any, at offsets of members of these sizes that the agent
    // resolved.
    unsafe {
        let bio = follow::<M>(request, &TYPE_REQUEST, &OFFSET_IO_BIO);
        let operation =
            if bio.is_null() { 0 } else { load::<M, u32>(bio, &OFFSET_BIO_OPERATION) & OPERATION };
        (bio, operation)
    }
}

#[inline(always)]
fn issued<C: Arguments>(ctx: &C) -> i32 {
    if !is_known() {
        return 0;
    }
    let request = first_or_second(ctx, &IO_ARGUMENT);
    if let Some(io) = pending::of(request) {
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
        pending::forget(request, io);
    }
    if HAS_IO_START.load() == 0 {
        first_seen::<C::Memory>(request);
    }
    0
}

/// The submitter itself may be issuing this. The kernel's stamp, which uses the same clock, gives the time of
/// the submission.
#[inline(always)]
fn first_seen<M: Memory>(request: *const u8) {
    let current = Current::new();
    let Some(ledger) = current.ledger() else { return };
    // SAFETY: as above; the BPF helper has no preconditions.
    let (now_ns, started_ns) = unsafe { (bpf_ktime_get_ns(), load::<M, u64>(request, &OFFSET_IO_START)) };
    if is_its_own(ledger, started_ns) {
        let (bio, operation) = first_bio::<M>(request);
        if !bio.is_null() {
            device::submits::<M>(current, ledger, bio, operation);
        }
        let owner = Owner::of(ledger, flags(ledger, operation));
        pending::note::<M>(request, owner, started_ns.min(now_ns), now_ns);
    }
}

#[inline(always)]
fn merged<C: Arguments>(ctx: &C) -> i32 {
    let request = first_or_second(ctx, &IO_ARGUMENT);
    if let Some(io) = pending::of(request) {
        pending::leave(request, io);
    }
    0
}

#[inline(always)]
fn completed<C: Arguments>(ctx: &C) -> i32 {
    if !is_known() {
        return 0;
    }
    let request: *const u8 = ctx.at(0);
    let Some(io) = pending::of(request) else { return 0 };
    let bytes_done = ctx.at::<u64>(2) as u32;
    // SAFETY: a request, at the offset of an unsigned int.
    let bytes_left = unsafe { load::<C::Memory, u32>(request, &OFFSET_IO_BYTES) };
    if !is_same::<C::Memory>(request, io) {
        emit::count(Counter::StaleIo);
    } else if bytes_done < bytes_left {
        return 0;
    } else {
        pending::done(io);
    }
    pending::leave(request, io);
    0
}

/// Whether this request is still the recorded I/O, as far as is known: the kernel stamps nothing where the
/// device's statistics are off, and an I/O that was never issued has no stamp here.
#[inline(always)]
fn is_same<M: Memory>(request: *const u8, io: *const Io) -> bool {
    // SAFETY: a request, at an offset that the agent resolved, and a value of a map.
    unsafe { (*io).issued_ns == 0 || load::<M, u64>(request, &OFFSET_IO_START) == (*io).started }
}
