//! Marks of threads without a ledger: counted, since nothing else of them is seen.
//!
//! A probe fires in every process that maps its file, so that marks count only where the process is observed.

use aya_ebpf::{helpers::bpf_get_current_pid_tgid, macros::map, maps::LruHashMap};
use guestscope_contract::Counter;

use crate::{emit::count, maps::PROCESS_OF};

/// Most processes without any ledger that are kept; the ones that marked nothing lately are dropped first.
const MISSED_MOST: u32 = 1024;

/// Processes of which a thread got no ledger, and no other thread had one.
#[map]
static MISSED: LruHashMap<u32, u8> = LruHashMap::with_max_entries(MISSED_MOST, 0);

/// A process that is to be observed has no ledger at all.
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
    // SAFETY: the values are not read.
    let is_observed = unsafe { PROCESS_OF.get(tgid).is_some() || MISSED.get(tgid).is_some() };
    if !is_observed {
        return;
    }
    count(Counter::UntrackedMark);
    if is_request {
        count(Counter::UntrackedRequest);
    }
}
