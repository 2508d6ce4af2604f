//! The threads of a process, which `sum` adds up for an edge.
//!
//! A thread joins where its ledger is made and leaves where it ends; in between nothing is written here, so a
//! switch costs nothing. Threads of one process are born and end on several CPUs at once: a place is claimed
//! through a hash map, where only one of two claims succeeds, and sums are added by atomic instructions
//! without a result, which every kernel has. `helpers` of the contract decides what counts.

use core::arch::asm;

use aya_ebpf::{bindings::BPF_NOEXIST, helpers::bpf_ktime_get_ns};
use guestscope_contract::{
    ACCOUNTS,
    helpers::{MEMBERS, NO_PLACE, Outside, Process},
    ledger::Ledger,
};

use crate::{
    maps::{FREE_PROCESSES, OUTSIDE, PLACES, PROCESS_OF, PROCESSES},
    memory::add,
    untracked, words,
};

macro_rules! read {
    ($of:ident.$field:ident) => {
        core::ptr::read_volatile(&raw const (*$of).$field)
    };
}
pub(crate) use read;

/// The thread of this new ledger joins its process.
#[inline(always)]
pub(crate) fn join(ledger: &mut Ledger) {
    if let Some(outside) = OUTSIDE.get_ptr_mut(u32::from(ledger.slot)) {
        // SAFETY: a value of a map, whose slot no other thread uses.
        unsafe { words::clear(outside) };
    }
    ledger.place = NO_PLACE;
    let mut number = enter(ledger.tgid);
    if number == GONE {
        number = enter(ledger.tgid);
    }
    if number == GONE {
        number = 0;
    }
    ledger.process = number as u16;
    if number == 0 {
        return;
    }
    let Some(process) = PROCESSES.get_ptr_mut(number) else { return };
    let mut word = 0;
    while word < WORDS {
        // SAFETY: a process in a map value, and the index is inside the array.
        let mut free = unsafe { !core::ptr::read_volatile(taken(process, word)) };
        let mut attempt = 0;
        while attempt < ATTEMPTS && free != 0 {
            if take(process, word, free, ledger) {
                return;
            }
            free &= free.wrapping_sub(1);
            attempt += 1;
        }
        word += 1;
    }
    // SAFETY: as above.
    unsafe { add(&raw mut (*process).unlisted, 1) };
}

/// Words of the bit mask of a process's places.
pub(crate) const WORDS: usize = MEMBERS / 64;
/// Threads born at one instant that may all want one place, in each word.
const ATTEMPTS: u32 = 4;
/// Marks a process slot that was freed in the meantime.
const GONE: u32 = u32::MAX;

/// Adds a thread to a process: returns the process's slot, 0 if none is free.
#[inline(always)]
fn enter(tgid: u32) -> u32 {
    let number = number(tgid);
    if number == 0 {
        return 0;
    }
    let Some(process) = PROCESSES.get_ptr_mut(number) else { return 0 };
    // SAFETY: a process in a map value.
    unsafe { add(&raw mut (*process).threads, 1) };
    // In a process that is being attached to, the last tracked thread may have ended in between.
    // SAFETY: the value is read at once.
    match unsafe { PROCESS_OF.get(tgid) } {
        Some(again) if *again == number => number,
        _ => {
            // SAFETY: as above.
            unsafe { add(&raw mut (*process).threads, u64::MAX) };
            GONE
        }
    }
}

/// Takes the first of the free places, unless another thread was faster.
#[inline(always)]
fn take(process: *mut Process, word: usize, free: u64, ledger: &mut Ledger) -> bool {
    let bit = free & free.wrapping_neg();
    let place = word as u32 * 64 + number_of(bit);
    if PLACES.insert(key(u32::from(ledger.process), place), 1, u64::from(BPF_NOEXIST)).is_err() {
        return false;
    }
    // SAFETY: a place in a map value; only the thread that claimed it writes it and its bit, so that adding
    // sets it.
    unsafe {
        core::ptr::write_volatile(member(process, place), ledger.slot);
        add(taken(process, word), bit);
    }
    ledger.place = place as u16;
    true
}

