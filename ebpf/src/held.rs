//! Reads that a limit of the reader's control group holds back (`io.max`, `blkio.throttle`): a worker of the
//! kernel hands them on later, and nothing in it says whose they are.
//!
//! No hook runs where a limit takes a read. So the reader is found by the pages to be read: it has put them
//! into the page cache, which is noted in pieces of 128 KiB. And the kernel's own sum of what the reader has
//! asked block devices for (`/proc/PID/io`) is ahead of what was seen of it by as much as is held back: an
//! old note, of pages that another one reads by now, is not believed. A direct read has no such pages: it is
//! taken for the one that a worker's read ended right before, and if no worker's read did, it has no device.
//! A write that is held back is nobody's.

use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, macros::map, maps::LruHashMap};
use guestscope_contract::{IO_HELD, IOS, NO_DEVICE, WAIT_HELD, ledger::Ledger};

use crate::{
    device,
    flight::Flight,
    maps::{
        FLIGHTS, LEDGERS, OFFSET_BIO_PAGES, OFFSET_FOLIO_INDEX, OFFSET_FOLIO_MAPPING, OFFSET_PAGE_HEAD,
        OFFSET_TASK_FLAGS, OFFSET_TASK_READ_BYTES, TYPE_BIO,
    },
    memory::{Memory, Plain, add, follow, load},
    pending::{self, Owner, flight_of},
    task::{Current, Task},
};

/// Pages of a piece, as a power of two: the kernel's usual reading ahead.
const PIECE: u64 = 5;
/// Spreads pieces over the keys: a large odd number.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// `PF_KTHREAD`: a thread of the kernel, which has no program.
pub(crate) const PF_KTHREAD: u32 = 0x20_0000;

/// The thread that put pages into the page cache.
#[derive(Clone, Copy)]
#[repr(C)]
struct Reader {
    owner: Owner,
    time_ns: u64,
}

/// The last readers, by pieces of files.
#[map]
static READERS: LruHashMap<u64, Reader> = LruHashMap::with_max_entries(IOS, 0);

impl Current {
    /// Its flags; 0 where they are not known.
    #[inline(always)]
    pub(crate) fn flags(self) -> u32 {
        if OFFSET_TASK_FLAGS.load() == 0 {
            return 0;
        }
        // SAFETY: the agent resolved the offset of an unsigned int.
        unsafe {
            match Self::task() {
                Some(task) => task.load(&OFFSET_TASK_FLAGS),
                None => Task::<Plain>::at(self.pointer()).load(&OFFSET_TASK_FLAGS),
            }
        }
    }

    /// The kernel's sum of what it has asked block devices for; 0 where that is not known.
    #[inline(always)]
    pub(crate) fn read_bytes(self) -> u64 {
        if OFFSET_TASK_READ_BYTES.load() == 0 {
            return 0;
        }
        // SAFETY: the agent resolved the offset of an 8-byte member.
        unsafe {
            match Self::task() {
                Some(task) => task.load(&OFFSET_TASK_READ_BYTES),
                None => Task::<Plain>::at(self.pointer()).load(&OFFSET_TASK_READ_BYTES),
            }
        }
    }
}

/// Whether all needed members are known.
#[inline(always)]
fn is_known() -> bool {
    OFFSET_TASK_READ_BYTES.load() != 0
        && OFFSET_FOLIO_MAPPING.load() != 0
        && OFFSET_FOLIO_INDEX.load() != 0
        && OFFSET_BIO_PAGES.load() != 0
        && OFFSET_PAGE_HEAD.load() != 0
}

/// The file in whose cache a page lies, and the key of its piece there; zeros for none.
///
/// # Safety
/// It must be a page for this way of reading.
#[inline(always)]
unsafe fn piece<M: Memory>(page: *const u8) -> (u64, u64) {
    // SAFETY: the caller's; the agent resolved the offsets of members of these sizes. An address that is read
    // as a typed one is no number to the verifier.
    let (file, index) = unsafe {
        (load::<M::Untyped, u64>(page, &OFFSET_FOLIO_MAPPING), load::<M, u64>(page, &OFFSET_FOLIO_INDEX))
    };
    // The low bits mark pages that are no file's.
    if file == 0 || file & 3 != 0 {
        return (0, 0);
    }
    (file, file.wrapping_add((index >> PIECE).wrapping_mul(SPREAD)))
}

/// The running thread puts a page into the page cache.
#[inline(always)]
pub(crate) fn adds<M: Memory>(page: *const u8) {
    if !is_known() {
        return;
    }
    let Some(ledger) = Current::new().ledger() else { return };
    let owner = Owner::of(ledger, 0);
    let Some(flight) = flight_of(owner.slot, owner.born_ns) else { return };
    // SAFETY: a page, and a value of a map; the BPF helper has no preconditions.
    unsafe {
        let (_, piece) = piece::<M>(page);
        if piece == 0 || piece == (*flight).piece {
            return;
        }
        (*flight).piece = piece;
        let _ = READERS.insert(piece, Reader { owner, time_ns: bpf_ktime_get_ns() }, 0);
    }
}

