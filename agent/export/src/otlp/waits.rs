//! Which waits a trace shows: kept until their request comes, chosen when the lengths of its phases are
//! known. Pure.
//!
//! A wait comes before the edge that ends its phase, so before its request. The longest ones that matter
//! become spans, some of the rest events of the phase's span; the others are counted. A phase keeps only as
//! many as can be shown, all phases together some 1 MiB. Nothing here knows times of the wall clock.

use std::{cmp::Reverse, collections::HashMap};

use guestscope_contract::Account;

use super::{
    gpus::{self, GpuDuring},
    pauses::{LastPauses, PauseWithin},
    restored::LastRestores,
    timeline::Interval,
    work::{ChosenWork, Works},
};
use crate::phase::{GpuReading, GpuReadings, GpuWork, Pause, Phase, Request, Restored, Wait};

/// Most waits of a phase shown as spans.
pub(super) const SPANS: usize = 8;
/// Most waits of a phase shown as events of its span.
pub(super) const EVENTS: usize = 32;
/// Shortest wait shown as a span, ns, even with a lower `--wait-threshold`.
pub(super) const LEAST_NS: u64 = 100_000;
/// Most waits kept: some 200 bytes each, with the name of the thread that ran before.
pub(super) const MOST: usize = 4096;

/// The waits of phases that have not ended.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    /// Longest waits by phase `id`.
    phases: HashMap<u64, Longest>,
    kept: usize,
    /// Pauses of the guest; they too come before the requests that they lie in.
    pauses: LastPauses,
    /// Restores and moves of the guest.
    restores: LastRestores,
    /// Last GPU readings.
    gpus: GpuReadings,
    /// Work of GPUs.
    works: Works,
    /// Waits that had no room and are counted in no span.
    pub(super) no_room: u64,
}

/// The longest waits of a phase.
#[derive(Debug, Default)]
struct Longest {
    waits: Vec<Wait>,
    left_out: u64,
}

/// What the trace of a request shows of its waits.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Waits as spans, with the position of their phase in the request: in order of phase, then of start.
    pub(super) spans: Vec<(usize, Wait)>,
    /// Notes by phase, in order of phase, for those that have any.
    pub(super) notes: Vec<Notes>,
    /// Pauses inside phases, in order of phase.
    pub(super) pauses: Vec<PauseWithin>,
    /// Restores and moves noticed inside phases, in order of phase.
    pub(super) restores: Vec<(usize, Restored)>,
    /// GPU activity; only for a slow request.
    pub(super) gpus: Vec<GpuDuring>,
    /// Work of GPUs.
    pub(super) work: ChosenWork,
}

/// Waits of a phase that are no spans.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notes {
    /// The phase, by its position in the request.
    pub(super) position: usize,
    /// Events in order of start.
    pub(super) events: Vec<Note>,
    /// Waits that are neither spans nor events.
    pub(super) left_out: u64,
}

/// A wait as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// Account with most of its time.
    pub(super) account: Account,
    /// CLOCK_MONOTONIC, ns.
    pub(super) start_ns: u64,
    /// ns.
    pub(super) duration_ns: u64,
}

/// Sort key: the longest last, among equals the earliest. It is unique, so the order of arrival does not
/// matter.
fn rank(wait: &Wait) -> (u64, Reverse<u64>, u32) {
    (wait.duration_ns, Reverse(wait.start_ns), wait.thread.tid)
}

impl Keeper {
    /// Keeps a wait if it lies in a phase and is among the longest there.
    pub(super) fn add(&mut self, wait: Wait) {
        let Some(phase) = wait.phase else { return };
        if self.kept >= MOST {
            self.make_room();
        }
        let Longest { waits, left_out } = self.phases.entry(phase).or_default();
        if waits.len() < SPANS + EVENTS {
            waits.push(wait);
            self.kept += 1;
            return;
        }
        *left_out += 1;
        if let Some(shortest) = waits.iter_mut().min_by_key(|wait| rank(wait))
            && rank(shortest) < rank(&wait)
        {
            *shortest = wait;
        }
    }

    /// Leaves the shorter half out, over all phases.
    fn make_room(&mut self) {
        let mut lengths: Vec<u64> =
            self.phases.values().flat_map(|longest| &longest.waits).map(|wait| wait.duration_ns).collect();
        let middle = lengths.len() / 2;
        let median = lengths.select_nth_unstable(middle).1;
        let mut no_room = 0;
        self.phases.retain(|_, longest| {
            let before = longest.waits.len();
            longest.waits.retain(|wait| wait.duration_ns > *median);
            longest.left_out += (before - longest.waits.len()) as u64;
            // Phases without waits left are forgotten, or they would need a bound of their own.
            let is_left = !longest.waits.is_empty();
            no_room += if is_left { 0 } else { longest.left_out };
            is_left
        });
        self.no_room += no_room;
        self.kept = self.phases.values().map(|longest| longest.waits.len()).sum();
    }

