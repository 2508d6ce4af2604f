//! What a GPU did for phases, from the work that was recorded in windows.
//!
//! Takes the rows of `gpu_work` and the requests; yields [`GpuWorked`]. Speaks only of phases that lie within
//! one window of their process in which nothing was lost: of others a part of the work was not recorded. What
//! other processes had the GPU do is not in it, nor what was asked for before the window.

use std::collections::{BTreeMap, HashMap};

use super::{
    busy::{Busy, Span},
    gpu_windows::Windows,
    headline::ENOUGH_REQUESTS,
};
use crate::phase::{GpuWork, GpuWorkKind, PhaseKind, Request};
use crate::untrusted::Untrusted;

/// Most phases that are looked at, the first ones.
const PHASES: usize = 1 << 16;
/// Most names of phases.
const NAMES: usize = 64;
/// Most names of kernels that are told apart.
const KERNELS: usize = 4_096;
/// Kernels that are listed.
const LISTED: usize = 10;
/// Deepest nesting of phases.
const DEEPEST: usize = 256;
/// Most pieces of work whose times are held at once; a longer window is looked at in parts.
const PIECES: usize = 1 << 19;

/// What the GPU did for phases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuWorked {
    /// Windows, those that follow each other at once as one.
    pub windows: u64,
    /// Their length, ns, over all processes.
    pub windows_ns: u64,
    /// Work in them that was not recorded.
    pub lost: u64,
    /// CPU time of the threads that recorded, ns.
    pub cost_ns: u64,
    /// Pieces of work.
    pub pieces: u64,
    /// Those that no phase asked for.
    pub outside: u64,
    /// By name of the phase: requests first, then as first seen.
    pub phases: Vec<PhaseWork>,
    /// The kernels that took longest, longest first.
    pub kernels: Vec<KernelWork>,
    /// Time of all kernels, ns.
    pub kernels_ns: u64,
}

/// Work for the phases of one name. Sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseWork {
    /// Name; that of requests is the request's.
    pub name: Untrusted,
    /// Whether these are requests.
    pub is_request: bool,
    /// Phases that lie in windows.
    pub count: u64,
    /// Their duration, ns.
    pub duration_ns: u64,
    /// Kernels, and graphs, that these and phases within them asked for.
    pub kernels: u64,
    /// Their time on the GPU, ns.
    pub kernels_ns: u64,
    /// Copies and fills.
    pub copies: u64,
    /// Their time, ns.
    pub copies_ns: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// From the end of a call to the start of its work, ns.
    pub delay_ns: u64,
    /// Pieces of work behind that.
    pub delays: u64,
    /// Time in which the GPU did anything for the process while the phases ran, ns.
    pub busy_ns: u64,
    /// The part of it in which it did at least two things at once, ns.
    pub concurrent_ns: u64,
}

/// A kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelWork {
    /// Its name.
    pub name: Untrusted,
    /// How often it ran for phases that lie in windows.
    pub count: u64,
    /// Its time, ns.
    pub sum_ns: u64,
}

/// A phase that lies in a window.
#[derive(Clone, Copy, Debug)]
struct Seen {
    span: Span,
    process: u32,
    parent: Option<u64>,
    /// Position of its name.
    name: usize,
    /// Whether no phase around it has its name.
    is_outermost: bool,
}

impl GpuWorked {
    /// Work for the requests of this name, if enough of them lie in windows to speak of all.
    pub fn of_requests(&self, name: &Untrusted) -> Option<&PhaseWork> {
        let is_it = |phase: &&PhaseWork| phase.is_request && phase.name == *name;
        self.phases.iter().find(is_it).filter(|phase| phase.count >= ENOUGH_REQUESTS)
    }

