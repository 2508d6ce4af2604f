//! The block device that a thread waits for: target of its last I/O before it left its CPU.
//!
//! Submissions of I/O (family `block`) note it with their time, their system call, and how often the thread
//! had slept by then, so that a switch does nothing for it: a wait that is handed over checks that the thread
//! left its CPU in that same call (or fault), soon afterwards, and has slept once since. So a wait for what
//! others submitted (a page that another thread reads, the journal) has no device, unless the thread
//! submitted something itself right before, in the same call. It does not follow an I/O through stacked
//! devices: the last one that the thread itself submitted to is the lowest.

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use guestscope_contract::{Account, MINOR_BITS, NO_DEVICE, NO_SYSCALL, WAIT_WRITES, ledger::Ledger};

use crate::{
    maps::{
        LAST_IOS, OFFSET_BIO_DEVICE, OFFSET_BIO_DISK, OFFSET_DEVICE_NUMBER, OFFSET_DISK_MAJOR,
        OFFSET_DISK_MINOR, TYPE_BIO,
    },
    memory::{Memory, follow, load},
    task::Current,
};

/// Time from a submission until its thread leaves the CPU to wait for it: usually some us, measured up to 40
/// us. Readahead that is waited for later takes longer.
const SOON_NS: u64 = 1_000_000;

/// Target of a thread's last I/O. Only its own thread writes it, and reads it when it is on a CPU again.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct LastIo {
    /// Birth of its thread: a slot is given to other threads later.
    born_ns: u64,
    /// Count of that thread's sleeps.
    voluntary: u32,
    device: u32,
    /// The I/O writes to the device.
    is_write: u16,
    /// The system call of the submission, [`NO_SYSCALL`] in a fault.
    syscall: u16,
    reserved: u32,
    time_ns: u64,
}

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
        let (is_write, time_ns) = ((operation & 1) as u16, bpf_ktime_get_ns());
        *last = LastIo { born_ns, voluntary, device, is_write, syscall, reserved: 0, time_ns };
    }
}

/// Number of a bio's device in the kernel's format; [`NO_DEVICE`] where it cannot be read.
#[inline(always)]
fn number<M: Memory>(bio: *const u8) -> u32 {
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

/// The device of the wait that has ended, and the flags of its record.
#[inline(always)]
pub(crate) fn waited_for(ledger: &Ledger) -> (u32, u32) {
    if ledger.account != Account::BlockIo as u8 && ledger.account != Account::Fault as u8 {
        return (NO_DEVICE, 0);
    }
    let Some(last) = LAST_IOS.get_ptr(u32::from(ledger.slot)) else { return (NO_DEVICE, 0) };
    // SAFETY: a value of a map, which its own thread alone writes, and that is being switched in.
    unsafe {
        // The wait itself is the only sleep since.
        if (*last).born_ns != ledger.born_ns || (*last).voluntary.wrapping_add(1) != ledger.voluntary {
            return (NO_DEVICE, 0);
        }
        let is_soon = ledger.left_ns.wrapping_sub((*last).time_ns) <= SOON_NS;
        if (*last).syscall != ledger.syscall || !is_soon || (*last).device == 0 {
            return (NO_DEVICE, 0);
        }
        ((*last).device, if (*last).is_write != 0 { WAIT_WRITES } else { 0 })
    }
}
