//! The sum over the threads of a process that an edge carries: see the contract's `helpers`.

use guestscope_contract::{
    ACCOUNTS, Account, Counter, EDGE_HELPERS_TORN, EdgeRecord, ends_another,
    helpers::{self, NO_PLACE, Reading},
};

use crate::{
    emit::count,
    maps::{LEDGERS, MAY_THIN, OUTSIDE, PROCESSES, STAGES},
    process::{WORDS, member, read, taken},
    quota, thinning,
};

/// Sums the process into a staged edge, whose ledger is corrected and whose flags are set, and records the
/// edge's effect on its own thread: by its `head`, and by the number of phases that have `ended` as well, of
/// which the thread was inside more. False if the edge is not to be handed over.
///
/// # Safety
/// `stage` must point to a whole record in a map value.
#[inline(always)]
pub(crate) unsafe fn edge(stage: *mut EdgeRecord, now_ns: u64, head: u64, ended: u16) -> bool {
    // SAFETY: the caller's.
    unsafe {
        let sum = &raw mut (*stage).helpers;
        let number = u32::from((*stage).ledger.process);
        let Some(process) = PROCESSES.get_ptr_mut(number) else { return true };
        let Some(own) = OUTSIDE.get_ptr_mut(u32::from((*stage).ledger.slot)) else { return true };
        let [first, second, _, fourth] = (*stage).arguments;
        let token = (*stage).token;
        let is_seen = thinning::choose(own, head, token, second, (*stage).ledger.tgid);
        let ended = ended + u16::from(ends_another(head, token, second, fourth));
        if (*own).depth > ended {
            (*own).depth -= ended;
        }
        (*own).edge(head, token, first, &(*stage).ledger, now_ns);
        if MAY_THIN.load() != 0 {
            (*own).chosen(head, is_seen);
        }
        if !is_seen {
            // Waits from here on follow the last edge that the agent will see.
            (*stage).operation = (*own).last;
            return false;
        }
        (*stage).left_out = (*own).left_out as u32;
        (*stage).unseen_threads = 0;
        let left = read!(process.left);
        let mut account = 0;
        while account < ACCOUNTS {
            let ended = (&raw const (*process).ended).cast::<u64>().add(account);
            let mut ns = core::ptr::read_volatile(ended);
            // A thread that no other edge can see would come and go with its own edges.
            if (*stage).ledger.place != NO_PLACE {
                ns = ns.wrapping_add((*own).share(&(*stage).ledger, now_ns, account));
            }
            (*sum).accounts[account] = ns;
            account += 1;
        }
        (*sum).threads = 1;
        (*sum).unlisted = if number == 0 { 1 } else { read!(process.unlisted) as u32 };
        let own_slot = (*stage).ledger.slot;
        let mut flags = 0;
        let mut word = 0;
        while word < WORDS {
            let mut rest = core::ptr::read_volatile(taken(process, word));
            let mut place = word as u32 * 64;
            while place < (word as u32 + 1) * 64 && rest != 0 {
                if rest & 1 != 0 {
                    let slot = core::ptr::read_volatile(member(process, place));
                    if slot != 0 && slot != own_slot {
                        flags |= add_member(u32::from(own_slot), u32::from(slot), now_ns);
                    }
                }
                rest >>= 1;
                place += 1;
            }
            word += 1;
        }
        if flags != 0 || read!(process.leaving) != left {
            (*stage).header.flags |= EDGE_HELPERS_TORN;
            count(Counter::TornSum);
        }
    }
    true
}

/// Adds the thread of a slot to the sum in the stage of another one: 0, or 1 if it was being written.
///
/// A function that the verifier checks once, not at each of 128 calls (5.6 and later): edges took 150,000
/// instructions for it. So it takes numbers alone; pointers would need 5.12.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn add_member(stage: u32, slot: u32, now_ns: u64) -> u64 {
    let Some(stage) = STAGES.get_ptr_mut(stage) else { return 1 };
    let Some(ledger) = LEDGERS.get_ptr(slot) else { return 1 };
    let Some(outside) = OUTSIDE.get_ptr(slot) else { return 1 };
    // SAFETY: values of maps. The stage belongs to the thread that runs this.
    unsafe {
        let sum = &raw mut (*stage).helpers;
        let sequence = read!(ledger.sequence);
        let mut reading = helpers::add(sum, ledger, outside, now_ns);
        if reading == Reading::Torn {
            reading = helpers::add(sum, ledger, outside, now_ns);
        }
        match reading {
            Reading::Torn => return 1,
            Reading::Added => {}
            Reading::Limited(open_ns) => {
                let throttled_ns = quota::open_ns(ledger, open_ns);
                // Its wait may have ended, and another one begun.
                if read!(ledger.sequence) != sequence {
                    return 1;
                }
                let runq = &mut (*sum).accounts[Account::Runq as usize];
                *runq = runq.wrapping_sub(throttled_ns);
                let throttled = &mut (*sum).accounts[Account::Throttled as usize];
                *throttled = throttled.wrapping_add(throttled_ns);
            }
        }
        (*sum).threads += 1;
        if MAY_THIN.load() != 0 {
            (*stage).unseen_threads += u32::from((*outside).is_unseen());
        }
    }
    0
}
