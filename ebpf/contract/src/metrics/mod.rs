//! The table of metrics: one row per quantity that is stored, sent or printed.
//!
//! Columns of Parquet, attributes of spans, keys of JSON and `docs/metrics.md` are made of these rows, by one
//! rule: class, point, name, unit. `count.block.read_bytes` is the column `count_block_read_bytes`, the
//! attribute `guestscope.count.block.read_bytes` and the key `block.read_bytes` of the object `count`.

mod counts;
#[cfg(all(test, not(target_arch = "bpf")))]
mod document;

pub use crate::account::{ACCOUNTS, Account, KEPT, WaitsFor};
pub use crate::row::{Class, FilledBy, Row, Unit};
pub use counts::{COUNTS, Counts, Metric, Reading};

/// Time of a phase on no thread.
static SUSPENDED: Row = row!(Time "time" "suspended" Ns "_ns", Marks,
    "On no thread, between leave and enter; of a connection's request: on an unknown thread or on none.");
/// Time in which the guest did not run.
static PAUSE: Row = row!(Overlay "overlay" "pause" Ns "_ns", Beats,
    "The whole guest was stopped: a part of whatever times it fell into.");
/// Threads of the process beside the phase's own.
static HELPER_THREADS: Row = row!(Helper "helper" "threads" Events "", Switches,
    "Threads of the process beside the phase's own, at its end.");

/// Waits of other threads while the phase's own thread was on a CPU, in the order of [`KEPT`].
static HELPER_WAIT_ON_CPU: [Row; KEPT.len()] = [
    row!(HelperWait "helper_wait" "on_cpu.runq" Ns "_ns", LongWaits, "In `runq`, while the phase's thread ran."),
    row!(HelperWait "helper_wait" "on_cpu.throttled" Ns "_ns", LongWaits,
        "In `throttled`, while the phase's thread ran."),
    row!(HelperWait "helper_wait" "on_cpu.block_io" Ns "_ns", LongWaits,
        "In `block_io`, while the phase's thread ran."),
    row!(HelperWait "helper_wait" "on_cpu.fault" Ns "_ns", LongWaits,
        "In `fault`, while the phase's thread ran."),
];
/// The same while the phase's own thread waited, in the order of [`KEPT`].
static HELPER_WAIT_WAITING: [Row; KEPT.len()] = [
    row!(HelperWait "helper_wait" "waiting.runq" Ns "_ns", LongWaits,
        "In `runq`, while the phase's thread waited."),
    row!(HelperWait "helper_wait" "waiting.throttled" Ns "_ns", LongWaits,
        "In `throttled`, while the phase's thread waited."),
    row!(HelperWait "helper_wait" "waiting.block_io" Ns "_ns", LongWaits,
        "In `block_io`, while the phase's thread waited."),
    row!(HelperWait "helper_wait" "waiting.fault" Ns "_ns", LongWaits,
        "In `fault`, while the phase's thread waited."),
];

/// A quantity of a phase: each row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quantity {
    /// Time of the phase's own threads.
    Time(Account),
    /// Time on no thread.
    Suspended,
    /// Time of the process's other threads.
    Helper(Account),
    /// Number of these threads.
    HelperThreads,
    /// Waits of these threads while the phase's own was on a CPU, by place in [`KEPT`].
    HelperWaitOnCpu(usize),
    /// The same while the phase's own thread waited.
    HelperWaitWaiting(usize),
    /// Time in which the whole guest was stopped.
    Pause,
    /// What is read of a thread at edges.
    Of(Metric),
}

impl Quantity {
    /// All of them, class by class.
    pub fn all() -> impl Iterator<Item = Quantity> {
        let of = |class: Class| {
            Metric::ALL.into_iter().filter(move |metric| metric.row().class == class).map(Quantity::Of)
        };
        Account::ALL
            .into_iter()
            .map(Quantity::Time)
            .chain([Quantity::Suspended])
            .chain(Account::ALL.into_iter().map(Quantity::Helper))
            .chain([Quantity::HelperThreads])
            .chain((0..KEPT.len()).map(Quantity::HelperWaitOnCpu))
            .chain((0..KEPT.len()).map(Quantity::HelperWaitWaiting))
            .chain([Quantity::Pause])
            .chain(of(Class::Overlay))
            .chain(of(Class::Operation))
            .chain(of(Class::Count))
    }

    /// Its row.
    #[must_use]
    pub fn row(self) -> &'static Row {
        match self {
            Quantity::Time(account) => &crate::account::rows::TIME[account as usize],
            Quantity::Suspended => &SUSPENDED,
            Quantity::Helper(account) => &crate::account::rows::HELPER[account as usize],
            Quantity::HelperThreads => &HELPER_THREADS,
            Quantity::HelperWaitOnCpu(kept) => &HELPER_WAIT_ON_CPU[kept],
            Quantity::HelperWaitWaiting(kept) => &HELPER_WAIT_WAITING[kept],
            Quantity::Pause => &PAUSE,
            Quantity::Of(metric) => metric.row(),
        }
    }
}
