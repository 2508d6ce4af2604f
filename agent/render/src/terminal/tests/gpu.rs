//! Activity of graphics processors, as a person sees it.

use insta::assert_snapshot;

use super::fixtures::{UNICODE, doctor, facts, healthy, hooks, summary_of};
use crate::{
    analyze::samples::inference,
    run::{GpuDevice, GpuRecord},
    terminal::{Doctor, RunFacts, Style, render_doctor, render_summary},
};

#[test]
fn a_graphics_processor_is_a_line() {
    let device = GpuDevice {
        index: 1,
        name: "Made-up \u{1b}[31mGPU".to_owned(),
        memory_bytes: Some(16 << 30),
        virtualization: Some("passthrough".to_owned()),
        readings: 50,
        utilization_percent: Some(42),
        memory_used_bytes: Some(3 << 30),
        power_mw: Some(210_400),
        temperature_celsius: Some(61),
        throttled: 7,
        throttled_by: vec!["sw_power_cap".to_owned()],
        ..GpuDevice::default()
    };
    let bare = GpuDevice { name: "Other".to_owned(), ..GpuDevice::default() };
    let gpu = GpuRecord {
        driver: Some("550.54.15".to_owned()),
        devices: vec![bare, device],
        ended_early: Some("it was ended by signal 6, inside the driver's library".to_owned()),
        ..GpuRecord::default()
    };
    let facts = RunFacts { gpu, ..facts() };
    let text =
        render_summary(&summary_of(&inference(5)), &healthy(), &facts, Style { width: 200, ..UNICODE });
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("gpu")).collect();
    assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_doctor_says_what_a_driver_tells() {
    let line = |told: Result<GpuRecord, String>| {
        let found = Doctor {
            gpu: Some(("/usr/lib/libnvidia-ml.so.1".to_owned(), told)),
            ..doctor("firecracker", hooks())
        };
        let text = render_doctor(&found, Style { width: 200, ..UNICODE });
        text.lines().find(|line| line.starts_with("gpu")).map(str::to_owned).unwrap()
    };
    let device = GpuDevice {
        name: "Made-up GPU".to_owned(),
        memory_bytes: Some(16 << 30),
        virtualization: Some("vgpu".to_owned()),
        ..GpuDevice::default()
    };
    let record = |devices| GpuRecord { driver: Some("550".to_owned()), devices, ..GpuRecord::default() };
    assert_snapshot!(line(Ok(record(vec![device]))), @"gpu           Made-up GPU, 17.2 GB (driver 550, vgpu)");
    assert_snapshot!(line(Ok(record(Vec::new()))), @"gpu           a driver is here (/usr/lib/libnvidia-ml.so.1), and no device");
    assert_snapshot!(line(Err("it said nothing: the driver seems to hang".to_owned())), @"gpu           a driver is here (/usr/lib/libnvidia-ml.so.1), and tells nothing: it said nothing: the driver seems to hang");
}
