//! I/Os of threads that are under way: whose they are, and what their threads' waits need to know of them.
//!
//! Hooks of family `block` note an I/O here and end it here. The submitter is the thread that first asked for
//! it: not the kernel's worker that hands on what a limit of a group has held back (`held.rs`), nor the
//! kernel threads that carry out io_uring's work inside a process (`workers.rs`).

use aya_ebpf::{helpers::bpf_ktime_get_ns, macros::map, maps::HashMap};
use guestscope_contract::{Counter, Header, IO_HELD, IO_OF_RING, IO_WRITES, IOS, Kind, ledger::Ledger};

use crate::{
    emit,
    flight::Flight,
    maps::{FLIGHTS, OFFSET_IO_START},
    memory::{Memory, add, load},
    words,
};

/// The thread that an I/O is of.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Owner {
    pub(crate) born_ns: u64,
    pub(crate) tid: u32,
    pub(crate) tgid: u32,
    /// The slot of its ledger; 0 for nobody that is known.
    pub(crate) slot: u32,
    /// [`IO_WRITES`], [`IO_OF_RING`], [`IO_HELD`].
    pub(crate) flags: u32,
}

impl Owner {
    /// No thread that is known.
    pub(crate) const NOBODY: Self = Owner { born_ns: 0, tid: 0, tgid: 0, slot: 0, flags: 0 };

    /// The thread of this ledger.
    #[inline(always)]
    pub(crate) fn of(ledger: *const Ledger, flags: u32) -> Self {
        // SAFETY: a ledger in a map value.
        unsafe {
            Owner {
                born_ns: (*ledger).born_ns,
                tid: (*ledger).tid,
                tgid: (*ledger).tgid,
                slot: u32::from((*ledger).slot),
                flags,
            }
        }
    }

    /// The same I/O with these flags.
    #[inline(always)]
    pub(crate) fn with(self, flags: u32) -> Self {
        Owner { flags: self.flags | flags, ..self }
    }

    /// What its thread knows of its I/Os; none if the slot has another thread by now.
    #[inline(always)]
    pub(crate) fn flight(&self) -> Option<*mut Flight> {
        let flight = FLIGHTS.get_ptr_mut(self.slot)?;
        // SAFETY: a value of a map.
        if unsafe { (*flight).born_ns } == self.born_ns { Some(flight) } else { None }
    }
}

/// A pending I/O of a tracked thread.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Io {
    pub(crate) owner: Owner,
    submitted_ns: u64,
    /// Time of its issue to the device; 0 before.
    pub(crate) issued_ns: u64,
    /// The kernel's own stamp of its start, as of its issue to the device (until then it may change):
    /// compared only.
    pub(crate) started: u64,
    /// Its device, for one that was held back.
    device: u64,
}

/// The place of a thread's flight, empty if it was another thread's. Run by the thread itself.
#[inline(always)]
pub(crate) fn flight_of(slot: u32, born_ns: u64) -> Option<*mut Flight> {
    let flight = FLIGHTS.get_ptr_mut(slot)?;
    // SAFETY: a value of a map, of whole words.
    unsafe {
        if (*flight).born_ns != born_ns {
            words::clear(flight);
            (*flight).born_ns = born_ns;
        }
    }
    Some(flight)
}

/// A thread that ran before begins to be tracked: the kernel's sum of what it has read.
#[inline(always)]
pub(crate) fn begins(ledger: *const Ledger, read_bytes: u64) {
    let owner = Owner::of(ledger, 0);
    if let Some(flight) = flight_of(owner.slot, owner.born_ns) {
        // SAFETY: a value of a map, which nobody else knows yet.
        unsafe { (*flight).read_seen = read_bytes };
    }
}

/// Adds to the running thread's ledger what others have submitted for it since.
#[inline(always)]
pub(crate) fn settle(ledger: *mut Ledger) {
    let owner = Owner::of(ledger, 0);
    let Some(flight) = owner.flight() else { return };
    // SAFETY: a value of a map. Only this thread takes from the numbers, so that they never fall below 0.
    unsafe {
        let take = |number: *mut u64| {
            let taken = core::ptr::read_volatile(number);
            if taken != 0 {
                add(number, taken.wrapping_neg());
            }
            taken
        };
        let (reads, read_bytes) = (take(&raw mut (*flight).reads), take(&raw mut (*flight).read_bytes));
        let (writes, write_bytes) = (take(&raw mut (*flight).writes), take(&raw mut (*flight).write_bytes));
        if reads | read_bytes | writes | write_bytes == 0 {
            return;
        }
        (*ledger).block_reads = (*ledger).block_reads.wrapping_add(reads as u32);
        (*ledger).block_read_bytes = (*ledger).block_read_bytes.wrapping_add(read_bytes);
        (*ledger).block_writes = (*ledger).block_writes.wrapping_add(writes as u32);
        (*ledger).block_write_bytes = (*ledger).block_write_bytes.wrapping_add(write_bytes);
    }
}

