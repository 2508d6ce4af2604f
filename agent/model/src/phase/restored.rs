//! Detects through VMGENID or vmclock that the guest was restored from a snapshot or moved. Pure.
//!
//! These sources report that it happened, neither when nor for how long: the pauses show that, where the
//! guest's clock ran on. So the time of the event is the time at which the agent noticed it.

use super::values::Phase;

/// The source that reported it. Both may report the same restoration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredBy {
    /// The generation of the virtual machine (VMGENID) changed: it runs from a snapshot.
    Vmgenid,
    /// The marker of disruptions in the hypervisor's clock page (vmclock) changed: restored or moved.
    Vmclock,
}

impl RestoredBy {
    /// The word in reports, in rows and on spans.
    pub const fn name(self) -> &'static str {
        match self {
            RestoredBy::Vmgenid => "vmgenid",
            RestoredBy::Vmclock => "vmclock",
        }
    }
}

/// A sign was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// CLOCK_MONOTONIC when the agent noticed it, ns: up to 50 ms late where the agent could run.
    pub noticed_ns: u64,
    /// The source that reported it.
    pub source: RestoredBy,
}

impl Restored {
    /// Whether the phase was open when it was noticed.
    pub fn is_within(&self, phase: &Phase) -> bool {
        let end_ns = phase.start_ns.saturating_add(phase.duration_ns);
        (phase.start_ns..end_ns).contains(&self.noticed_ns)
    }
}