    /// Keeps a pause of the guest.
    pub(super) fn stopped(&mut self, pause: Pause) {
        self.pauses.add(pause);
    }

    /// Keeps that the guest was restored or moved.
    pub(super) fn restored(&mut self, restored: Restored) {
        self.restores.add(restored);
    }

    /// Keeps what a graphics processor was doing.
    pub(super) fn gpu(&mut self, reading: GpuReading) {
        self.gpus.add(reading);
    }

    /// Keeps work of a GPU if a phase asked for it.
    pub(super) fn gpu_work(&mut self, work: GpuWork) {
        self.works.add(work);
    }

    /// Drops all waits: requests were lost, and theirs would stay for ever.
    pub(super) fn forget(&mut self) {
        let all = self.phases.drain().map(|(_, longest)| longest.waits.len() as u64 + longest.left_out);
        self.no_room += all.sum::<u64>();
        self.kept = 0;
        self.works.forget();
    }

    /// Takes out the waits of a request in this latency band, with GPU activity if it is slow.
    pub(super) fn take_of(&mut self, request: &Request, tail: Option<&str>) -> Chosen {
        let gpus = if gpus::is_slow(tail) { gpus::within(&self.gpus, request) } else { Vec::new() };
        Chosen { gpus, ..self.take(request) }
    }

    /// Takes out the waits of a request, and the pauses and moves in its time.
    pub(super) fn take(&mut self, request: &Request) -> Chosen {
        let (pauses, restores) = (self.pauses.within(request), self.restores.within(request));
        let work = self.works.take(request);
        let mut chosen = Chosen { pauses, restores, work, ..Chosen::default() };
        if self.phases.is_empty() {
            return chosen;
        }
        for (position, phase) in request.phases.iter().enumerate() {
            if let Some(longest) = self.phases.remove(&phase.id) {
                self.kept -= longest.waits.len();
                chosen.choose(position, phase, longest);
            }
        }
        chosen
    }
}

impl Chosen {
    /// Memory, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let texts = |wait: &Wait| {
            let io = wait.io.as_ref().map_or(0, |io| io.device.stored().len() + io.name.stored().len());
            wait.ran_before_comm.stored().len() + io
        };
        let spans = self.spans.iter().map(|(_, wait)| size_of::<(usize, Wait)>() + texts(wait));
        let notes = self.notes.iter().map(|notes| size_of::<Notes>() + size_of_val(&notes.events[..]));
        spans.chain(notes).sum::<usize>()
            + size_of_val(&self.pauses[..])
            + size_of_val(&self.restores[..])
            + size_of_val(&self.gpus[..])
            + self.work.memory_bytes()
    }

    /// Spans beside those of phases.
    pub(super) fn spans(&self) -> usize {
        self.spans.len() + self.work.spans.len()
    }

    /// Notes of the phase at this position, if any.
    pub(super) fn notes_of(&self, position: usize) -> Option<&Notes> {
        let found = self.notes.binary_search_by_key(&position, |notes| notes.position);
        found.ok().map(|at| &self.notes[at])
    }

    fn choose(&mut self, position: usize, phase: &Phase, longest: Longest) {
        let Longest { mut waits, mut left_out } = longest;
        let given = waits.len();
        waits.retain(|wait| inside(wait, phase).is_some());
        waits.sort_by_key(|wait| Reverse(rank(wait)));
        let least_ns = LEAST_NS.max(phase.duration_ns.div_ceil(100));
        let matter = waits.iter().take(SPANS).take_while(|wait| wait.duration_ns >= least_ns).count();
        let mut rest = waits.split_off(matter);
        rest.truncate(EVENTS);
        let mut events: Vec<Note> = rest.iter().map(Note::of).collect();
        events.sort_by_key(|event| event.start_ns);
        waits.sort_by_key(|wait| wait.start_ns);
        // Spans of a phase's waits are told apart by their start. No kernel yields two with the same one.
        waits.dedup_by_key(|wait| wait.start_ns);
        left_out += (given - waits.len() - events.len()) as u64;
        if !events.is_empty() || left_out > 0 {
            self.notes.push(Notes { position, events, left_out });
        }
        self.spans.extend(waits.into_iter().map(|wait| (position, wait)));
    }
}

impl Note {
    fn of(wait: &Wait) -> Self {
        Self { account: wait.mainly().0, start_ns: wait.start_ns, duration_ns: wait.duration_ns }
    }
}

/// The part of a wait inside its phase: all of it, unless another thread ended the phase, or its end was
/// stamped before the wait and handed over after it. Then the rest is cut off, and a wait outside is not
/// shown.
pub(super) fn inside(wait: &Wait, phase: &Phase) -> Option<Interval> {
    let whole = Interval::of(phase);
    let start_ns = wait.start_ns.max(whole.start_ns);
    let end_ns = wait.end_ns().min(whole.end_ns);
    (start_ns < end_ns).then_some(Interval { start_ns, end_ns })
}