/// Pending I/Os by the addresses of their requests, which the kernel reuses for later ones.
#[map]
static ON_THEIR_WAY: HashMap<u64, Io> = HashMap::with_max_entries(IOS, 0);

/// The I/O of this request, if it is of a tracked thread.
#[inline(always)]
pub(crate) fn of(request: *const u8) -> Option<*mut Io> {
    ON_THEIR_WAY.get_ptr_mut(request as u64)
}

/// Notes an I/O of a thread.
#[inline(always)]
pub(crate) fn note<M: Memory>(request: *const u8, owner: Owner, submitted_ns: u64, issued_ns: u64) {
    note_for::<M>(request, owner, submitted_ns, issued_ns, 0);
}

/// The same for a device.
#[inline(always)]
pub(crate) fn note_for<M: Memory>(
    request: *const u8,
    owner: Owner,
    submitted_ns: u64,
    issued_ns: u64,
    device: u32,
) {
    // SAFETY: a request, at the offset of a member of this size that the agent resolved.
    let started = unsafe { load::<M, u64>(request, &OFFSET_IO_START) };
    let io = Io { owner, submitted_ns, issued_ns, started, device: u64::from(device) };
    if ON_THEIR_WAY.insert(request as u64, io, 0).is_err() {
        emit::count(Counter::LostIo);
        return;
    }
    if owner.flags & IO_OF_RING != 0
        && let Some(flight) = owner.flight()
    {
        change(flight, owner.flags, 1);
    }
}

/// One more or one less of the ring's I/Os is under way.
#[inline(always)]
fn change(flight: *mut Flight, flags: u32, by: u64) {
    // SAFETY: a value of a map.
    unsafe {
        let number = if flags & IO_WRITES != 0 {
            &raw mut (*flight).ring_writes
        } else {
            &raw mut (*flight).ring_reads
        };
        add(number, by);
    }
}

/// The I/O of this request is over, or part of another one from now on.
#[inline(always)]
pub(crate) fn leave(request: *const u8, io: *const Io) {
    // SAFETY: a value of a map.
    let owner = unsafe { (*io).owner };
    if owner.flags & IO_OF_RING != 0
        && let Some(flight) = owner.flight()
    {
        change(flight, owner.flags, u64::MAX);
    }
    let _ = ON_THEIR_WAY.remove(request as u64);
}

/// Another I/O begins at this address: the end of the noted one was never seen.
#[inline(always)]
pub(crate) fn forget(request: *const u8, io: *const Io) {
    emit::count(Counter::StaleIo);
    leave(request, io);
}

/// It is done: hands over its record.
#[inline(always)]
pub(crate) fn done(io: *const Io) {
    // SAFETY: a value of a map; the BPF helper has no preconditions.
    let (owner, time_ns) = unsafe { ((*io).owner, bpf_ktime_get_ns()) };
    if owner.slot != 0 {
        emit_done(io, owner, time_ns);
    }
    let Some(flight) = owner.flight() else { return };
    // SAFETY: a value of a map; of two CPUs that write a stamp at once either one is right.
    unsafe {
        if owner.flags & IO_OF_RING != 0 {
            (*flight).ring_done_ns = time_ns;
        }
        if owner.flags & IO_HELD != 0 {
            (*flight).held_device = (*io).device as u32;
            (*flight).held_done_ns = time_ns;
        }
        if owner.flags & IO_WRITES != 0 {
            (*flight).write_done_ns = time_ns;
        } else {
            (*flight).read_done_ns = time_ns;
        }
    }
}

#[inline(always)]
fn emit_done(io: *const Io, owner: Owner, time_ns: u64) {
    emit::io(|record| {
        // SAFETY: the record is reserved memory of exactly this size, every field is written; the other is a
        // value of a map.
        unsafe {
            (*record).header = Header { kind: Kind::Io as u32, flags: owner.flags, time_ns };
            (*record).born_ns = owner.born_ns;
            (*record).submitted_ns = (*io).submitted_ns;
            (*record).issued_ns = (*io).issued_ns;
            (*record).tid = owner.tid;
            (*record).tgid = owner.tgid;
        }
    });
}
