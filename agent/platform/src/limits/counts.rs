//! What the kernel counts of a limit: failures, periods without quota, bytes, pages that came back.

use super::{
    super::root::Root,
    bound::{Bound, What},
};

/// Counts of a group since its beginning; none of them goes down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Times that memory could not be charged; periods in which a quota ran out.
    pub hits: u64,
    /// Periods of a quota.
    pub periods: u64,
    /// Time without quota, summed over CPUs, ns.
    pub without_ns: u64,
    /// Bytes or I/Os, as the limit counts them.
    pub amount: u64,
}

/// Pages that came back, and time that was waited for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Short {
    /// Pages that had been pushed out and were needed again.
    pub refaults: u64,
    /// Time that some task waited for memory, ns; 0 where the version does not tell.
    pub stalled_ns: u64,
}

impl Bound {
    /// The counts now; none if the group is gone.
    pub fn count(&self, root: &Root) -> Option<Count> {
        let text = |file: &str| root.text(&format!("{}/{file}", self.directory));
        let nothing = Count::default();
        match (self.what, self.version) {
            (What::Memory, 1) => {
                Some(Count { hits: text("memory.failcnt")?.trim().parse().ok()?, ..nothing })
            }
            (What::Memory, _) => {
                // The other file counts what happened in groups below as well, by their own limits.
                let events = text("memory.events.local").or_else(|| text("memory.events"))?;
                let key = if self.file == "memory.high" { "high" } else { "max" };
                Some(Count { hits: number(&events, key)?, ..nothing })
            }
            (What::Quota { .. }, version) => {
                let stat = text("cpu.stat")?;
                let without = match version {
                    1 => number(&stat, "throttled_time"),
                    _ => number(&stat, "throttled_usec").map(|us| us.saturating_mul(1_000)),
                };
                let [hits, periods] = ["nr_throttled", "nr_periods"].map(|key| number(&stat, key));
                Some(Count { hits: hits?, periods: periods?, without_ns: without?, ..nothing })
            }
            (What::Io { is_count, is_write }, 1) => {
                let file =
                    if is_count { "blkio.throttle.io_serviced" } else { "blkio.throttle.io_service_bytes" };
                let key = format!("{} {}", self.device, if is_write { "Write" } else { "Read" });
                // A device that was not used yet has no line.
                let amount =
                    text(file)?.lines().find_map(|line| line.strip_prefix(&key)?.trim().parse().ok());
                Some(Count { amount: amount.unwrap_or(0), ..nothing })
            }
            (What::Io { is_count, is_write }, _) => {
                let key = match (is_count, is_write) {
                    (false, false) => "rbytes=",
                    (false, true) => "wbytes=",
                    (true, false) => "rios=",
                    (true, true) => "wios=",
                };
                let stat = text("io.stat")?;
                let line = stat.lines().find_map(|line| line.strip_prefix(&self.device)?.strip_prefix(' '));
                let amount = line.and_then(|line| {
                    line.split(' ').find_map(|word| word.strip_prefix(key)?.trim().parse().ok())
                });
                Some(Count { amount: amount.unwrap_or(0), ..nothing })
            }
        }
    }

    /// What a limit of memory costs. The kernel sums it up over CPUs when it is read: only for a limit that
    /// was hit.
    pub fn short(&self, root: &Root) -> Short {
        let text = |file: &str| root.text(&format!("{}/{file}", self.directory)).unwrap_or_default();
        let stat = text("memory.stat");
        // Version 1 has a sum over the groups below in keys of their own. Kernels before 5.9 had one count.
        let of = |kind: &str| {
            let hierarchical = number(&stat, &format!("total_workingset_refault{kind}"));
            hierarchical.or_else(|| number(&stat, &format!("workingset_refault{kind}")))
        };
        let split = of("_file").map(|file| file.saturating_add(of("_anon").unwrap_or(0)));
        let some = text("memory.pressure");
        let some = some.lines().find_map(|line| line.strip_prefix("some ")?.rsplit_once("total="));
        let stalled_us: u64 = some.and_then(|(_, us)| us.trim().parse().ok()).unwrap_or(0);
        Short {
            refaults: split.or_else(|| of("")).unwrap_or(0),
            stalled_ns: stalled_us.saturating_mul(1_000),
        }
    }
}

/// The number after a key at the start of a line.
fn number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
