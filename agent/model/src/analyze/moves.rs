//! What a move to another CPU costs a thread at most: the time to fill its caches again.
//!
//! Yields ns by the distance of the move. An estimate, from the sizes of caches and from what one thread
//! reads in a second: it decides whether moves are worth advice, and is printed with their number.

use crate::phase::Metric;

/// Moves after which a cache is cold. To another hardware thread of its core a thread takes its caches along.
pub(super) const COLD: [Metric; 3] = [Metric::MigrateLlc, Metric::MigrateNode, Metric::MigrateRemote];
/// Share of a difference from which on what moves cost at most is worth advice.
pub const WORTH: f64 = 0.05;
/// The caches of a core, 1 MB and more, come from the shared one with some 20 GB/s.
const OF_A_CORE_NS: f64 = 50e3;
/// A shared cache of 32 MB comes from memory with some 10 GB/s.
const SHARED_NS: f64 = 3e6;

/// What one such move costs at most, ns; 0 for anything else.
pub const fn price_ns(metric: Metric) -> f64 {
    if matches!(metric, Metric::MigrateLlc) {
        OF_A_CORE_NS
    } else if matches!(metric, Metric::MigrateNode | Metric::MigrateRemote) {
        SHARED_NS
    } else {
        0.0
    }
}
