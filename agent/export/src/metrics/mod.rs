//! Metrics since the start: how often requests and phases ran, how long, and where the time went. Everything
//! counts, also what is not exported as a trace.
//!
//! Yields counts that equal the rows of a run folder of the same time. Names are the program's, so their
//! number is bounded: those beyond are one row.

mod durations;
mod open_metrics;
mod serve;

use std::collections::BTreeMap;

pub use self::{
    durations::Durations,
    open_metrics::{CONTENT_TYPE, Kind, Number, text},
    serve::serve,
};
use crate::{
    analyze::{Band, CAUSES, Cause, OTHER_PHASES, OTHER_REQUESTS, Split, TailVerdict},
    phase::{Ending, Phase, PhaseKind, Request},
};

/// Most pairs of a request and a phase that are told apart.
pub const MOST: usize = 512;
/// Powers of two, in ns, up to which durations are counted: 65.5 us to 68.7 s.
pub const POWERS: std::ops::RangeInclusive<u32> = 16..=36;
/// Number of these powers.
const BOUNDS: usize = 21;

/// A request's name, and that of a phase in it; empty for the whole request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The request.
    pub request: String,
    /// The phase.
    pub phase: String,
}

/// What is known of a request or a phase.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// How long it took.
    pub durations: Durations,
    /// Where the time went, in the order of [`Cause::of_time`], ns. Phases around have it as well.
    time_ns: [u128; CAUSES],
    /// Slow ones, by the highest quantile that they exceed and the largest part of what they took longer.
    pub slow: BTreeMap<(&'static str, &'static str), u64>,
    /// The last one by power of two, and beyond them.
    exemplars: [Option<Exemplar>; BOUNDS + 1],
}

/// One of those that were counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar {
    /// Its trace.
    pub trace_id: [u8; 16],
    /// Its duration, ns.
    pub duration_ns: u64,
    /// Its end, wall time, ns since 1970.
    pub ended_ns: u64,
}

/// All rows, and what has none.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    rows: BTreeMap<Key, Row>,
    /// Room for the key that is looked for: a resident agent looks for thousands a second.
    sought: Key,
    /// Phases that were counted as others for want of room.
    pub others: u64,
    /// Requests that statistics leave out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

impl Row {
    /// Where the time went, ns.
    pub fn time(&self) -> impl Iterator<Item = (Cause, u128)> + '_ {
        Cause::of_time().zip(self.time_ns)
    }

    /// The last one that took up to `2^power` ns and longer than the power before.
    fn exemplar(&self, power: u32) -> Option<&Exemplar> {
        self.exemplars[bound(power)].as_ref()
    }

    /// The last one beyond all powers.
    fn beyond(&self) -> Option<&Exemplar> {
        self.exemplars[BOUNDS].as_ref()
    }

    /// All that are kept as examples.
    pub fn exemplars(&self) -> impl Iterator<Item = &Exemplar> {
        self.exemplars.iter().flatten()
    }

    fn since(&self, earlier: &Self) -> Self {
        let mut since = Self { durations: self.durations.since(&earlier.durations), ..self.clone() };
        for (ns, before) in since.time_ns.iter_mut().zip(earlier.time_ns) {
            *ns = ns.saturating_sub(before);
        }
        for (kind, count) in &mut since.slow {
            *count = count.saturating_sub(earlier.slow.get(kind).copied().unwrap_or(0));
        }
        since
    }

    fn add(&mut self, phase: &Phase, wall_offset_ns: i64) {
        self.durations.record(phase.duration_ns);
        let split = Split::of(phase);
        for (sum, (_, ns)) in self.time_ns.iter_mut().zip(split.time()) {
            *sum += u128::from(ns);
        }
        let end_ns = phase.start_ns.saturating_add(phase.duration_ns);
        let power = u64::BITS - phase.duration_ns.saturating_sub(1).leading_zeros();
        let place = if power > *POWERS.end() { BOUNDS } else { bound(power.max(*POWERS.start())) };
        self.exemplars[place] = Some(Exemplar {
            trace_id: phase.trace.trace_id,
            duration_ns: phase.duration_ns,
            ended_ns: end_ns.saturating_add_signed(wall_offset_ns),
        });
    }
}

/// Place of a power among the bounds.
fn bound(power: u32) -> usize {
    (power.saturating_sub(*POWERS.start()) as usize).min(BOUNDS)
}

impl Metrics {
    /// Counts a request. `wall_offset_ns` is what turns its times into wall time.
    pub fn observe(&mut self, request: &Request, verdict: Option<&TailVerdict>, wall_offset_ns: i64) {
        let root = request.root();
        let reason = match root.kind {
            PhaseKind::Process => Some("process"),
            PhaseKind::Request | PhaseKind::Phase | PhaseKind::Queue if request.is_warmup() => Some("warmup"),
            PhaseKind::Request | PhaseKind::Phase | PhaseKind::Queue => {
                (root.ending != Ending::Ended).then_some("unfinished")
            }
        };
        if let Some(reason) = reason {
            *self.left_out.entry(reason).or_insert(0) += 1;
            return;
        }
        for phase in &request.phases {
            let name = if phase.id == root.id { "" } else { phase.name.stored() };
            let is_other = self.with_row(root.name.stored(), name, |row| row.add(phase, wall_offset_ns));
            self.others += u64::from(is_other);
        }
        if let Some(verdict) = verdict
            && let Some(tail) = verdict.tail.filter(|tail| *tail >= Band::P90)
        {
            let cause = verdict.cause.map_or("", Cause::name);
            self.with_row(root.name.stored(), "", |row| {
                *row.slow.entry((tail.name(), cause)).or_insert(0) += 1;
            });
        }
    }

    /// Changes a row. Whether that is the one of others, for want of room.
    fn with_row(&mut self, request: &str, phase: &str, change: impl FnOnce(&mut Row)) -> bool {
        request.clone_into(&mut self.sought.request);
        phase.clone_into(&mut self.sought.phase);
        if let Some(row) = self.rows.get_mut(&self.sought) {
            change(row);
            return false;
        }
        let other = if phase.is_empty() { "" } else { OTHER_PHASES };
        let is_other = self.rows.len() >= MOST;
        let key = if is_other {
            Key { request: OTHER_REQUESTS.to_owned(), phase: other.to_owned() }
        } else {
            self.sought.clone()
        };
        change(self.rows.entry(key).or_default());
        is_other
    }

    /// What came since an earlier state of the same metrics.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let row = |(key, row): (&Key, &Row)| {
            let since = earlier.rows.get(key).map_or_else(|| row.clone(), |earlier| row.since(earlier));
            (since.durations.count() > 0).then(|| (key.clone(), since))
        };
        let count = |(reason, count): (&&'static str, &u64)| {
            (*reason, count.saturating_sub(earlier.left_out.get(reason).copied().unwrap_or(0)))
        };
        Self {
            rows: self.rows.iter().filter_map(row).collect(),
            sought: Key::default(),
            others: self.others.saturating_sub(earlier.others),
            left_out: self.left_out.iter().map(count).collect(),
        }
    }

    /// The rows, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&Key, &Row)> {
        self.rows.iter()
    }
}

#[cfg(test)]
mod tests;
