//! Pauses of the whole guest, as span events of the phases around them. Pure.
//!
//! Pauses come before the requests that they lie in, so the last ones are kept. The sum over a phase is an
//! attribute and comes from the phase itself.

use std::collections::VecDeque;

use opentelemetry_proto::tonic::trace::v1::span::Event;

use super::{message::integer, spans::wall_ns, timeline::Interval};
use crate::phase::{Pause, Request};

/// Most pauses kept, and so most events of one phase: as many as waits.
const KEPT: usize = 32;

/// The last pauses.
#[derive(Debug, Default)]
pub(super) struct Stops(VecDeque<Pause>);

/// A pause inside a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    /// The phase, by its position in the request.
    position: usize,
    /// CLOCK_MONOTONIC, ns.
    start_ns: u64,
    /// ns.
    duration_ns: u64,
    /// Uncertainty of the start, ns.
    doubt_ns: u64,
}

impl Stops {
    pub(super) fn add(&mut self, pause: Pause) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(pause);
    }

    pub(super) fn within(&self, request: &Request) -> Vec<Stop> {
        let phases = request.phases.iter().enumerate().filter(|(_, phase)| phase.pause_ns > 0);
        let stops = phases.flat_map(|(position, phase)| {
            self.0.iter().filter_map(move |pause| {
                let (start_ns, duration_ns) = pause.within(phase)?;
                Some(Stop { position, start_ns, duration_ns, doubt_ns: pause.doubt_ns })
            })
        });
        stops.collect()
    }
}

/// Events of the phase at this position, clamped to its span's times.
pub(super) fn events(
    stops: &[Stop],
    position: usize,
    times: Interval,
    wall_offset_ns: i64,
) -> impl Iterator<Item = Event> {
    stops.iter().filter(move |stop| stop.position == position).map(move |stop| {
        let start_ns = stop.start_ns.clamp(times.start_ns, times.end_ns);
        Event {
            time_unix_nano: wall_ns(start_ns, wall_offset_ns),
            name: "pause".to_owned(),
            attributes: vec![
                integer("guestscope.duration_ns", stop.duration_ns),
                integer("guestscope.doubt_ns", stop.doubt_ns),
            ],
            dropped_attributes_count: 0,
        }
    })
}
