//! The block device that a thread waits for: target of its last I/O before it left its CPU.
//!
//! Submissions of I/O (family `block`) note it with their time, their system call, and how often the thread
//! had slept by then, so that a switch does nothing for it: a wait that is handed over checks that the thread
//! left its CPU in that same call (or fault), soon afterwards, and has slept once since. Or that an I/O of
//! its own was done right before it was woken: it may have read ahead in an earlier call, or be woken for
//! each part of what it asked for. So a wait for what others submitted (a page that another thread reads, the
//! journal) has no device, unless the thread's own I/O is close to its begin or its end, in the same call. A
//! wait in `io_uring_enter` has one while I/Os are under way that the thread asked for there. It does not
//! follow an I/O through stacked devices: the last one that the thread itself submitted to is the lowest.

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use guestscope_contract::{
    Account, IO_URING_ENTER, MINOR_BITS, NO_DEVICE, NO_SYSCALL, WAIT_WRITES, ledger::Ledger, under_way,
};

use crate::{
    maps::{
        FLIGHTS, LAST_IOS, OFFSET_BIO_DEVICE, OFFSET_BIO_DISK, OFFSET_DEVICE_NUMBER, OFFSET_DISK_MAJOR,
        OFFSET_DISK_MINOR, TYPE_BIO,
    },
    memory::{Memory, follow, load},
    pending::flight_of,
    task::Current,
    words,
};

/// Time from a submission until its thread leaves the CPU to wait for it: usually some us, measured up to 40
/// us. Readahead that is waited for later takes longer.
const SOON_NS: u64 = 1_000_000;
/// Time from the end of an I/O until the thread that waits for it is woken.
const AT_ONCE_NS: u64 = 200_000;

/// The thread of this ledger, which runs this program, submits a bio of this operation.
#[inline(always)]
pub(crate) fn submits<M: Memory>(current: Current, ledger: *const Ledger, bio: *const u8, operation: u32) {
    let device = number::<M>(bio);
    let call = current.call();
    let syscall = if call < 0 { NO_SYSCALL } else { call as u16 };
    // SAFETY: a ledger in a map value, of the thread that runs this program.
    let (slot, voluntary, born_ns) =
        unsafe { (u32::from((*ledger).slot), (*ledger).voluntary, (*ledger).born_ns) };
    let Some(last) = LAST_IOS.get_ptr_mut(slot) else { return };
    // SAFETY: a value of a map, which only its own thread writes; the BPF helper has no preconditions. All
    // operations that change a device are odd.
    unsafe {
        // The paths of a multipath device are hidden and have no number: the I/O went to the device before.
        let is_hidden = device == 0 && (*last).born_ns == born_ns;
        let device = if is_hidden { (*last).device } else { device };
        if (*last).born_ns != born_ns {
            words::clear(last);
            (*last).born_ns = born_ns;
        }
        (*last).voluntary = voluntary;
        (*last).device = device;
        (*last).is_write = (operation & 1) as u16;
        (*last).syscall = syscall;
        (*last).time_ns = bpf_ktime_get_ns();
        if syscall == IO_URING_ENTER
            && let Some(flight) = flight_of(slot, born_ns)
        {
            (*flight).device = device;
            (*flight).is_write = operation & 1;
        }
    }
}

/// Number of a bio's device in the kernel's format; [`NO_DEVICE`] where it cannot be read.
#[inline(always)]
pub(crate) fn number<M: Memory>(bio: *const u8) -> u32 {
    // SAFETY: a bio and what it leads to, at offsets of members of these sizes that the agent resolved.
    unsafe {
        if OFFSET_BIO_DEVICE.load() != 0 && OFFSET_DEVICE_NUMBER.load() != 0 {
            let device = follow::<M>(bio, &TYPE_BIO, &OFFSET_BIO_DEVICE);
            return load::<M, u32>(device, &OFFSET_DEVICE_NUMBER);
        }
        if OFFSET_BIO_DISK.load() != 0 && OFFSET_DISK_MINOR.load() != 0 {
            let disk = follow::<M>(bio, &TYPE_BIO, &OFFSET_BIO_DISK);
            let major: u32 = load::<M, u32>(disk, &OFFSET_DISK_MAJOR);
            return major << MINOR_BITS | load::<M, u32>(disk, &OFFSET_DISK_MINOR);
        }
    }
    NO_DEVICE
}

