//! Activity of graphics processors, on the spans of slow requests.

use std::sync::Arc;

use super::{OFFSET_NS, phase, shown};
use crate::{
    otlp::{LiveVerdict, spans::Trace, waits::Keeper},
    phase::{GpuReading, Phase, Request},
};

const MS: u64 = 1_000_000;

/// Each span's name and its attributes about devices, sorted.
fn seen(tail: Option<&'static str>) -> Vec<(String, Vec<String>)> {
    let whole = Phase { duration_ns: 1_000 * MS, ..phase(1, 1, None, "infer") };
    let from_ns = whole.start_ns;
    let inner = |id, at: u64, duration: u64, name| Phase {
        start_ns: from_ns + at * MS,
        duration_ns: duration * MS,
        ..phase(1, id, Some(1), name)
    };
    let request = Request { phases: vec![whole, inner(2, 0, 50, "copy"), inner(3, 50, 900, "compute")] };
    let mut keeper = Keeper::default();
    let reading = |at: i64, device: u32, percent: u64, throttle_reasons: u64| GpuReading {
        time_ns: from_ns.checked_add_signed(at * MS as i64).unwrap(),
        device,
        utilization_percent: Some(percent),
        power_mw: Some(1_000 * percent),
        throttle_reasons: Some(throttle_reasons),
        ..GpuReading::default()
    };
    // The second device was read 3 s before, and so says nothing.
    for reading in [
        reading(-3_000, 1, 9, 0),
        reading(-100, 0, 10, 1),
        reading(100, 0, 50, 1),
        reading(300, 0, 90, 4),
        reading(500, 0, 91, 4),
        reading(1_200, 0, 3, 64),
    ] {
        keeper.gpu(reading);
    }
    let chosen = keeper.take_of(&request, tail);
    let spans = Trace::new(Arc::new(request), chosen, LiveVerdict::default(), OFFSET_NS);
    spans
        .map(|(_, span)| {
            let about = span.attributes.iter().filter(|one| one.key.starts_with("guestscope.gpu."));
            let mut about: Vec<String> = about.map(shown).collect();
            about.sort();
            (span.name, about)
        })
        .collect()
}

#[test]
fn a_slow_phase_is_told_what_was_read_meanwhile_or_last_before() {
    let texts =
        |numbers: &[&str]| numbers.iter().map(|one| format!("guestscope.gpu.0.{one}")).collect::<Vec<_>>();
    let compute =
        texts(&["power_mw=77000", "readings=3", "throttled_by=[\"sw_power_cap\"]", "utilization_percent=77"]);
    let copy = texts(&["power_mw=10000", "readings=1", "utilization_percent=10"]);
    let expected = |name: &str, of: &[String]| (name.to_owned(), of.to_vec());
    assert_eq!(
        seen(Some("p99")),
        [expected("copy", &copy), expected("compute", &compute), expected("infer", &compute)]
    );
}

#[test]
fn requests_that_are_not_slow_go_without() {
    for tail in [None, Some("p50")] {
        assert!(seen(tail).iter().all(|(_, about)| about.is_empty()), "{tail:?}");
    }
}
