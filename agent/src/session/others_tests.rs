//! Numbers of devices and processes, and the limits that follow.

use rstest::rstest;

use super::*;
use crate::gpu::Device as Known;

const MS: u64 = 1_000_000;

/// With these devices.
fn others(devices: std::ops::RangeInclusive<u32>) -> Others {
    let mut others = Others::default();
    let device = |index| Known { index, clock_sm_max_mhz: Some(1_000), ..Known::default() };
    others.known(&Hello { devices: devices.map(device).collect(), ..Hello::default() });
    others
}

fn reading(at_ms: u64, mhz: u64, reasons: u64) -> GpuReading {
    GpuReading {
        time_ns: at_ms * MS,
        device: 1,
        clock_sm_mhz: Some(mhz),
        throttle_reasons: Some(reasons),
        ..GpuReading::default()
    }
}

/// Each reading stands for the time since the one before; what an idle device lowers is not lost.
#[rstest]
#[case::held(&[(200, 500, 0x4), (400, 250, 0x24)], Some((250, 250, "sw_power_cap, sw_thermal")))]
#[case::idle(&[(200, 500, 0x1), (400, 210, 0x21)], None)]
#[case::below_what_was_asked_for(&[(200, 700, 0x2), (400, 350, 0x6)], Some((100, 350, "sw_power_cap")))]
#[case::at_full_speed(&[(200, 1_000, 0x4)], None)]
#[case::nothing_for_long(&[(200, 1_000, 0x0), (60_000, 500, 0x4)], Some((500, 500, "sw_power_cap")))]
fn clocks_that_are_held_down_cost_time(
    #[case] readings: &[(u64, u64, u64)],
    #[case] expected: Option<(u64, u64, &str)>,
) {
    // What was read while nothing held it, or the most that it can.
    let of_mhz = readings.iter().filter(|one| one.2 & 0x25 == 0).map(|one| one.1).max().unwrap_or(1_000);
    let mut others = others(1..=1);
    others.started_ns = 0;
    for &(at_ms, mhz, reasons) in readings {
        others.read(&reading(at_ms, mhz, reasons), true);
    }
    let limits = others.limits();
    let told = limits.first().map(|one| (one.hit_ns / MS, one.value, one.file.as_str()));
    assert_eq!(told, expected, "{limits:?}");
    if let Some(limit) = limits.first() {
        assert_eq!((limit.kind, limit.device.as_str(), limit.most_mhz), (Kind::GpuClock, "1", of_mhz));
    }
}

/// Between requests nothing counts, and the time before the next reading does not either.
#[test]
fn only_what_is_read_while_requests_run_counts() {
    let mut others = others(1..=1);
    others.observe(&[std::process::id()]);
    for (at_ms, is_serving) in [(200, true), (400, false), (600, false), (800, true)] {
        others.read(&reading(at_ms, 500, 0x4), is_serving);
        others.used(&told(at_ms, vec![(std::process::id(), 30), (1, 60)]), is_serving);
    }
    let limits = others.limits();
    let told: Vec<(u64, u64)> = limits.iter().map(|one| (one.hit_ns / MS, one.seen_ns / MS)).collect();
    assert_eq!(told, [(240, 400), (200, 400)], "{limits:?}");
}

fn told(at_ms: u64, list: Vec<(u32, u64)>) -> GpuProcesses {
    GpuProcesses { time_ns: at_ms * MS, over_ns: 200 * MS, device: 1, list }
}

