//! Which requests are handed over, where there are too many: see the contract's `thinning`.
//!
//! The agent sets the part; requests that are not handed over are remembered here until they end.

use aya_ebpf::helpers::bpf_get_prandom_u32;
use guestscope_contract::{
    Choice, Counter, KERNEL_INSTANCE, Operation, UnseenRoot, helpers::Outside, is_root_token, root_of,
};

use crate::{
    emit::count,
    maps::{MAY_THIN, OUTSIDE, THINNING, UNSEEN},
};

/// Whether an edge of the running thread, of this process, is handed over. `length` is its second argument.
///
/// # Safety
/// `own` must point to the thread's own value in a map.
#[inline(always)]
pub(crate) unsafe fn choose(own: *const Outside, head: u64, token: u64, length: u64, tgid: u32) -> bool {
    if MAY_THIN.load() == 0 {
        return true;
    }
    let Some(thinning) = THINNING.get_ptr(0) else { return true };
    // SAFETY: words of a map value, each written whole, and the caller's.
    let (halved, is_on, own) = unsafe {
        let halved = core::ptr::read_volatile(&raw const (*thinning).halved);
        (halved, core::ptr::read_volatile(&raw const (*thinning).is_on) != 0, &*own)
    };
    if !is_on {
        return true;
    }
    let key = UnseenRoot { token: root_of(token), tgid, instance: u32::from((head >> 16) as u16) };
    let choice = own.choice(head, token, length);
    match choice {
        Choice::Seen => begins_seen(head, token, &key),
        Choice::AsInnermost => !own.is_unseen(),
        Choice::AsRoot => is_seen(head, token, &key),
        Choice::Drawn if is_drawn(halved) => begins_seen(head, token, &key),
        Choice::Drawn | Choice::Unseen => {
            if choice.is_request(length) {
                count(Counter::RequestNotSeen);
            }
            // Where it finds no room, the rest of the request comes without its begin, and is counted.
            let _ = UNSEEN.insert(key, 1, 0);
            false
        }
    }
}

/// Draws one of so many.
#[inline(always)]
fn is_drawn(halved: u32) -> bool {
    let mask = (1 << (halved & 31)) - 1;
    // SAFETY: the BPF helper has no preconditions.
    mask == 0 || unsafe { bpf_get_prandom_u32() } & mask == 0
}

/// A root that is seen begins: a token may have been that of another one, whose end did not come.
#[inline(always)]
fn begins_seen(head: u64, token: u64, key: &UnseenRoot) -> bool {
    if key.instance != u32::from(KERNEL_INSTANCE) && Operation::begins_request(head as u8, token) {
        let _ = UNSEEN.remove(key);
    }
    true
}

/// An edge about a root that began before.
#[inline(always)]
fn is_seen(head: u64, token: u64, key: &UnseenRoot) -> bool {
    // SAFETY: the value is not read.
    if unsafe { UNSEEN.get(key) }.is_none() {
        return true;
    }
    if head as u8 == Operation::End as u8 && is_root_token(token) {
        let _ = UNSEEN.remove(key);
    }
    false
}

/// Whether the thread of this slot is inside a request that is not handed over.
#[inline(always)]
pub(crate) fn is_unseen(slot: u16) -> bool {
    if MAY_THIN.load() == 0 {
        return false;
    }
    let Some(outside) = OUTSIDE.get_ptr(u32::from(slot)) else { return false };
    // SAFETY: a value of a map; its thread runs this, or does not run.
    unsafe { (*outside).is_unseen() }
}

/// The thread of this slot has a new program.
#[inline(always)]
pub(crate) fn forget_edges(slot: u32) {
    if let Some(outside) = OUTSIDE.get_ptr_mut(slot) {
        // SAFETY: a value of a map, of the thread that runs this program or of one that does not run.
        unsafe { core::ptr::write_volatile(&raw mut (*outside).last, 0) };
    }
}
