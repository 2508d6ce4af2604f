//! Activity of graphics processors during a slow request, as attributes of its phases' spans. Pure.
//!
//! Readings come before the requests that they lie in, so the last ones are kept. Requests that are not slow
//! go without: at five readings a second there is too little to tell.

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::message::{integer, texts};
use crate::{
    analyze::Band,
    gpu,
    phase::{GpuReadings, GpuUse, Request},
};

/// A device's readings in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GpuDuring {
    /// The phase, by its position in the request.
    position: usize,
    device: u32,
    used: GpuUse,
}

/// Whether requests in this latency band get attributes about devices: only bands above p50.
pub(super) fn is_slow(tail: Option<&str>) -> bool {
    tail.is_some_and(|tail| tail != Band::P50.name())
}

/// Readings by phase, in order of the phases, then of the devices.
pub(super) fn within(readings: &GpuReadings, request: &Request) -> Vec<GpuDuring> {
    let phases = request.phases.iter().enumerate();
    phases
        .flat_map(|(position, phase)| {
            let during = readings.during(phase, gpu::CLOCKS_HELD);
            during.into_iter().map(move |(device, used)| GpuDuring { position, device, used })
        })
        .collect()
}

/// Attributes of the phase at this position.
pub(super) fn attributes(gpus: &[GpuDuring], position: usize) -> impl Iterator<Item = KeyValue> {
    gpus.iter().filter(move |one| one.position == position).flat_map(of)
}

fn of(GpuDuring { device, used, .. }: &GpuDuring) -> Vec<KeyValue> {
    let key = |name: &str| format!("guestscope.gpu.{device}.{name}");
    let numbers = [
        ("readings", Some(used.readings)),
        ("utilization_percent", used.utilization_percent),
        ("memory_utilization_percent", used.memory_utilization_percent),
        ("memory_used_bytes", used.memory_used_bytes),
        ("clock_sm_mhz", used.clock_sm_mhz),
        ("power_mw", used.power_mw),
        ("temperature_celsius", used.temperature_celsius),
    ];
    let known = numbers.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let mut all: Vec<KeyValue> = known.map(|(name, value)| integer(key(name), value)).collect();
    let mut words = gpu::throttle_words(used.throttle_reasons).map(Into::into).peekable();
    if words.peek().is_some() {
        all.push(texts(key("throttled_by"), words));
    }
    all
}
