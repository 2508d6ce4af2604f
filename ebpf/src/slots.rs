//! Slots of ledgers: taken for a thread, and freed.

use guestscope_contract::{Counter, ledger::Ledger};

use crate::{
    beside, calls, driver,
    emit::count,
    maps::{FREE, LEDGERS},
    process,
    task::{set_slot, slot_of},
    wait,
    words::clear,
};

/// Takes a slot for a thread, clears it and points the number to it. Without one the task counts as missed.
#[inline(always)]
pub(crate) fn create(tid: u32, tgid: u32, address: u64) -> Option<*mut Ledger> {
    let Some(ledger) = prepare(tid, tgid, address) else {
        count(Counter::MissedTask);
        process::misses(tgid);
        return None;
    };
    // SAFETY: a ledger in a map value.
    set_slot(tid, unsafe { (*ledger).slot });
    Some(ledger)
}

/// Takes a slot for a thread and clears it. No number points to it yet.
#[inline(always)]
pub(crate) fn prepare(tid: u32, tgid: u32, address: u64) -> Option<*mut Ledger> {
    let mut slot = u32::from(slot_of(tid));
    if slot == 0 {
        slot = FREE.pop().ok().flatten().unwrap_or(0);
    } else {
        // The end of its last holder was not seen; the slot is reused.
        count(Counter::StaleSlot);
        if let Some(gone) = LEDGERS.get_ptr(slot) {
            // SAFETY: a ledger in a map value, whose thread is gone.
            process::leave(unsafe { &*gone });
        }
    }
    if slot == 0 {
        return None;
    }
    beside::forget(slot);
    wait::forget_edges(slot);
    calls::forget(slot as u16);
    driver::forget(slot as u16);
    let ledger = LEDGERS.get_ptr_mut(slot)?;
    // SAFETY: a ledger in a map value; nobody points to this slot yet, or its holder is gone.
    unsafe {
        clear(ledger);
        (*ledger).task = address;
        (*ledger).tid = tid;
        (*ledger).tgid = tgid;
        (*ledger).slot = slot as u16;
        process::join(&mut *ledger);
    }
    Some(ledger)
}

/// Frees a slot. The ledger's task is cleared, so that a late user of the old number finds none.
#[inline(always)]
pub(crate) fn release(slot: u16) {
    if let Some(ledger) = LEDGERS.get_ptr_mut(u32::from(slot)) {
        // SAFETY: a ledger in a map value.
        unsafe { (*ledger).task = 0 };
    }
    let slot = u32::from(slot);
    if slot != 0 {
        let _ = FREE.push(slot, 0);
    }
}
