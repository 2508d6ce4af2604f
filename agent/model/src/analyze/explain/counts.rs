//! Counts by place: the events of a phase without those of its nested phases, in one request and in the
//! typical one.
//!
//! Yields whole numbers and means. A table here says which counts are evidence for which cause.

use std::collections::HashMap;

use guestscope_contract::Account;

use crate::phase::{COUNT_NAMES, PhaseKind, Request};

use super::super::{
    split::{Cause, Overlay},
    tree::{Located, PlaceId},
};

/// Events in the order of [`COUNT_NAMES`].
pub(super) type Events = [u64; COUNT_NAMES.len()];
/// Means below this count as zero: one event in 2,000 requests says nothing about the next request.
const NONE: f64 = 0.000_5;

/// A phase's own events by place: its events less those of its nested phases. Other threads may have had more
/// events than the phase around them counted; nothing goes below zero.
pub(super) fn own(request: &Request, located: &Located) -> HashMap<PlaceId, Events> {
    let mut left: Vec<Events> = Vec::with_capacity(request.phases.len());
    for (index, (phase, &parent)) in request.phases.iter().zip(&located.parents).enumerate() {
        let whole = phase.counts.to_array();
        if index > 0 && phase.kind != PhaseKind::Queue {
            for (outer, inner) in left[parent].iter_mut().zip(whole) {
                *outer = outer.saturating_sub(inner);
            }
        }
        left.push(whole);
    }
    let mut by_place: HashMap<PlaceId, Events> = HashMap::new();
    for (&place, events) in located.places.iter().zip(left) {
        let sums = by_place.entry(place).or_insert([0; COUNT_NAMES.len()]);
        for (sum, event) in sums.iter_mut().zip(events) {
            *sum = sum.saturating_add(event);
        }
    }
    by_place
}

/// Events of the requests in the middle half.
pub(super) struct Usual {
    requests: u64,
    by_place: HashMap<PlaceId, [u128; COUNT_NAMES.len()]>,
}

impl Usual {
    pub(super) fn new(requests: u64) -> Self {
        Self { requests, by_place: HashMap::new() }
    }

    pub(super) fn add(&mut self, own: &HashMap<PlaceId, Events>) {
        for (&place, events) in own {
            let sums = self.by_place.entry(place).or_insert([0; COUNT_NAMES.len()]);
            for (sum, &event) in sums.iter_mut().zip(events) {
                *sum += u128::from(event);
            }
        }
    }

    /// The mean of one count at a place.
    pub(super) fn mean(&self, place: PlaceId, name: &str) -> f64 {
        let sum = self.by_place.get(&place).map_or(0, |sums| index_of(name).map_or(0, |index| sums[index]));
        let mean = sum as f64 / self.requests.max(1) as f64;
        if mean < NONE { 0.0 } else { mean }
    }

    /// Number of requests behind the means.
    pub(super) const fn requests(&self) -> u64 {
        self.requests
    }
}

/// The count with this name.
pub(super) fn event(events: &Events, name: &str) -> u64 {
    index_of(name).map_or(0, |index| events[index])
}

fn index_of(name: &str) -> Option<usize> {
    COUNT_NAMES.iter().position(|known| *known == name)
}

const MOVES: [&str; 5] =
    ["migrate.smt", "migrate.llc", "migrate.node", "migrate.remote", "switch.involuntary"];
const DISK: [&str; 9] = [
    "block.read",
    "block.read_bytes",
    "block.write",
    "block.write_bytes",
    "block.io",
    "block.queue_ns",
    "block.device_ns",
    "fault.major",
    "fault.minor",
];
const SOCKETS: [&str; 8] = [
    "net.recv",
    "net.recv_bytes",
    "net.send",
    "net.send_bytes",
    "net.answer",
    "net.answer_ns",
    "net.round_trip_ns",
    "net.retransmit",
];
/// Samples of all kinds.
pub(super) const SAMPLES: [&str; 5] =
    ["sample.user", "sample.spin", "sample.fault", "sample.syscall", "sample.irq"];

/// Counts that speak for a cause, or against it.
pub(super) const fn relevant(cause: Cause) -> &'static [&'static str] {
    match cause {
        Cause::Account(Account::Runq) => &[
            "migrate.smt",
            "migrate.llc",
            "migrate.node",
            "migrate.remote",
            "switch.involuntary",
            "wakeup",
            "wakeup.delay_ns",
        ],
        Cause::Account(Account::Cpu) => &MOVES,
        Cause::Account(Account::Throttled) => &["throttle"],
        Cause::Account(Account::BlockIo | Account::Fault) => &DISK,
        Cause::Account(Account::Net) => &SOCKETS,
        Cause::Account(Account::Poll) => &["poll.net_ns", "net.recv", "net.recv_bytes", "net.retransmit"],
        Cause::Account(Account::Lock | Account::Sleep | Account::Other | Account::Gpu) => {
            &["switch.voluntary"]
        }
        Cause::Overlay(Overlay::Fault) => &["fault.minor", "fault.major"],
        Cause::Overlay(Overlay::Spin | Overlay::Syscall | Overlay::Irq)
        | Cause::Suspended
        | Cause::Queue
        | Cause::Handoff
        | Cause::Steal
        | Cause::Pause
        | Cause::Helper(_) => &[],
    }
}
