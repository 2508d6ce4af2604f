//! `quota`: the request's CPU quota runs out, and the kernel keeps it from running for SIZE. Charged to
//! `throttled`. It needs root and a `cpu` controller, cgroup v1 or v2.
//!
//! `ns` and `count` are the growth of throttled time and of throttled periods in the kernel's own cpu.stat.
//! The kernel throttles from when a quota is used up until its period ends, and its periods begin at
//! arbitrary times. So the fault is made in two steps: a period of 1 ms with a quota too large to use up,
//! after which another period begins soon; then, for the periods after that one, a period of SIZE and the
//! quota. The request burns both quota and the rest of the short period: about 2.5 ms with the writing, which
//! `cpu_ns` shows. If others keep it from its CPU meanwhile, it is throttled for that much less, and if it
//! got less than half of SIZE, for another period. Either way `ns` is what the kernel did.

use std::{thread, time::Duration};

use crate::stall::{
    Fault, Injected, Kind, Setup,
    error::StallError,
    machine::{
        clock,
        group::{Group, Throttling},
    },
    size::Unit,
};

pub(super) const KIND: Kind = Kind {
    name: "quota",
    what: "the request's CPU quota runs out, and it is throttled for SIZE",
    needs: "root, and a cpu controller of cgroups",
    unit: Unit::Time,
    // The kernel refuses periods above one second.
    range: 1_000_000..=900_000_000,
    default: 20_000_000,
    bound: true,
    make,
};

/// Shortest period that the kernel takes.
const SHORT_NS: u64 = 1_000_000;
/// Quota that runs out. Longer than a short period, so that it does not run out in that.
const QUOTA_NS: u64 = 1_200_000;
/// Quota that one thread cannot use up in any period.
const ENDLESS_NS: u64 = 100_000_000_000;
/// Time within which the kernel must throttle a group that uses its CPU without a pause.
const PATIENCE_NS: u64 = 10_000_000_000;

struct Quota {
    group: Group,
    /// Time when the period of the last fault is over.
    over_ns: u64,
}

fn make(_: &Setup) -> Result<Box<dyn Fault>, StallError> {
    Ok(Box::new(Quota { group: Group::create()?, over_ns: 0 }))
}

impl Fault for Quota {
    fn begin(&mut self) -> Result<(), StallError> {
        self.group.join()
    }

    /// Waits until the timer of the last fault's period has ended: only then does a new period count at once.
    fn arm(&mut self, _: u64) -> Result<(), StallError> {
        thread::sleep(Duration::from_nanos(self.over_ns.saturating_sub(clock::monotonic_ns())));
        Ok(())
    }

    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let before = self.group.throttling()?;
        let period_ns = size + QUOTA_NS;
        self.group.limit(ENDLESS_NS, SHORT_NS)?;
        self.group.limit(QUOTA_NS, period_ns)?;
        self.burn_until_throttled(before, size / 2)?;
        self.group.unlimit(SHORT_NS)?;
        self.over_ns = clock::monotonic_ns() + period_ns;
        // Lifting the quota takes CPU time too: on a slow machine more than the quota gives.
        let after = self.group.throttling()?;
        Ok(Injected { ns: after.ns - before.ns, count: Some(after.periods - before.periods) })
    }
}

impl Quota {
    /// Uses the CPU until the kernel has throttled the group for more than `enough_ns` and let it go again.
    /// Both counters must show it: the period may be counted before the time is.
    fn burn_until_throttled(&self, before: Throttling, enough_ns: u64) -> Result<(), StallError> {
        let start_ns = clock::monotonic_ns();
        loop {
            // Makes the kernel look at the quota now, not at its next tick.
            clock::thread_cpu_ns();
            let now = self.group.throttling()?;
            if now.periods > before.periods && now.ns > before.ns + enough_ns {
                return Ok(());
            }
            if clock::monotonic_ns() - start_ns > PATIENCE_NS {
                return Err(StallError::NeverThrottled { path: self.group.path().to_owned() });
            }
        }
    }
}
