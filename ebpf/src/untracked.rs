//! Marks of threads without a ledger: counted, since nothing else of them is seen.
//!
//! A probe fires in every process that maps its file, and while the agent attaches to a process, threads of
//! it mark that are about to get a ledger. So marks count only in processes of which a thread found no ledger
//! free.

use aya_ebpf::{helpers::bpf_get_current_pid_tgid, macros::map, maps::LruHashMap};
use guestscope_contract::Counter;

use crate::emit::count;

/// Most such processes that are kept; the ones that marked nothing lately are dropped first.
const MISSED_MOST: u32 = 1024;

/// Processes of which a thread got no ledger.
#[map]
static MISSED: LruHashMap<u32, u8> = LruHashMap::with_max_entries(MISSED_MOST, 0);

/// A thread of a process that is to be observed gets no ledger.
#[inline(always)]
pub(crate) fn process(tgid: u32) {
    let _ = MISSED.insert(tgid, 1, 0);
}

/// A process begins under this number.
#[inline(always)]
pub(crate) fn forget(tgid: u32) {
    let _ = MISSED.remove(tgid);
}

/// The running thread, which has no ledger, marks something.
#[inline(always)]
pub(crate) fn mark(is_request: bool) {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    // SAFETY: the value is not read.
    if unsafe { MISSED.get(tgid) }.is_none() {
        return;
    }
    count(Counter::UntrackedMark);
    if is_request {
        count(Counter::UntrackedRequest);
    }
}
