//! What a run leaves behind, in words and for machines, on measurements made by hand.

use std::{os::unix::fs::MetadataExt as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use rstest::rstest;

use super::{Asked, Identity, Report};
use crate::{
    digest::Digest,
    load::{
        Measured, Plan, Target,
        measured::Record,
        peak::{Peak, Trial},
        scenario::Scenario,
    },
};

fn identity(requests: u64, batch: u64) -> Identity {
    Identity {
        name: "ic",
        model: "ResNet-50 v1.5",
        parameters: 25_557_032,
        scale: None,
        most_symbols: None,
        batch,
        threads: 1,
        seed: 3,
        precision: "fp32",
        requests,
        warmup: 1,
        rounds: None,
        work_hash: Digest::default(),
        output_hash: Digest::default(),
    }
}

fn plan(scenario: Scenario) -> Plan {
    Plan {
        scenario,
        requests: 1,
        duration_ns: 0,
        warmup: 1,
        workers: 1,
        qps: None,
        target: Target { percentile: scenario.percentile(), latency_ns: 100_000_000 },
        find_peak: false,
        seed: 3,
        progress: false,
    }
}

/// `count` requests in a row, the n-th of n x 100 us, each scheduled `queue_us` before it begins.
fn report(scenario: Scenario, count: u64, batch: u64, queue_us: u64) -> Report {
    let mut begin_us = 0;
    let records = (1..=count).map(|number| {
        begin_us += queue_us + number * 100;
        Record {
            number: number - 1,
            scheduled_ns: (begin_us - queue_us - number * 100) * 1000,
            begin_ns: (begin_us - number * 100) * 1000,
            end_ns: begin_us * 1000,
            phase_ns: [number * 10_000, number * 89_000, number * 900],
            outputs: Digest::default(),
        }
    });
    let records: Vec<Record> = records.collect();
    let qps = (scenario == Scenario::Server).then_some(20.0);
    let elapsed_ns = begin_us * 1000;
    let measured =
        Measured { records, start_ns: 0, elapsed_ns, qps, stopped: false, full: false, peak: None };
    Report::new(identity(count, batch), &plan(scenario), measured)
}

#[test]
fn people_read_aligned_lines() {
    insta::assert_snapshot!(report(Scenario::SingleStream, 100, 2, 0).text());
}

#[rstest]
#[case::too_few("too_few", Scenario::SingleStream, 63, 1, 0)]
#[case::multi_stream("multi_stream", Scenario::MultiStream, 700, 8, 0)]
#[case::offline("offline", Scenario::Offline, 10, 4, 0)]
#[case::server("server", Scenario::Server, 900, 1, 5_000)]
#[case::server_unproved("server_unproved", Scenario::Server, 1000, 1, 5_000)]
#[case::server_too_few("server_too_few", Scenario::Server, 100, 1, 5_000)]
#[case::server_too_slow("server_too_slow", Scenario::Server, 700, 1, 50_000)]
fn results_have_reasons(
    #[case] name: &str,
    #[case] scenario: Scenario,
    #[case] count: u64,
    #[case] batch: u64,
    #[case] queue_us: u64,
) {
    let text = report(scenario, count, batch, queue_us).text();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    insta::assert_snapshot!(name, text);
}

#[test]
fn files_that_were_left_out_are_named_without_what_a_terminal_obeys() {
    let skipped = (0..5).map(|number| (format!("data/\u{1b}[2J{number}.jpg").into(), "no JPEG".to_owned()));
    let report = report(Scenario::SingleStream, 100, 1, 0).without(skipped.collect());
    let text = report.text();
    let line = text.lines().find(|line| line.contains("left out")).unwrap();
    insta::assert_snapshot!(line, @"  left out     5 files or records that could not be used");
    insta::assert_snapshot!("left_out", report.warning().unwrap());
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!((&json["skipped_files"], json["left_out"].as_array().unwrap().len()), (&5.into(), 5));
    let expected = serde_json::json!({ "file": "data/\u{1b}[2J4.jpg", "reason": "no JPEG" });
    assert_eq!(json["left_out"][4], expected);
}

#[test]
fn a_peak_is_told_with_the_rate_that_fails() {
    let mut report = report(Scenario::Server, 900, 1, 0);
    let trial = |qps, holds| Trial { qps, holds, requests: 900, late: u64::from(!holds) * 10 };
    let trials = vec![trial(16.0, true), trial(21.0, false), trial(20.0, true)];
    report.measured.peak = Some(Peak { qps: 20.0, fails_at_qps: 21.0, trials });
    let text = report.text();
    let line = text.lines().find(|line| line.contains("peak")).unwrap();
    insta::assert_snapshot!(line, @"  peak         20.00 requests/s hold the bound, 21.00 do not (3 tried)");
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    insta::assert_snapshot!(json["peak"]["trials"][1].to_string(), @r#"{"holds":false,"late":10,"qps":21.0,"requests":900}"#);
}

#[test]
fn a_rate_that_was_looked_for_is_found_and_told() {
    let mut report = report(Scenario::Server, 700, 1, 2_000);
    report.arrived.find_peak = true;
    let text = report.text();
    let line = text.lines().find(|line| line.contains("scenario")).unwrap();
    insta::assert_snapshot!(line, @"  scenario     Server, 1 worker, 20.00/s found, 27.03/s arrived");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(told(&report, &folder.path().join("workload.json"))["find_peak"], true);
}

/// 400 requests of 0.1 to 40 ms, one after the other, take 8 s, and 700 take 25 s.
#[rstest]
#[case::short(Scenario::SingleStream, 400, 1, false, true)]
#[case::few(Scenario::MultiStream, 99, 8, false, false)]
#[case::enough(Scenario::SingleStream, 700, 1, true, true)]
#[case::few_samples(Scenario::Offline, 700, 35, true, false)]
#[case::samples(Scenario::Offline, 700, 36, true, true)]
fn minima_are_loadgens_defaults(
    #[case] scenario: Scenario,
    #[case] count: u64,
    #[case] batch: u64,
    #[case] is_long: bool,
    #[case] is_many: bool,
) {
    let json: serde_json::Value =
        serde_json::from_str(&report(scenario, count, batch, 1_000).json()).unwrap();
    let loadgen = &json["loadgen"];
    assert_eq!(loadgen["result_min_duration_met"], is_long);
    assert_eq!(loadgen["result_min_queries_met"], is_many);
    assert_eq!(loadgen["result_validity"] == "VALID", is_long && is_many);
    assert_eq!(json.get("valid").is_some(), scenario != Scenario::Offline, "a rate is not judged");
}

#[rstest]
#[case::single("json_single", Scenario::SingleStream, 700)]
#[case::server("json_server", Scenario::Server, 700)]
fn machines_read_one_line(#[case] name: &str, #[case] scenario: Scenario, #[case] count: u64) {
    let line = report(scenario, count, 1, 1_000).json();
    assert!(!line.contains('\n'));
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    insta::assert_json_snapshot!(name, json);
}

/// LoadGen's percentile lies one place above the nearest rank where the product is whole.
#[test]
fn percentiles_are_loadgens() {
    let report = report(Scenario::SingleStream, 1000, 1, 0);
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let of = |percent: &str| json["loadgen"][format!("result_{percent}_percentile_latency_ns")].as_u64();
    assert_eq!(
        ["50.00", "90.00", "95.00", "97.00", "99.00", "99.90"].map(of),
        [501, 901, 951, 971, 991, 1000].map(|place| Some(place * 100_000))
    );
    assert_eq!(json["loadgen"]["early_stopping_latency_ss"], 92_300_000, "77 of 1000 set aside");
    assert_eq!(json["loadgen"]["early_stopping_latency_ms"], 99_900_000, "1 of 1000 set aside");
}

fn told(report: &Report, path: &Path) -> serde_json::Value {
    report.write_workload_file(Some(path.as_os_str()), &Asked::default()).unwrap();
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_manifest_gets_identity_and_histograms_or_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workload.json");
    let report = report(Scenario::Server, 700, 1, 2_000);
    // As the agent prepares it: the user's own file, in a folder where only the agent may create files.
    std::fs::write(&path, "").unwrap();
    let made = std::fs::metadata(&path).unwrap().ino();
    let mut told = told(&report, &path);
    assert_eq!(std::fs::metadata(&path).unwrap().ino(), made, "it is filled, not replaced");
    let histograms = told.as_object_mut().unwrap().remove("histograms").unwrap();
    insta::assert_snapshot!(told.to_string(), @r#"{"batch":1,"model":"ResNet-50 v1.5","name":"ic","output_hash":"cbf29ce484222325","parameters":25557032,"percentile":99.0,"precision":"fp32","qps":20.0,"requests":700,"scenario":"Server","seed":3,"target_latency_ns":100000000,"threads":1,"valid":true,"warmup":1,"work_hash":"cbf29ce484222325","workers":1}"#);
    let read = |name: &str| -> Histogram<u64> {
        let bytes = STANDARD.decode(histograms[name].as_str().unwrap()).unwrap();
        Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap()
    };
    let (latency, queue) = (read("latency"), read("queue"));
    assert_eq!((latency.len(), queue.len()), (700, 700));
    assert!(latency.equivalent(latency.max(), 72_000_000), "the queue is in it");
    assert!(queue.equivalent(queue.min(), 2_000_000) && queue.equivalent(queue.max(), 2_000_000));
    let error = report
        .write_workload_file(Some(folder.path().join("no/such").as_os_str()), &Asked::default())
        .unwrap_err();
    assert!(error.to_string().starts_with("cannot write result: "), "{error}");
    report.write_workload_file(None, &Asked::default()).unwrap();
}
