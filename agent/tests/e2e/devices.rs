//! Graphics processors during a run, by a stub of NVIDIA's library: its readings are in the rows, the
//! manifest, the summary and on slow spans. If it hangs or dies, only the readings end.
//!
//! No machine with a device takes part: it is not tested whether a real library answers like the stub.

use guestscope::{
    folder::{Folder, Sample},
    phase::GpuReading,
};
use rstest::rstest;
use serde_json::Value;

use crate::{
    folder::only_folder,
    ground::{Ground, eventually, example},
    running::{Done, Start},
};

/// A run of 30 requests of 100 ms, with a stub of this behaviour.
fn observed(ground: &Ground, behaviour: &str) -> Start {
    let run = ground.run_subject(&["requests", "30", "20000", "80000"]);
    let run = run.environment("GUESTSCOPE_NVML", example("libnvidia_ml_stub.so"));
    if behaviour.is_empty() { run } else { run.environment("GUESTSCOPE_NVML_STUB", behaviour) }
}

/// Readings of one device.
fn readings(done: &Done, device: u32) -> Vec<GpuReading> {
    let folder = Folder::open(only_folder(&done.folder.join("runs"))).expect("a run folder");
    let samples = folder.samples().expect("it has samples").map(|sample| sample.expect("it can be read"));
    samples.filter_map(|sample: Sample| sample.gpu).filter(|reading| reading.device == device).collect()
}

#[test]
fn what_a_library_tells_is_kept_and_told() {
    let Some(ground) = Ground::new("devices::what_a_library_tells_is_kept_and_told") else { return };
    let done = observed(&ground, "").finish().expect(0);
    let summary = done.summary();
    assert_eq!((&summary["requests"], &summary["gpu"]["driver"]), (&30.into(), &"550.54.15".into()));
    assert_eq!(summary["gpu"]["nvml"], "12.550.54.15");
    assert_eq!(summary["gpu"]["ended_early"], Value::Null);
    for device in 0..2_u32 {
        let rows = readings(&done, device);
        assert!(rows.len() >= 5, "{rows:?}");
        assert!(rows.is_sorted_by_key(|row| row.time_ns));
        // The values that the stub returns.
        for (number, row) in (1_u64..).map(|number| number % 20).zip(&rows) {
            assert_eq!(row.utilization_percent, Some(40 + 30 * u64::from(device) + number), "{row:?}");
            assert_eq!(row.power_mw, Some(300_000 + 50_000 * u64::from(device) + 1_000 * number));
        }
        let told = &summary["gpu"]["devices"][device as usize];
        let of =
            |get: fn(&GpuReading) -> Option<u64>| rows.iter().map(move |row| get(row).expect("it is told"));
        let mean = of(|row| row.utilization_percent).sum::<u64>() as f64 / rows.len() as f64;
        assert!(
            (told["utilization_percent"].as_f64().expect("a number") - mean).abs() <= 0.5,
            "{told} {mean}"
        );
        assert_eq!(told["readings"], rows.len());
        assert_eq!(told["memory_used_bytes"].as_u64(), of(|row| row.memory_used_bytes).max());
        assert_eq!(told["clock_sm_mhz"].as_u64(), of(|row| row.clock_sm_mhz).min());
        assert_eq!(told["name"], format!("Stub GPU {device}"));
        assert_eq!(told["pci_bus_id"], ["00000000:3B:00.0", "00000000:5E:00.0"][device as usize]);
        assert_eq!(told["virtualization"], ["passthrough", "vgpu"][device as usize]);
        assert_eq!(told["throttled_by"], serde_json::json!(["sw_power_cap", "hw_slowdown", "sw_thermal"]));
    }
    let folder = only_folder(&done.folder.join("runs"));
    let manifest = std::fs::read(folder.join("manifest.json")).expect("there is one");
    let manifest: Value = serde_json::from_slice(&manifest).expect("it is JSON");
    assert_eq!(manifest["gpu"], summary["gpu"]);
    let command = |words: &[&str]| ground.command(words).word(&folder).finish().expect(0).stdout;
    let spans = command(&["export", "--to", "otlp-json"]);
    assert!(spans.contains("guestscope.gpu.0.utilization_percent"), "{spans}");
    assert!(spans.contains("guestscope.gpu.1.power_mw"), "{spans}");
    assert!(command(&["report"]).contains("GPU 1 busy"));
}