    /// Reads the work, then the requests, then the work again. None if nothing was recorded.
    ///
    /// # Errors
    /// The first error of a reading.
    pub fn read<E, W, R>(
        mut work: impl FnMut() -> Result<Option<W>, E>,
        requests: impl FnOnce() -> Result<R, E>,
    ) -> Result<Option<Self>, E>
    where
        W: Iterator<Item = Result<GpuWork, E>>,
        R: Iterator<Item = Result<Request, E>>,
    {
        let Some(rows) = work()? else { return Ok(None) };
        let mut tally = Tally::default();
        for row in rows {
            tally.window(&row?);
        }
        tally.windows.join();
        for request in requests()? {
            tally.request(&request?);
        }
        tally.order();
        for row in work()?.into_iter().flatten() {
            tally.work(&row?);
        }
        Ok(Some(tally.finish()))
    }
}

#[derive(Default)]
struct Tally {
    told: GpuWorked,
    windows: Windows,
    seen: HashMap<u64, Seen>,
    /// Those by process, in the order of their starts.
    by_process: BTreeMap<u32, Vec<Seen>>,
    groups: BTreeMap<u32, Group>,
    kernels: HashMap<Untrusted, KernelWork>,
}

/// Work of one process in one window.
#[derive(Default)]
struct Group {
    /// Times of the work in the window.
    held: Vec<Span>,
    window: Span,
    /// Times of the work since: a window comes behind its work.
    fresh: Vec<Span>,
}

impl Tally {
    fn window(&mut self, row: &GpuWork) {
        if row.is_window() {
            add(&mut self.told.lost, row.lost);
            add(&mut self.told.cost_ns, row.cost_ns);
            self.windows.add(row);
        }
    }

    fn request(&mut self, request: &Request) {
        for phase in &request.phases {
            let span = (phase.start_ns, phase.start_ns.saturating_add(phase.duration_ns));
            let is_work = matches!(phase.kind, PhaseKind::Request | PhaseKind::Phase);
            if !is_work || request.is_warmup() || self.seen.len() >= PHASES {
                continue;
            }
            let process = phase.thread.tgid;
            if !self.windows.have(process, span) {
                continue;
            }
            let Some(name) = self.name(&phase.name, phase.kind == PhaseKind::Request) else { continue };
            let is_outermost = !self.is_within(phase.parent, name);
            if is_outermost {
                self.told.phases[name].count += 1;
                add(&mut self.told.phases[name].duration_ns, phase.duration_ns);
            }
            self.seen.insert(phase.id, Seen { span, process, parent: phase.parent, name, is_outermost });
        }
    }

    /// Whether one of the phases from `parent` outwards has this name.
    fn is_within(&self, parent: Option<u64>, name: usize) -> bool {
        let around = |phase: &u64| self.seen.get(phase).and_then(|seen| seen.parent);
        let outwards = std::iter::successors(parent, around).take(DEEPEST);
        outwards.filter_map(|phase| self.seen.get(&phase)).any(|seen| seen.name == name)
    }

    fn name(&mut self, name: &Untrusted, is_request: bool) -> Option<usize> {
        let phases = &mut self.told.phases;
        let known = phases.iter().position(|phase| phase.is_request == is_request && phase.name == *name);
        if known.is_none() && phases.len() < NAMES {
            phases.push(PhaseWork { name: name.clone(), is_request, ..PhaseWork::default() });
            return Some(phases.len() - 1);
        }
        known
    }

    /// All requests have come.
    fn order(&mut self) {
        for seen in self.seen.values() {
            self.by_process.entry(seen.process).or_default().push(*seen);
        }
        for phases in self.by_process.values_mut() {
            phases.sort_unstable_by_key(|seen| (seen.span, seen.name));
        }
    }

    fn work(&mut self, row: &GpuWork) {
        let span = (row.start_ns, row.end_ns);
        if row.is_window() {
            return self.close(row.process, span);
        }
        self.told.pieces += 1;
        self.told.outside += u64::from(row.phase.is_none());
        let fresh = &mut self.groups.entry(row.process).or_default().fresh;
        if fresh.len() < PIECES {
            fresh.push(span);
        }
        let Some(phase) = row.phase.filter(|phase| self.seen.contains_key(phase)) else { return };
        self.charge(phase, row);
        if row.kind == GpuWorkKind::Kernel {
            self.kernel(row);
        }
    }