/// Index of a single bit: the number of bits below it. BPF cannot count bits, and branches would be 64 ways
/// for a verifier to follow.
#[inline(always)]
fn number_of(bit: u64) -> u32 {
    let mut below = bit.wrapping_sub(1);
    // SAFETY: an empty instruction. Without it the compiler recognises a bit count and uses an instruction
    // that BPF lacks.
    unsafe { asm!("{below} = {below}", below = inout(reg) below, options(nomem, nostack)) };
    below -= below >> 1 & 0x5555_5555_5555_5555;
    below = (below & 0x3333_3333_3333_3333) + (below >> 2 & 0x3333_3333_3333_3333);
    below = (below + (below >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    (below.wrapping_mul(0x0101_0101_0101_0101) >> 56) as u32
}

#[inline(always)]
pub(crate) fn taken(process: *mut Process, word: usize) -> *mut u64 {
    // SAFETY: the mask keeps the index inside the array.
    unsafe { (&raw mut (*process).taken).cast::<u64>().add(word & (WORDS - 1)) }
}

#[inline(always)]
fn key(number: u32, place: u32) -> u32 {
    number << 8 | place
}

#[inline(always)]
pub(crate) fn member(process: *mut Process, place: u32) -> *mut u16 {
    // SAFETY: the mask keeps the index inside the list.
    unsafe { (&raw mut (*process).members).cast::<u16>().add((place & (MEMBERS as u32 - 1)) as usize) }
}

/// A thread of this process got no ledger, so the sums of its edges lack it.
#[inline(always)]
pub(crate) fn misses(tgid: u32) {
    untracked::process(tgid);
    // SAFETY: the number is read at once, and the process is in a map value.
    unsafe {
        let process = PROCESS_OF.get(tgid).and_then(|number| PROCESSES.get_ptr_mut(*number));
        let _ = process.map(|process| add(&raw mut (*process).unlisted, 1));
    }
}

/// The number of a process, a new one if it has none; 0 if none is free.
#[inline(always)]
fn number(tgid: u32) -> u32 {
    // SAFETY: the value is read at once. An entry removed in between belonged to a process whose last tracked
    // thread has just ended.
    if let Some(number) = unsafe { PROCESS_OF.get(tgid) } {
        return *number;
    }
    let number = FREE_PROCESSES.pop().ok().flatten().unwrap_or(0);
    if number == 0 {
        return 0;
    }
    let Some(process) = PROCESSES.get_ptr_mut(number) else { return 0 };
    // SAFETY: a value of a map, whose slot no other process uses.
    unsafe { words::clear(process) };
    if PROCESS_OF.insert(tgid, number, u64::from(BPF_NOEXIST)).is_err() {
        // Another thread of the process was faster.
        let _ = FREE_PROCESSES.push(number, 0);
        // SAFETY: as above.
        return unsafe { PROCESS_OF.get(tgid) }.copied().unwrap_or(0);
    }
    number
}

/// A process begins under this number: the one before is gone, seen or not. Late ends find another number
/// here, or none, and give nothing back: such a number is lost for the rest of the run, which takes a process
/// number that comes round before its old threads were freed.
#[inline(always)]
pub(crate) fn forget(tgid: u32) {
    let _ = PROCESS_OF.remove(tgid);
    untracked::forget(tgid);
}

/// The thread of this ledger ends, its accounts settled: its time outside phases stays with its process.
#[inline(always)]
pub(crate) fn leave(ledger: &Ledger) {
    let number = u32::from(ledger.process);
    if number == 0 {
        return;
    }
    let Some(process) = PROCESSES.get_ptr_mut(number) else { return };
    // SAFETY: a process in a map value.
    unsafe { add(&raw mut (*process).leaving, 1) };
    if ledger.place != NO_PLACE {
        let place = u32::from(ledger.place);
        hand_over(process, ledger);
        // SAFETY: a place in a map value, which this thread holds, and its bit is set.
        unsafe {
            add(taken(process, (place >> 6) as usize), (1_u64 << (place & 63)).wrapping_neg());
            core::ptr::write_volatile(member(process, place), 0);
        }
        let _ = PLACES.remove(key(number, place));
    }
    // SAFETY: as above.
    let threads = unsafe {
        add(&raw mut (*process).left, 1);
        add(&raw mut (*process).threads, u64::MAX);
        read!(process.threads)
    };
    if threads != 0 {
        return;
    }
    // SAFETY: the value is read at once.
    let is_its = match unsafe { PROCESS_OF.get(ledger.tgid) } {
        Some(current) => *current == number,
        None => false,
    };
    // Two threads that end at once may both see none left; only one of them removes the entry.
    if is_its && PROCESS_OF.remove(ledger.tgid).is_ok() {
        let _ = FREE_PROCESSES.push(number, 0);
    }
}

#[inline(always)]
fn hand_over(process: *mut Process, ledger: &Ledger) {
    let Some(outside) = OUTSIDE.get_ptr(u32::from(ledger.slot)) else { return };
    // SAFETY: values of maps; the thread is past its last edge.
    unsafe {
        let mut account = 0;
        while account < ACCOUNTS {
            let ended = (&raw mut (*process).ended).cast::<u64>().add(account);
            add(ended, (*outside).share(ledger, ledger.since_ns, account));
            account += 1;
        }
    }
}

/// The thread of this ledger has a new program: it is inside no phase.
#[inline(always)]
pub(crate) fn replaced(ledger: &Ledger, now_ns: u64) {
    if let Some(process) = PROCESSES.get_ptr_mut(u32::from(ledger.process)) {
        // SAFETY: a process in a map value.
        unsafe { add(&raw mut (*process).replaced, 1) };
    }
    let Some(outside) = OUTSIDE.get_ptr_mut(u32::from(ledger.slot)) else { return };
    // SAFETY: a value of a map, which only its own thread writes.
    unsafe {
        if (*outside).depth != 0 {
            (*outside).become_(0, ledger, now_ns);
        }
    }
}

/// The program that runs in the process of this ledger, by a number that no program before it in the process
/// had: see [`Goroutine::program`](guestscope_contract::calls::Goroutine::program).
///
/// # Safety
/// A whole ledger.
#[inline(always)]
pub(crate) unsafe fn program(ledger: *const Ledger) -> u64 {
    // SAFETY: the caller's, and a process in a map value.
    unsafe {
        let replaced = match PROCESSES.get_ptr(u32::from(read!(ledger.process))) {
            Some(process) => read!(process.replaced),
            None => 0,
        };
        replaced << 32 | u64::from(read!(ledger.tgid))
    }
}

/// A sample met a thread on a CPU.
#[inline(always)]
pub(crate) fn sampled(ledger: *const Ledger) {
    // SAFETY: a ledger in a map value, of the thread that is running.
    let (process, tid) = unsafe { (u32::from((*ledger).process), (*ledger).tid) };
    if process == 0 {
        return;
    }
    if let Some(process) = PROCESSES.get_ptr_mut(process) {
        // SAFETY: words of a map value, each written whole; of two threads that are sampled at once either
        // will do. The BPF helper has no preconditions.
        unsafe {
            core::ptr::write_volatile(&raw mut (*process).sampled_ns, bpf_ktime_get_ns());
            core::ptr::write_volatile(&raw mut (*process).sampled_tid, u64::from(tid));
        }
    }
}

/// Another thread of its process that the last sample met during the wait of this ledger's thread; 0 if none.
#[inline(always)]
pub(crate) fn beside(ledger: &Ledger) -> u32 {
    let Some(process) = PROCESSES.get_ptr(u32::from(ledger.process)) else { return 0 };
    // SAFETY: words of a map value.
    let (sampled_ns, tid) = unsafe { (read!(process.sampled_ns), read!(process.sampled_tid) as u32) };
    if sampled_ns > ledger.left_ns && tid != ledger.tid { tid } else { 0 }
}

const _: () = assert!(size_of::<Process>().is_multiple_of(8) && size_of::<Outside>().is_multiple_of(8));
