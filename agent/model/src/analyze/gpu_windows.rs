//! Windows in which work of GPUs was recorded and nothing was lost, by process. Those that follow each other
//! at once are one.

use std::collections::BTreeMap;

use super::busy::Span;
use crate::phase::GpuWork;

/// Most windows; more are left out.
const WINDOWS: usize = 1 << 16;

/// The windows of a run.
#[derive(Debug, Default)]
pub(super) struct Windows {
    by_process: BTreeMap<u32, Vec<Span>>,
    kept: usize,
}

impl Windows {
    /// Takes a row; work is passed over.
    pub(super) fn add(&mut self, row: &GpuWork) {
        // Where something was lost, what was asked for meanwhile is not all there.
        if !row.is_window() || row.lost > 0 || row.end_ns <= row.start_ns {
            return;
        }
        let windows = self.by_process.entry(row.process).or_default();
        match windows.last_mut().filter(|last| last.1 == row.start_ns) {
            Some(last) => last.1 = row.end_ns.max(last.1),
            None if self.kept < WINDOWS => {
                windows.push((row.start_ns, row.end_ns));
                self.kept += 1;
            }
            None => {}
        }
    }

    /// All have come.
    pub(super) fn join(&mut self) {
        for windows in self.by_process.values_mut() {
            windows.sort_unstable();
            windows.dedup_by(|next, last| {
                let is_next = next.0 <= last.1;
                last.1 = if is_next { last.1.max(next.1) } else { last.1 };
                is_next
            });
        }
    }

    /// Whether an interval lies within one window of a process.
    pub(super) fn have(&self, process: u32, span: Span) -> bool {
        let Some(windows) = self.by_process.get(&process) else { return false };
        let after = windows.partition_point(|window| window.0 <= span.0);
        after.checked_sub(1).is_some_and(|at| windows[at].1 >= span.1)
    }

    /// Their number, and their length over all processes, ns.
    pub(super) fn sums(&self) -> (u64, u64) {
        let windows = self.by_process.values().flatten();
        let lengths = windows.map(|window| window.1.saturating_sub(window.0));
        lengths.fold((0, 0_u64), |(count, sum_ns), ns| (count + 1, sum_ns.saturating_add(ns)))
    }
}