/// A process that this guest does not show may be the observed one, counted as the host does.
#[test]
fn a_stranger_is_named_and_an_observed_process_is_none() {
    let mut others = others(1..=1);
    others.observe(&[std::process::id()]);
    others.read(&reading(200, 1_000, 0), true);
    others.used(&told(200, vec![(u32::MAX, 95), (1, 60)]), true);
    assert_eq!(others.limits(), [], "nobody knows whether an observed process uses it");
    others.used(&told(400, vec![(u32::MAX, 95), (1, 60), (std::process::id(), 30)]), true);
    let limits = others.limits();
    assert_eq!(limits.iter().map(|one| (one.pid, one.hit_ns / MS)).collect::<Vec<_>>(), [(1, 240)]);
    let comm = std::fs::read_to_string("/proc/1/comm").expect("it runs");
    assert_eq!(limits[0].comm, comm.trim_end());
    // It turns out to be observed.
    others.observe(&[1, std::process::id()]);
    assert_eq!(others.limits(), []);
}

/// A child of an observed process is observed, however many there are.
#[test]
fn descendants_are_observed() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
    let mut others = others(1..=1);
    others.observe(&[std::process::id()]);
    assert_eq!(others.user(child.id()), User::Observed);
    assert!(matches!(others.user(1), User::Stranger(_)));
    child.kill().and_then(|()| child.wait()).expect("it is ours");
}

#[test]
fn any_number_of_processes_takes_little_memory() {
    let mut others = others(1..=1);
    others.processes = (0..1_000).map(|pid| (pid, User::Stranger(String::new()))).collect();
    others.used(&told(200, (0..1_000).map(|pid| (pid, 1)).collect()), true);
    assert_eq!(others.shared.len(), PROCESSES);
    assert_eq!(others.user(1_000), User::Unknown);
}

/// Neither processes nor clocks of a device are told that no observed process uses.
#[test]
fn a_device_of_others_is_not_told() {
    let mut others = others(0..=1);
    others.observe(&[std::process::id()]);
    others.read(&reading(200, 500, 0x4), true);
    others.used(&told(200, vec![(1, 60)]), true);
    assert_eq!((others.limits(), others.is_used(1)), (Vec::new(), None));
    others.used(&told(400, vec![(1, 60), (std::process::id(), 1)]), true);
    let kinds: Vec<Kind> = others.limits().iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [Kind::GpuShared, Kind::GpuClock]);
    assert_eq!([0, 1].map(|device| others.is_used(device)), [Some(false), Some(true)]);
}

fn memory(list: Vec<(u32, u64)>) -> GpuMemory {
    GpuMemory { device: 1, list }
}

/// Process, largest memory, and whether it was observed.
fn holders(others: &Others) -> Vec<(u32, u64, bool)> {
    others.holders(1).iter().map(|one| (one.pid, one.memory_bytes, one.is_observed)).collect()
}

/// Where no observed process is among those that hold some, the numbers may be those of the host.
#[test]
fn who_holds_memory_is_told_beside_an_observed_process() {
    let own = std::process::id();
    let mut others = others(0..=1);
    others.observe(&[own]);
    others.held(&memory(vec![(u32::MAX, 90), (1, 60)]));
    assert_eq!(holders(&others), []);
    others.held(&memory(vec![(u32::MAX, 90), (1, 60), (own, 30)]));
    others.held(&memory(vec![(own, 70), (1, 20)]));
    assert_eq!(holders(&others), [(own, 70, true), (1, 60, false)]);
    let comm = std::fs::read_to_string("/proc/1/comm").expect("it runs");
    assert_eq!(others.holders(1)[1].comm, comm.trim_end());
    assert_eq!(others.holders(0), []);
    // It turns out to be observed.
    others.observe(&[1, own]);
    assert_eq!(holders(&others), [(own, 70, true), (1, 60, true)]);
}

#[test]
fn those_that_hold_most_are_kept() {
    let mut others = others(1..=1);
    others.processes = (0..1_000).map(|pid| (pid, User::Stranger(String::new()))).collect();
    others.processes.insert(0, User::Observed);
    others.held(&memory((0..1_000).map(|pid| (pid, u64::from(pid))).collect()));
    assert_eq!(others.held.len(), PROCESSES);
    let most: Vec<u32> = others.holders(1).iter().map(|one| one.pid).collect();
    assert_eq!(most, [255, 254, 253, 252, 251, 250, 249, 248]);
}
