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
#[case::idle(&[(200, 500, 0x1)], None)]
#[case::at_full_speed(&[(200, 1_000, 0x4)], None)]
#[case::nothing_for_long(&[(200, 1_000, 0x0), (60_000, 500, 0x4)], Some((500, 500, "sw_power_cap")))]
fn clocks_that_are_held_down_cost_time(
    #[case] readings: &[(u64, u64, u64)],
    #[case] expected: Option<(u64, u64, &str)>,
) {
    let mut others = others(1..=1);
    others.started_ns = 0;
    for &(at_ms, mhz, reasons) in readings {
        others.read(&reading(at_ms, mhz, reasons));
    }
    let limits = others.limits();
    let told = limits.first().map(|one| (one.hit_ns / MS, one.value, one.file.as_str()));
    assert_eq!(told, expected, "{limits:?}");
    if let Some(limit) = limits.first() {
        assert_eq!((limit.kind, limit.device.as_str(), limit.most_mhz), (Kind::GpuClock, "1", 1_000));
    }
}

#[test]
fn a_stranger_is_named_and_an_observed_process_is_none() {
    let mut others = others(1..=1);
    others.observe(&[std::process::id()]);
    for at_ms in [200, 400] {
        others.read(&reading(at_ms, 1_000, 0));
        let list = vec![(std::process::id(), 30), (1, 60), (u32::MAX, 5)];
        others.used(&GpuProcesses { time_ns: at_ms * MS, over_ns: 200 * MS, device: 1, list });
    }
    let limits = others.limits();
    let told: Vec<(u32, u64, u64)> =
        limits.iter().map(|one| (one.pid, one.hit_ns / MS, one.seen_ns / MS)).collect();
    assert_eq!(told, [(1, 240, 400), (u32::MAX, 20, 400)]);
    let comm = std::fs::read_to_string("/proc/1/comm").expect("it runs");
    assert_eq!([limits[0].comm.as_str(), limits[1].comm.as_str()], [comm.trim_end(), ""]);
}

/// A device that no observed process uses is nobody's business, whoever has it.
#[test]
fn a_device_of_others_is_not_told() {
    let mut others = others(0..=1);
    others.observe(&[std::process::id()]);
    others.read(&reading(200, 500, 0x4));
    let told = |list| GpuProcesses { time_ns: 200 * MS, over_ns: 200 * MS, device: 1, list };
    others.used(&told(vec![(1, 60)]));
    assert_eq!(others.limits(), []);
    others.used(&told(vec![(1, 60), (std::process::id(), 1)]));
    let kinds: Vec<Kind> = others.limits().iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [Kind::GpuShared, Kind::GpuClock]);
}