/// Who holds memory is kept, with those that are not observed.
#[rstest]
#[case::shared("shared", true)]
#[case::alone("held", false)]
fn who_holds_memory_is_kept(#[case] behaviour: &str, #[case] is_shared: bool) {
    let Some(ground) = Ground::new("devices::who_holds_memory_is_kept") else { return };
    let done = observed(&ground, behaviour).finish().expect(0);
    let summary = done.summary();
    let holders = summary["gpu"]["devices"][0]["holders"].as_array().expect("there are some");
    let of = |observed: bool| holders.iter().filter(move |one| one["is_observed"] == observed);
    assert!(of(true).all(|one| one["memory_bytes"] == 100 << 20) && of(true).count() >= 1, "{holders:?}");
    let strangers: Vec<_> = of(false).map(|one| (&one["pid"], &one["memory_bytes"])).collect();
    let expected = (&Value::from(1), &Value::from(900 << 20));
    assert_eq!(strangers, if is_shared { vec![expected] } else { Vec::new() }, "{holders:?}");
}

/// An error of a device is told when it comes, and kept.
#[test]
fn an_error_of_a_device_is_told() {
    let Some(ground) = Ground::new("devices::an_error_of_a_device_is_told") else { return };
    let done = observed(&ground, "xid-after:2").finish().expect(0);
    assert!(done.stderr.contains("warning: graphics processor 0: Xid 79"), "{}", done.stderr);
    let devices = &done.summary()["gpu"]["devices"];
    assert_eq!((&devices[0]["errors"][0]["xid"], &devices[1]["errors"]), (&79.into(), &Value::Null));
}

/// The program runs on and is observed completely, and earlier readings stay.
#[rstest]
#[case::no_driver("no-driver", "initialising NVML", 0..=0)]
#[case::dies_at_once("crash-init", "signal 6", 0..=0)]
#[case::dies("crash-after:7", "signal 6", 3..=3)]
#[case::hangs("hang-after:7", "", 3..=3)]
#[case::hangs_at_once("hang-init", "", 0..=0)]
#[case::no_device("no-devices", "", 0..=0)]
#[case::tells_nothing("unsupported", "", 5..=30)]
fn a_library_that_fails_harms_nothing(
    #[case] behaviour: &str,
    #[case] says: &str,
    #[case] rows: std::ops::RangeInclusive<usize>,
) {
    let Some(ground) = Ground::new("devices::a_library_that_fails_harms_nothing") else { return };
    let done = observed(&ground, behaviour).finish().expect(0);
    let summary = done.summary();
    assert_eq!(summary["requests"], 30);
    assert_eq!(done.losses(), []);
    let ended = summary["gpu"]["ended_early"].as_str().unwrap_or_default();
    assert!(ended.contains(says), "{ended}");
    assert_eq!(says.is_empty(), ended.is_empty(), "{ended}");
    assert_eq!(ended.is_empty(), !done.stderr.contains("graphics processors"), "{}", done.stderr);
    let read = readings(&done, 0).len();
    assert!(rows.contains(&read), "{read} of {rows:?}");
}

/// The NVML process is user `nobody`, has no privilege and its own name, and ends with the agent, also if the
/// agent is killed while it hangs.
#[test]
fn the_helper_may_nothing_and_does_not_outlive_the_agent() {
    let Some(ground) = Ground::new("devices::the_helper_may_nothing_and_does_not_outlive_the_agent") else {
        return;
    };
    let run = observed(&ground, "hang-after:3").spawn();
    let agent = run.pid();
    let status = eventually("the helper runs", || {
        let all = std::fs::read_dir("/proc").expect("it is there").flatten();
        let statuses = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
        let mut helpers = statuses.filter(|status| status.starts_with("Name:\tguestscope-nvml\n"));
        helpers.find(|status| status.contains(&format!("\nPPid:\t{agent}\n")))
    });
    for line in [
        "Uid:\t65534\t65534\t65534\t65534",
        "Gid:\t65534\t65534\t65534\t65534",
        "Groups:\t \n",
        "CapInh:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "CapAmb:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(status.contains(line), "no {line} in {status}");
    }
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.expect("the kernel tells it").trim().to_owned()
    };
    let helper = field("Pid:");
    run.signal(nix::sys::signal::Signal::SIGKILL);
    let _ = run.finish();
    eventually("the helper has ended", || {
        let stat = std::fs::read_to_string(format!("/proc/{helper}/stat"));
        stat.map_or(Some(()), |stat| stat.contains(") Z ").then_some(()))
    });
}
