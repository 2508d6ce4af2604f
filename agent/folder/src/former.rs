//! Columns of folders of format 1 that have another name or unit today.
//!
//! Yields, for a column, what it was called and how many of today's units a unit of then is. No name of then
//! is one of today's, so a file tells by its columns what it holds.

/// A column of format 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Former {
    pub(super) name: &'static str,
    /// Values are multiplied by it.
    pub(super) factor: u64,
}

/// Name today, name of then, factor.
const FORMER: [(&str, &str, u64); 13] = [
    ("time_suspended_ns", "suspended_ns", 1),
    ("overlay_runq_wakeup_ns", "count_wakeup_delay_ns", 1),
    ("overlay_poll_net_ns", "count_poll_net_ns", 1),
    ("overlay_steal_ns", "count_steal_ns", 1),
    ("operation_block_queue_ns", "count_block_queue_ns", 1),
    ("operation_block_device_ns", "count_block_device_ns", 1),
    ("operation_net_response_ns", "count_net_answer_ns", 1),
    ("operation_net_round_trip_ns", "count_net_round_trip_ns", 1),
    ("count_net_response", "count_net_answer", 1),
    ("psi_cpu_some_ns", "psi_cpu_some_us", 1_000),
    ("psi_memory_some_ns", "psi_memory_some_us", 1_000),
    ("psi_io_some_ns", "psi_io_some_us", 1_000),
    ("steal_ns", "steal_ms", 1_000_000),
];

/// What the column of this name was in format 1, if it was called otherwise.
pub(super) fn of(column: &str) -> Option<Former> {
    let (_, name, factor) = FORMER.into_iter().find(|(today, ..)| *today == column)?;
    Some(Former { name, factor })
}

/// The name today of a column of a file.
pub(super) fn today(column: &str) -> &str {
    FORMER.into_iter().find(|(_, then, _)| *then == column).map_or(column, |(today, ..)| today)
}

#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (&'static str, Former)> {
    FORMER.into_iter().map(|(today, name, factor)| (today, Former { name, factor }))
}
