//! A pause of the whole guest, as plain data.

use crate::phase::values::Phase;

/// The guest was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// ns.
    pub duration_ns: u64,
    /// The start may be so much earlier or later, ns.
    pub doubt_ns: u64,
}

impl Pause {
    pub(super) fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// The part of it that lies in a phase: start and length, ns; none if nothing does.
    pub fn within(&self, phase: &Phase) -> Option<(u64, u64)> {
        let start_ns = self.start_ns.max(phase.start_ns);
        let end_ns = self.end_ns().min(phase.start_ns.saturating_add(phase.duration_ns));
        (start_ns < end_ns).then(|| (start_ns, end_ns - start_ns))
    }
}
