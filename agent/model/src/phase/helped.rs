//! What helpers did during a phase, as plain data: their time, and how long they could not run.

use guestscope_contract::metrics::KEPT;

use super::accounts::Accounts;

/// Helpers' activity during a phase. Their time is not part of the phase's own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Helpers {
    /// Time of all of them together; with other requests in flight, an equal share of it.
    pub accounts: Accounts,
    /// Threads of the process other than the one that ended the phase.
    pub threads: u32,
    /// Whether other requests of the process were in flight at the same time.
    pub shared: bool,
    /// Some threads are in no sum, or a sum was torn: there was more than this.
    pub partial: bool,
    /// Time during which one or more of them could not run.
    pub wait: HelperWait,
}

/// Time during which at least one helper could not run, ns, in the order of [`KEPT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelperWait {
    /// While the phase's own thread was on a CPU, or off it for less than the threshold.
    pub on_cpu: [u64; KEPT.len()],
    /// While it waited as well.
    pub waiting: [u64; KEPT.len()],
}