    /// Charges work to a phase and those around it.
    fn charge(&mut self, phase: u64, row: &GpuWork) {
        let (mut next, mut names) = (Some(phase), 0_u64);
        // A folder may say anything, and go in circles.
        for _ in 0..DEEPEST {
            let Some(seen) = next.and_then(|phase| self.seen.get(&phase)) else { return };
            next = seen.parent;
            // Once where phases of one name lie within each other.
            let bit = 1 << seen.name;
            if names & bit == 0 {
                names |= bit;
                self.told.phases[seen.name].add(row);
            }
        }
    }

    fn kernel(&mut self, row: &GpuWork) {
        add(&mut self.told.kernels_ns, row.duration_ns());
        if self.kernels.contains_key(&row.name) || self.kernels.len() < KERNELS {
            self.kernels.entry(row.name.clone()).or_default().add(row);
        }
    }

    /// A window of a process is over: it goes on with the last one, or that one is looked at.
    fn close(&mut self, process: u32, span: Span) {
        let group = self.groups.entry(process).or_default();
        let goes_on = group.window.1 == span.0 && group.held.len() + group.fresh.len() <= PIECES;
        if goes_on {
            group.held.append(&mut group.fresh);
            group.window.1 = span.1;
            return;
        }
        let held = std::mem::replace(&mut group.held, std::mem::take(&mut group.fresh));
        let window = std::mem::replace(&mut group.window, span);
        self.busy(process, &held, window);
    }

    /// Adds how busy the GPU was during the phases that lie in this window.
    fn busy(&mut self, process: u32, work: &[Span], window: Span) {
        let Some(phases) = self.by_process.get(&process) else { return };
        let (once, twice) = (Busy::of(work, 1), Busy::of(work, 2));
        // A window may be looked at in parts: a phase has its time from each that it lies in.
        for seen in phases.iter().take_while(|seen| seen.span.0 <= window.1).filter(|seen| seen.is_outermost)
        {
            let part = (seen.span.0.max(window.0), seen.span.1.min(window.1));
            let phase = &mut self.told.phases[seen.name];
            add(&mut phase.busy_ns, once.within(part));
            add(&mut phase.concurrent_ns, twice.within(part));
        }
    }

    fn finish(mut self) -> GpuWorked {
        for (process, Group { held, window, .. }) in std::mem::take(&mut self.groups) {
            self.busy(process, &held, window);
        }
        let Self { mut told, windows, kernels, .. } = self;
        (told.windows, told.windows_ns) = windows.sums();
        told.phases.sort_by_key(|phase| !phase.is_request);
        let named = |(name, kernel)| KernelWork { name, ..kernel };
        told.kernels = longest(kernels.into_iter().map(named), LISTED);
        told
    }
}

/// The kernels that took longest, longest first.
pub(super) fn longest(kernels: impl Iterator<Item = KernelWork>, most: usize) -> Vec<KernelWork> {
    let mut longest: Vec<KernelWork> = kernels.collect();
    longest.sort_by(|a, b| (b.sum_ns, a.name.stored()).cmp(&(a.sum_ns, b.name.stored())));
    longest.truncate(most);
    longest
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

impl KernelWork {
    /// Adds a run of it.
    pub(super) fn add(&mut self, row: &GpuWork) {
        self.count += 1;
        add(&mut self.sum_ns, row.duration_ns());
    }
}

impl PhaseWork {
    /// Adds work that was asked for.
    pub(super) fn add(&mut self, row: &GpuWork) {
        match row.kind {
            GpuWorkKind::Kernel | GpuWorkKind::Graph => {
                self.kernels += 1;
                add(&mut self.kernels_ns, row.duration_ns());
            }
            GpuWorkKind::Copy | GpuWorkKind::Set => {
                self.copies += 1;
                add(&mut self.copies_ns, row.duration_ns());
                add(&mut self.copied_bytes, row.bytes);
            }
            GpuWorkKind::Window => {}
        }
        if let Some(delay_ns) = row.delay_ns() {
            self.delays += 1;
            add(&mut self.delay_ns, delay_ns);
        }
    }
}

#[cfg(test)]
#[path = "gpu_work_tests.rs"]
mod tests;
