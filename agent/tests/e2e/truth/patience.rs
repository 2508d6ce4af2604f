//! A row may be disturbed by the machine, and is looked at again then: a ledger that is wrong is so every
//! time.

use super::{ATTEMPTS, skipped, stolen::Stolen};

/// Result of one look.
pub(super) struct Look {
    /// Whether all claims of the row hold.
    pub(super) holds: bool,
    /// Others kept even what was spared from its CPU.
    pub(super) is_busy: bool,
    /// The row, for people.
    pub(super) text: String,
}

/// Looks until the row holds: `look` is given the number of the attempt, and has nothing to say where the
/// machine lacks something. Where others, or the hypervisor, took the CPUs away all the time the row is not
/// judged, and that is said.
pub(super) fn insist(test: &str, row: &str, mut look: impl FnMut(u32) -> Option<Look>) {
    let (mut is_busy, mut last, stolen) = (true, String::new(), Stolen::now());
    for attempt in 1..=ATTEMPTS {
        let Some(seen) = look(attempt) else { return };
        if seen.holds {
            return;
        }
        is_busy &= seen.is_busy;
        last = seen.text;
    }
    if let Some(share) = stolen.if_much() {
        // By this name the project's test verb knows that it is no fault of the tree's, and counts it as
        // skipped all the same.
        let reason = format!("{row}: not judged, the hypervisor took {:.1} % of the time", share * 100.0);
        return skipped(&format!("stolen {test}"), &reason);
    }
    if is_busy {
        return skipped(test, "others use this machine's CPUs");
    }
    panic!("every time, the last: {last}");
}
