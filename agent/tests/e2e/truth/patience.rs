//! Repeats a row that other load may have disturbed: a wrong ledger is wrong every time.

use super::{ATTEMPTS, skipped, stolen::Stolen};

/// Result of one attempt.
pub(crate) struct Look {
    /// Whether all claims of the row hold.
    pub(crate) holds: bool,
    /// Other load kept even the spared requests from their CPU.
    pub(crate) is_busy: bool,
    /// The row, for people.
    pub(crate) text: String,
}

/// Repeats until the row holds: `look` gets the number of the attempt, and returns none if the machine lacks
/// something. If other load or the hypervisor took the CPUs every time, the row is reported as not judged.
pub(crate) fn insist(test: &str, row: &str, mut look: impl FnMut(u32) -> Option<Look>) {
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
        // By this name the project's test verb knows that the repository is not at fault, and counts the test
        // as skipped.
        let reason = format!("{row}: not judged, the hypervisor took {:.1} % of the time", share * 100.0);
        return skipped(&format!("stolen {test}"), &reason);
    }
    if is_busy {
        return skipped(test, "others use this machine's CPUs");
    }
    panic!("every time, the last: {last}");
}