/// Whether the running thread's last I/O was asked for in `io_uring_enter`.
#[inline(always)]
pub(crate) fn is_of_ring(ledger: *const Ledger) -> bool {
    // SAFETY: a ledger in a map value, and a value of a map that only its own thread writes.
    unsafe {
        match LAST_IOS.get_ptr(u32::from((*ledger).slot)) {
            Some(last) => (*last).syscall == IO_URING_ENTER && (*last).born_ns == (*ledger).born_ns,
            None => false,
        }
    }
}

/// Whether that instant lies in the wait.
#[inline(always)]
pub(crate) fn is_within(ledger: &Ledger, done_ns: u64) -> bool {
    done_ns >= ledger.left_ns && done_ns <= ledger.ready_ns
}

/// Whether it lies right before the wait's end.
#[inline(always)]
pub(crate) fn ends(ledger: &Ledger, done_ns: u64) -> bool {
    is_within(ledger, done_ns) && ledger.ready_ns - done_ns <= AT_ONCE_NS
}

/// The device of the wait that has ended, and the flags of its record, by what the thread itself has
/// submitted.
#[inline(always)]
pub(crate) fn by_submission(ledger: &Ledger) -> (u32, u32) {
    let Some(last) = LAST_IOS.get_ptr(u32::from(ledger.slot)) else { return (NO_DEVICE, 0) };
    // SAFETY: a value of a map, which its own thread alone writes, and that is being switched in.
    unsafe {
        if (*last).born_ns != ledger.born_ns || (*last).syscall != ledger.syscall || (*last).device == 0 {
            return (NO_DEVICE, 0);
        }
        // The wait itself is the only sleep since.
        let is_first = (*last).voluntary.wrapping_add(1) == ledger.voluntary;
        if is_first && ledger.left_ns.wrapping_sub((*last).time_ns) <= SOON_NS {
            return ((*last).device, if (*last).is_write != 0 { WAIT_WRITES } else { 0 });
        }
        by_end(ledger, (*last).device)
    }
}

/// The same of a wait that ended with an I/O of its thread.
#[inline(always)]
fn by_end(ledger: &Ledger, device: u32) -> (u32, u32) {
    let Some(flight) = FLIGHTS.get_ptr(u32::from(ledger.slot)) else { return (NO_DEVICE, 0) };
    // SAFETY: a value of a map.
    let (born_ns, read_ns, write_ns, held_ns) = unsafe {
        ((*flight).born_ns, (*flight).read_done_ns, (*flight).write_done_ns, (*flight).held_done_ns)
    };
    // A fault waits for what is read.
    let is_write = ledger.account != Account::Fault as u8 && write_ns > read_ns;
    let done_ns = if is_write { write_ns } else { read_ns };
    if born_ns != ledger.born_ns || done_ns == held_ns || !ends(ledger, done_ns) {
        return (NO_DEVICE, 0);
    }
    (device, if is_write { WAIT_WRITES } else { 0 })
}

/// The same of a wait for what io_uring does: while reads or writes are under way, with their numbers.
#[inline(always)]
pub(crate) fn by_ring(ledger: &Ledger) -> (u32, u32) {
    let Some(flight) = FLIGHTS.get_ptr(u32::from(ledger.slot)) else { return (NO_DEVICE, 0) };
    // SAFETY: a value of a map.
    unsafe {
        if (*flight).born_ns != ledger.born_ns {
            return (NO_DEVICE, 0);
        }
        let counts = under_way((*flight).ring_reads, (*flight).ring_writes);
        if counts == 0 && (*flight).ring_done_ns < ledger.left_ns {
            return (NO_DEVICE, 0);
        }
        ((*flight).device, counts | if (*flight).is_write != 0 { WAIT_WRITES } else { 0 })
    }
}
