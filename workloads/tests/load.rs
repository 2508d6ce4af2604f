//! The load from outside, with the busy loop that needs no libtorch: what each scenario prints and writes,
//! and how conflicting options are refused. No timing is judged.

mod common;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use guestscope_workloads::load::early_stopping;
use hdrhistogram::{Histogram, serialization::Deserializer};
use rstest::rstest;
use serde_json::Value;

use common::json;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"))
        .args(["infer", "loop"])
        .args(arguments)
        .current_dir(folder)
        .env("GUESTSCOPE_WORKLOAD_FILE", folder.join("workload.json"))
        .output()
        .expect("cargo built the binary for this test")
}

#[rstest]
#[case::single_stream("SingleStream", &[], 1, 1)]
#[case::multi_stream("MultiStream", &["--scenario", "multistream"], 8, 1)]
#[case::server("Server", &["--scenario", "Server", "--qps", "2000", "--workers", "2"], 1, 2)]
#[case::offline("Offline", &["--scenario", "offline", "--workers", "3", "--batch", "4"], 4, 3)]
fn every_scenario_runs(
    #[case] name: &str,
    #[case] arguments: &[&str],
    #[case] batch: u64,
    #[case] workers: u64,
) {
    let folder = tempfile::tempdir().unwrap();
    let common = ["--work", "10us", "--requests", "700", "--histogram", "latency.v2", "--json"];
    let result = json(&run(folder.path(), &[&common, arguments].concat()));
    assert_eq!(
        (&result["scenario"], &result["batch"], &result["workers"], &result["requests"]),
        (&name.into(), &batch.into(), &workers.into(), &700.into())
    );
    let told: Value =
        serde_json::from_slice(&fs::read(folder.path().join("workload.json")).unwrap()).unwrap();
    for key in ["scenario", "requests", "work_hash", "output_hash", "valid"] {
        assert_eq!(told[key], result[key], "{key}");
    }
    let bytes = fs::read(folder.path().join("latency.v2")).unwrap();
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!(histogram.len(), 700);
    let slowest = result["loadgen"]["result_max_latency_ns"]
        .as_u64()
        .or(result["loadgen"]["result_max_query_latency_ns"].as_u64());
    if let Some(slowest) = slowest {
        assert!(histogram.equivalent(histogram.max(), slowest), "{slowest}");
    }
    assert_eq!(told["histograms"].get("queue").is_some(), name == "Server");
}

#[test]
fn a_seed_decides_the_schedule_and_a_bound_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let work_hash = |arguments: &[&str]| {
        let common = ["--work", "10us", "--scenario", "server", "--requests", "20", "--json"];
        json(&run(folder.path(), &[&common, arguments].concat()))["work_hash"].clone()
    };
    let first = work_hash(&["--qps", "1000"]);
    assert_eq!(work_hash(&["--qps", "1000", "--workers", "2", "--target-latency", "1ms"]), first);
    assert_ne!(work_hash(&["--qps", "1000", "--seed", "2"]), first);
    assert_ne!(work_hash(&["--qps", "999"]), first);
}

#[test]
fn rounds_are_the_same_on_every_machine() {
    let folder = tempfile::tempdir().unwrap();
    let result = |work: &str| {
        json(&run(folder.path(), &["--work", work, "--batch", "3", "--requests", "2", "--json"]))
    };
    let (counted, other, timed) = (result("4000"), result("5000"), result("10us"));
    assert_eq!((&counted["rounds"], &other["rounds"]), (&12_000.into(), &15_000.into()));
    assert!(
        timed["rounds"].as_u64().unwrap() > 0,
        "a reader who compares machines sees the rounds of a time"
    );
    assert_ne!(counted["work_hash"], other["work_hash"]);
    assert_ne!(counted["work_hash"], timed["work_hash"]);
    let told: Value =
        serde_json::from_slice(&fs::read(folder.path().join("workload.json")).unwrap()).unwrap();
    assert_eq!(told["rounds"], timed["rounds"]);
}

/// 400 simultaneous requests of 1 ms keep half of them waiting for more than 200 ms, ten times the bound; one
/// alone takes a twentieth of it. So the search ends on any machine, and only its output is checked.
#[test]
fn a_peak_lies_between_two_rates_that_were_tried() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--work", "1ms", "--scenario", "server", "--find-peak", "--percentile", "50", "--json"];
    let result = json(&run(
        folder.path(),
        &[&arguments[..], &["--requests", "24", "--target-latency", "40ms"]].concat(),
    ));
    let (peak, qps) = (&result["peak"], &result["qps"]);
    assert_eq!(result["find_peak"], true);
    assert_eq!(&peak["qps"], qps, "and that was measured");
    let fails = peak["fails_at_qps"].as_f64().unwrap();
    assert!(fails > qps.as_f64().unwrap() && fails <= qps.as_f64().unwrap() * 1.05);
    for trial in peak["trials"].as_array().unwrap() {
        let (late, requests) = (trial["late"].as_u64().unwrap(), trial["requests"].as_u64().unwrap());
        // A trial that ended early has more late requests than all of its arrivals might have had.
        let most = early_stopping::most_late(requests, 50.0);
        assert_eq!(trial["holds"].as_bool().unwrap(), most.is_some_and(|most| late <= most), "{trial}");
        assert!(requests >= 24, "{trial}");
    }
    // No machine serves more than 1,000 a second, and 24 at any rate are over before one has waited for 40
    // ms.
    assert!(qps.as_f64().unwrap() < 1500.0, "{qps}");
}

/// As on a full disk: everything else is still reported.
#[test]
fn a_file_that_cannot_be_written_takes_no_result_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        run(folder.path(), &["--requests", "3", "--work", "1ms", "--json", "--histogram", "/dev/full"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["requests"], 3);
    assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/full"));
}

#[test]
fn a_bound_that_nothing_holds_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--work", "1ms", "--scenario", "server", "--find-peak", "--qps", "4000"];
    let bound = ["--requests", "44", "--percentile", "90", "--target-latency", "1us"];
    let output = run(folder.path(), &[&arguments[..], &bound].concat());
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap());
    assert!(!folder.path().join("workload.json").exists(), "nothing is told of a run that failed");
}

#[rstest]
#[case::no_rate("no_rate", &["--scenario", "server"])]
#[case::nearest_scenario("nearest_scenario", &["--scenario", "sever"])]
#[case::rate_of_a_stream("rate_of_a_stream", &["--qps", "10"])]
#[case::workers_of_a_stream("workers_of_a_stream", &["--workers", "2"])]
#[case::no_rate_at_all("no_rate_at_all", &["--scenario", "server", "--qps", "0"])]
#[case::no_time("no_time", &["--duration", "60"])]
#[case::no_tail("no_tail", &["--percentile", "100"])]
#[case::work_in_bytes("work_in_bytes", &["--work", "4MiB"])]
#[case::work_of_few_rounds("work_of_few_rounds", &["--work", "999"])]
#[case::many_requests("many_requests", &["--requests", "10000001"])]
#[case::histogram("histogram", &["--work", "1us", "--requests", "1", "--json", "--histogram", "/nowhere/l.hgrm"])]
fn refuses(#[case] snapshot: &str, #[case] arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), arguments);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"", "it is refused before it runs");
    insta::assert_snapshot!(snapshot, String::from_utf8(output.stderr).unwrap());
}