/// The last thread that put the first pages of a bio into the page cache, and of which file they are.
#[inline(always)]
fn reader<M: Memory>(bio: *const u8) -> Option<(Reader, *mut Flight, u64)> {
    if !is_known() {
        return None;
    }
    // SAFETY: a bio at an offset of an address that the agent resolved; what that leads to is checked by the
    // BPF helper. A tail page leads to its head, with the lowest bit set.
    let (file, piece) = unsafe {
        let pages: *const u8 = follow::<M>(bio, &TYPE_BIO, &OFFSET_BIO_PAGES);
        let page = Plain::read::<u64>(pages);
        let head = load::<Plain, u64>(page as *const u8, &OFFSET_PAGE_HEAD);
        piece::<Plain>(if head & 1 != 0 { head - 1 } else { page } as *const u8)
    };
    // SAFETY: the value is copied at once.
    let reader = unsafe { *READERS.get(piece)? };
    Some((reader, reader.owner.flight()?, file))
}

/// Bytes that a thread has asked for and that were not seen since.
#[inline(always)]
fn outstanding(ledger: &Ledger, flight: *const Flight) -> u64 {
    // SAFETY: the BPF helper checks the memory; a value of a map.
    let bytes = unsafe {
        let asked: u64 = load::<Plain, _>(ledger.task as *const u8, &OFFSET_TASK_READ_BYTES);
        asked.wrapping_sub(core::ptr::read_volatile(&raw const (*flight).read_seen))
    };
    if bytes.cast_signed() < 0 { 0 } else { bytes }
}

/// The running thread reads so many bytes, itself.
#[inline(always)]
pub(crate) fn reads(current: Current, ledger: *const Ledger, bytes: u32) {
    if OFFSET_TASK_READ_BYTES.load() == 0 {
        return;
    }
    let owner = Owner::of(ledger, 0);
    let Some(flight) = flight_of(owner.slot, owner.born_ns) else { return };
    // SAFETY: a value of a map. What a stacked device passes on is in the kernel's sum once only.
    unsafe {
        let ahead = current.read_bytes().wrapping_sub((*flight).read_seen);
        if ahead >= u64::from(bytes) && ahead.cast_signed() > 0 {
            add(&raw mut (*flight).read_seen, u64::from(bytes));
        }
    }
}

/// Somebody who is not tracked queues a read. Counts it for its reader.
#[inline(always)]
pub(crate) fn queued<M: Memory>(current: Current, bio: *const u8, bytes: u32) {
    if current.flags() & PF_KTHREAD == 0 {
        return;
    }
    let Some((reader, flight, file)) = reader::<M>(bio) else { return };
    let Some(ledger) = LEDGERS.get_ptr(reader.owner.slot) else { return };
    // SAFETY: values of maps, whose numbers are added to by one instruction each.
    unsafe {
        let is_it =
            (*ledger).born_ns == reader.owner.born_ns && outstanding(&*ledger, flight) >= u64::from(bytes);
        (*flight).held_file = if is_it { file } else { 0 };
        if is_it {
            add(&raw mut (*flight).read_seen, u64::from(bytes));
            add(&raw mut (*flight).reads, 1);
            add(&raw mut (*flight).read_bytes, u64::from(bytes));
        }
    }
}

/// Somebody who is not tracked makes a request of a read. Notes it for the reader for whom the last bio of
/// that file was queued, or for nobody that is known.
#[inline(always)]
pub(crate) fn submitted<M: Memory>(current: Current, request: *const u8, bio: *const u8) {
    if current.flags() & PF_KTHREAD == 0 || OFFSET_TASK_READ_BYTES.load() == 0 {
        return;
    }
    let device = device::number::<M>(bio);
    // SAFETY: the BPF helper has no preconditions.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let (owner, since_ns) = match reader::<M>(bio) {
        // SAFETY: a value of a map.
        Some((reader, flight, file)) if unsafe { (*flight).held_file } == file => {
            (reader.owner, reader.time_ns)
        }
        _ => (Owner::NOBODY, now_ns),
    };
    pending::note_for::<M>(request, owner.with(IO_HELD), since_ns, 0, device);
}

/// [`WAIT_HELD`] if a read of the thread that was held back was done in this wait.
#[inline(always)]
pub(crate) fn flag(ledger: &Ledger) -> u32 {
    let Some(flight) = FLIGHTS.get_ptr(u32::from(ledger.slot)) else { return 0 };
    // SAFETY: a value of a map.
    let (born_ns, done_ns) = unsafe { ((*flight).born_ns, (*flight).held_done_ns) };
    if born_ns == ledger.born_ns && device::is_within(ledger, done_ns) { WAIT_HELD } else { 0 }
}

/// The device of a wait for a read that was held back, and the flags of its record.
#[inline(always)]
pub(crate) fn waited_for(ledger: &Ledger) -> (u32, u32) {
    let Some(flight) = FLIGHTS.get_ptr_mut(u32::from(ledger.slot)) else { return (NO_DEVICE, 0) };
    // SAFETY: values of maps.
    unsafe {
        if (*flight).born_ns != ledger.born_ns {
            return (NO_DEVICE, 0);
        }
        // The wait may be for another page of what is done together, or for more of it.
        if device::is_within(ledger, (*flight).held_done_ns) {
            return ((*flight).held_device, WAIT_HELD);
        }
        let Some(nobody) = FLIGHTS.get_ptr(0) else { return (NO_DEVICE, 0) };
        if OFFSET_TASK_READ_BYTES.load() == 0 || !device::ends(ledger, (*nobody).held_done_ns) {
            return (NO_DEVICE, 0);
        }
        let bytes = outstanding(ledger, flight);
        if bytes == 0 {
            return (NO_DEVICE, 0);
        }
        add(&raw mut (*flight).read_bytes, bytes);
        add(&raw mut (*flight).reads, 1);
        add(&raw mut (*flight).read_seen, bytes);
        ((*nobody).held_device, WAIT_HELD)
    }
}
