//! Restores and moves of the guest, as span events of the phases that were open when they were noticed. Pure.
//!
//! They are noticed before those phases end, so the last ones are kept.

use std::collections::VecDeque;

use opentelemetry_proto::tonic::trace::v1::span::Event;

use super::{
    message::text,
    timeline::{Interval, wall_ns},
};
use crate::phase::{Request, Restored};

/// Most restores kept, and so most events of one phase: as many as pauses.
const KEPT: usize = 32;

/// The last restores and moves.
#[derive(Debug, Default)]
pub(super) struct LastRestores(VecDeque<Restored>);

impl LastRestores {
    pub(super) fn add(&mut self, restored: Restored) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(restored);
    }

    /// Those noticed in phases of a request, with the positions of the phases, in order of the phases.
    pub(super) fn within(&self, request: &Request) -> Vec<(usize, Restored)> {
        let phases = request.phases.iter().enumerate();
        let of = |(position, phase)| {
            let noticed = self.0.iter().filter(move |restored| restored.is_within(phase));
            noticed.map(move |restored| (position, *restored))
        };
        phases.flat_map(of).collect()
    }
}

/// Events of the phase at this position, clamped to its span's times.
pub(super) fn events(
    restores: &[(usize, Restored)],
    position: usize,
    times: Interval,
    wall_offset_ns: i64,
) -> impl Iterator<Item = Event> {
    restores.iter().filter(move |(at, _)| *at == position).map(move |(_, restored)| {
        let noticed_ns = restored.noticed_ns.clamp(times.start_ns, times.end_ns);
        Event {
            time_unix_nano: wall_ns(noticed_ns, wall_offset_ns),
            name: "restored".to_owned(),
            attributes: vec![text("guestscope.source", restored.source.name())],
            dropped_attributes_count: 0,
        }
    })
}
