//! Counts by place: the events of a phase without those of its nested phases, in one request and in the
//! typical one.
//!
//! Yields whole numbers and means. A table here says which counts are evidence for which cause.

use std::collections::HashMap;

use guestscope_contract::Account;

use crate::phase::{COUNTS, Metric, Phase, PhaseKind, Request};

use super::super::{
    cause::{Cause, Overlay},
    tree::{Located, PlaceId},
};

/// What is counted of phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Events {
    /// In the order of [`Metric::ALL`].
    counts: [u64; COUNTS],
    /// CPU time of the other threads of the process, ns; with other requests in flight, an equal share of it.
    pub(super) meanwhile_ns: u64,
}

impl Events {
    /// Nothing.
    pub(super) const NONE: Self = Self { counts: [0; COUNTS], meanwhile_ns: 0 };

    fn of(phase: &Phase) -> Self {
        Self { counts: phase.counts.to_array(), meanwhile_ns: phase.helpers.accounts.get(Account::Cpu) }
    }

    /// Applies a function to each number of two.
    fn zip(&mut self, other: &Self, f: impl Fn(u64, u64) -> u64) {
        let mine = self.counts.iter_mut().chain([&mut self.meanwhile_ns]);
        let theirs = other.counts.iter().chain([&other.meanwhile_ns]);
        mine.zip(theirs).for_each(|(mine, theirs)| *mine = f(*mine, *theirs));
    }
}

/// Means below this count as none: one event in so many requests says nothing about the next one.
const NONE: f64 = 0.000_5;

/// A phase's own events by place: its events less those of its nested phases. Other threads may have had more
/// events than the phase around them counted; nothing goes below zero.
pub(super) fn own(request: &Request, located: &Located) -> HashMap<PlaceId, Events> {
    let mut left: Vec<Events> = Vec::with_capacity(request.phases.len());
    for (index, (phase, &parent)) in request.phases.iter().zip(&located.parents).enumerate() {
        let whole = Events::of(phase);
        if index > 0 && phase.kind != PhaseKind::Queue {
            left[parent].zip(&whole, u64::saturating_sub);
        }
        left.push(whole);
    }
    let mut by_place: HashMap<PlaceId, Events> = HashMap::new();
    for (&place, events) in located.places.iter().zip(left) {
        by_place.entry(place).or_insert(Events::NONE).zip(&events, u64::saturating_add);
    }
    by_place
}

/// Sums of events over requests.
#[derive(Clone, Copy)]
struct Sums {
    counts: [u128; COUNTS],
    meanwhile_ns: u128,
}

/// Events of the requests in the middle half.
pub(super) struct Usual {
    requests: u64,
    by_place: HashMap<PlaceId, Sums>,
    /// Latency of a typical request, ns.
    latency_ns: u64,
}

impl Usual {
    /// For this number of requests, whose mean latency is this, ns.
    pub(super) fn new(requests: u64, latency_ns: u64) -> Self {
        Self { requests, by_place: HashMap::new(), latency_ns }
    }

    pub(super) fn add(&mut self, own: &HashMap<PlaceId, Events>) {
        for (&place, events) in own {
            let sums = self.by_place.entry(place).or_insert(Sums { counts: [0; COUNTS], meanwhile_ns: 0 });
            for (sum, &event) in sums.counts.iter_mut().zip(&events.counts) {
                *sum += u128::from(event);
            }
            sums.meanwhile_ns += u128::from(events.meanwhile_ns);
        }
    }

    /// The mean of one count at a place.
    pub(super) fn mean(&self, place: PlaceId, metric: Metric) -> f64 {
        let sum = self.by_place.get(&place).map_or(0, |sums| sums.counts[metric as usize]);
        let mean = sum as f64 / self.requests.max(1) as f64;
        if mean < NONE { 0.0 } else { mean }
    }

    /// The mean of the CPU time of the other threads of their processes at a place, ns.
    pub(super) fn meanwhile_ns(&self, place: PlaceId) -> f64 {
        let sum = self.by_place.get(&place).map_or(0, |sums| sums.meanwhile_ns);
        sum as f64 / self.requests.max(1) as f64
    }

    /// How long these threads ran beside one nanosecond of a request.
    pub(super) fn meanwhile_rate(&self) -> f64 {
        let all_ns = self.by_place.values().map(|sums| sums.meanwhile_ns).sum::<u128>() as f64;
        all_ns / (self.requests.max(1) as f64 * self.latency_ns.max(1) as f64)
    }

    /// Number of requests behind the means.
    pub(super) const fn requests(&self) -> u64 {
        self.requests
    }
}

/// One count of these.
pub(super) const fn event(events: &Events, metric: Metric) -> u64 {
    events.counts[metric as usize]
}

const MOVES: [Metric; 5] = [
    Metric::MigrateSmt,
    Metric::MigrateLlc,
    Metric::MigrateNode,
    Metric::MigrateRemote,
    Metric::SwitchInvoluntary,
];
const DISK: [Metric; 9] = [
    Metric::BlockRead,
    Metric::BlockReadBytes,
    Metric::BlockWrite,
    Metric::BlockWriteBytes,
    Metric::BlockIo,
    Metric::BlockQueue,
    Metric::BlockDevice,
    Metric::FaultMajor,
    Metric::FaultMinor,
];
const SOCKETS: [Metric; 8] = [
    Metric::NetRecv,
    Metric::NetRecvBytes,
    Metric::NetSend,
    Metric::NetSendBytes,
    Metric::NetResponse,
    Metric::NetResponseTime,
    Metric::NetRoundTrip,
    Metric::NetRetransmit,
];
const DRIVER: [Metric; 5] =
    [Metric::GpuWait, Metric::GpuCopy, Metric::GpuCopyBlocking, Metric::GpuToDevice, Metric::GpuFromDevice];
/// Samples of all kinds.
pub(super) const SAMPLES: [Metric; 5] =
    [Metric::SampleUser, Metric::SampleSpin, Metric::SampleFault, Metric::SampleSyscall, Metric::SampleIrq];

/// Counts that speak for a cause, or against it.
pub(super) const fn relevant(cause: Cause) -> &'static [Metric] {
    match cause {
        Cause::Account(Account::Runq) => &[
            Metric::MigrateSmt,
            Metric::MigrateLlc,
            Metric::MigrateNode,
            Metric::MigrateRemote,
            Metric::SwitchInvoluntary,
            Metric::Wakeup,
            Metric::WakeupDelay,
        ],
        Cause::Account(Account::Cpu) => &MOVES,
        Cause::Account(Account::Throttled) => &[Metric::Throttle],
        Cause::Account(Account::BlockIo | Account::Fault) => &DISK,
        Cause::Account(Account::Net) => &SOCKETS,
        Cause::Account(Account::Poll) => {
            &[Metric::PollNet, Metric::NetRecv, Metric::NetRecvBytes, Metric::NetRetransmit]
        }
        Cause::Account(Account::Gpu) | Cause::InDriver => &DRIVER,
        Cause::Account(Account::Lock | Account::Sleep | Account::Other) => &[Metric::SwitchVoluntary],
        Cause::Overlay(Overlay::Fault) => &[Metric::FaultMinor, Metric::FaultMajor],
        Cause::Suspended => &[Metric::SuspendedHeld],
        Cause::Overlay(Overlay::Spin | Overlay::Syscall | Overlay::Irq)
        | Cause::Queue
        | Cause::Handoff
        | Cause::Steal
        | Cause::Pause
        | Cause::AddressSpace
        | Cause::Stopped
        | Cause::Helper(_) => &[],
    }
}
