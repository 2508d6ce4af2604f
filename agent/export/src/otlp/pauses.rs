//! Pauses of the whole guest, as span events of the phases around them. Pure.
//!
//! Pauses come before the requests that they lie in, so the last ones are kept. The sum over a phase is an
//! attribute and comes from the phase itself.

use std::collections::VecDeque;

use opentelemetry_proto::tonic::trace::v1::span::Event;

use super::{
    message::integer,
    timeline::{Interval, wall_ns},
};
use crate::phase::{Pause, Request};

/// Most pauses kept, and so most events of one phase: as many as waits.
const KEPT: usize = 32;

/// The last pauses.
#[derive(Debug, Default)]
pub(super) struct LastPauses(VecDeque<Pause>);

/// A pause inside a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PauseWithin {
    /// The phase, by its position in the request.
    position: usize,
    /// CLOCK_MONOTONIC, ns.
    start_ns: u64,
    /// ns.
    duration_ns: u64,
    /// Uncertainty of the start, ns.
    doubt_ns: u64,
}

impl LastPauses {
    pub(super) fn add(&mut self, pause: Pause) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(pause);
    }

    pub(super) fn within(&self, request: &Request) -> Vec<PauseWithin> {
        let phases = request.phases.iter().enumerate().filter(|(_, phase)| phase.pause_ns > 0);
        let pauses = phases.flat_map(|(position, phase)| {
            self.0.iter().filter_map(move |pause| {
                let (start_ns, duration_ns) = pause.within(phase)?;
                Some(PauseWithin { position, start_ns, duration_ns, doubt_ns: pause.doubt_ns })
            })
        });
        pauses.collect()
    }
}

/// Events of the phase at this position, clamped to its span's times.
pub(super) fn events(
    pauses: &[PauseWithin],
    position: usize,
    times: Interval,
    wall_offset_ns: i64,
) -> impl Iterator<Item = Event> {
    pauses.iter().filter(move |pause| pause.position == position).map(move |pause| {
        let start_ns = pause.start_ns.clamp(times.start_ns, times.end_ns);
        Event {
            time_unix_nano: wall_ns(start_ns, wall_offset_ns),
            name: "pause".to_owned(),
            attributes: vec![
                integer("guestscope.duration_ns", pause.duration_ns),
                integer("guestscope.doubt_ns", pause.doubt_ns),
            ],
            dropped_attributes_count: 0,
        }
    })
}
