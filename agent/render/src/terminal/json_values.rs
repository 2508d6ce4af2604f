//! Values that several JSON outputs share: sums by name, and their numbers.

use std::collections::BTreeMap;

use crate::{
    analyze::{Cause, Sums},
    phase::Quantity,
};

pub(super) type ByName = BTreeMap<&'static str, u64>;

/// Time of all causes, including zeros: so a reader need not know the list.
pub(super) fn time(sums: &Sums) -> ByName {
    let key = |cause| match cause {
        Cause::Account(account) => Quantity::Time(account).row().key,
        Cause::Queue => "queue_ns",
        Cause::Handoff => "handoff_ns",
        Cause::Suspended
        | Cause::Steal
        | Cause::InDriver
        | Cause::Pause
        | Cause::AddressSpace
        | Cause::Stopped
        | Cause::Helper(_)
        | Cause::Overlay(_) => Quantity::Suspended.row().key,
    };
    sums.time().map(|(cause, sum)| (key(cause), ns(sum))).collect()
}

/// JSON readers have 64 bits at most: a larger sum is cut there.
pub(super) fn ns(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
