//! What a GPU did for single requests, where that was recorded.
//!
//! Yields [`RequestWork`] for requests that lie within one window of their process in which nothing was lost;
//! of others a part of the work is not known. Nothing either where more ran than can be held.

use std::collections::HashMap;

use super::{
    super::{
        busy::{Busy, Span},
        gpu_windows::Windows,
        gpu_work::{KernelWork, PhaseWork, longest},
    },
    Case,
    request_work::RequestWork,
};
use crate::{
    phase::{GpuWork, GpuWorkKind},
    untrusted::Untrusted,
};

/// Kernels that are listed.
const LISTED: usize = 3;
/// Most pieces of work whose times are held at once, over all requests: 16 bytes each.
const PIECES: usize = 1 << 20;
/// Most names of kernels, over all requests.
const NAMES: usize = 4_096;

/// A request that lies within a window.
struct Tally {
    /// Its place among all that are explained.
    place: usize,
    id: u64,
    process: u32,
    span: Span,
    sums: PhaseWork,
    kernels: HashMap<Untrusted, KernelWork>,
    /// Times of the work of its process while it ran.
    busy: Vec<Span>,
    /// There was no room for more.
    is_cut: bool,
}

/// Room for all requests together.
struct Room {
    pieces: usize,
    names: usize,
}

/// Reads the work twice, if any request is to be explained: first its windows.
pub(super) fn add<E, W>(
    cases: &mut [&mut Case],
    mut work: impl FnMut() -> Result<Option<W>, E>,
) -> Result<(), E>
where
    W: Iterator<Item = Result<GpuWork, E>>,
{
    if cases.is_empty() {
        return Ok(());
    }
    let Some(rows) = work()? else { return Ok(()) };
    let mut windows = Windows::default();
    for row in rows {
        windows.add(&row?);
    }
    windows.join();
    let places = cases.iter().enumerate();
    let within = places.filter(|(_, case)| windows.have(case.pid, (case.start_ns, case.end_ns())));
    let mut tallies: Vec<Tally> = within.map(|(place, case)| Tally::new(place, case)).collect();
    if tallies.is_empty() {
        return Ok(());
    }
    let mut room = Room { pieces: PIECES, names: NAMES };
    for row in work()?.into_iter().flatten() {
        let row = row?;
        for tally in &mut tallies {
            tally.add(&row, &mut room);
        }
    }
    for tally in tallies {
        let place = tally.place;
        cases[place].gpu = tally.finish();
    }
    Ok(())
}

impl Tally {
    fn new(place: usize, case: &Case) -> Self {
        let span = (case.start_ns, case.end_ns());
        let duration_ns = span.1.saturating_sub(span.0);
        Self {
            place,
            id: case.id,
            process: case.pid,
            span,
            sums: PhaseWork { is_request: true, count: 1, duration_ns, ..PhaseWork::default() },
            kernels: HashMap::new(),
            busy: Vec::new(),
            is_cut: false,
        }
    }

    fn add(&mut self, row: &GpuWork, room: &mut Room) {
        if row.is_window() || row.process != self.process {
            return;
        }
        let is_meanwhile = row.start_ns < self.span.1 && row.end_ns > self.span.0;
        if is_meanwhile && room.pieces > 0 {
            room.pieces -= 1;
            self.busy.push((row.start_ns, row.end_ns));
        } else if is_meanwhile {
            self.is_cut = true;
        }
        if row.root != Some(self.id) {
            return;
        }
        self.sums.add(row);
        if row.kind != GpuWorkKind::Kernel {
            return;
        }
        if !self.kernels.contains_key(&row.name) {
            self.is_cut |= room.names == 0;
            room.names = room.names.saturating_sub(1);
        }
        if !self.is_cut {
            self.kernels.entry(row.name.clone()).or_default().add(row);
        }
    }

    fn finish(mut self) -> Option<RequestWork> {
        if self.is_cut {
            return None;
        }
        self.sums.busy_ns = Busy::of(&self.busy, 1).within(self.span);
        self.sums.concurrent_ns = Busy::of(&self.busy, 2).within(self.span);
        let named = |(name, kernel)| KernelWork { name, ..kernel };
        Some(RequestWork { sums: self.sums, longest: longest(self.kernels.into_iter().map(named), LISTED) })
    }
}
