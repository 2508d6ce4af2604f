//! `guestscope export`: lines that any reader of OTLP-JSON takes, and what cannot be exported.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use super::{agent, closed, said, usual};

/// Service, name and attributes of each span.
fn spans(lines: &str) -> Vec<(String, String, BTreeMap<String, Value>)> {
    let text = |attributes: &Value, key: &str| {
        let found = attributes.as_array().unwrap().iter().find(|one| one["key"] == key).unwrap();
        found["value"]["stringValue"].as_str().unwrap().to_owned()
    };
    let mut all = Vec::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        for resource in line["resourceSpans"].as_array().unwrap() {
            let attributes = &resource["resource"]["attributes"];
            assert_eq!(text(attributes, "guestscope.scenario"), "MVM/2/VNL/CPU");
            let service = text(attributes, "service.name");
            let scopes = resource["scopeSpans"].as_array().unwrap();
            for span in scopes.iter().flat_map(|scope| scope["spans"].as_array().unwrap()) {
                let pair = |one: &Value| (one["key"].as_str().unwrap().to_owned(), one["value"].clone());
                let attributes = span["attributes"].as_array().unwrap().iter().map(pair).collect();
                all.push((service.clone(), span["name"].as_str().unwrap().to_owned(), attributes));
            }
        }
    }
    all
}

#[test]
fn requests_are_traces_with_their_waits_and_their_final_verdicts() {
    let (_parent, folder) = closed(&usual(400));
    let output = agent("export", &folder, &["--to", "otlp-json"]);
    assert_eq!(output.status.code(), Some(0));
    // 400 requests, 40 of which waited.
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "400 traces, 440 spans\n");
    let lines = String::from_utf8(output.stdout).unwrap();
    let spans = spans(&lines);
    let of = |service: &str| spans.iter().filter(|span| span.0 == service).collect::<Vec<_>>();
    assert_eq!((of("ic").len(), of("kernel").len()), (400, 40));
    assert!(of("kernel").iter().all(|span| span.1 == "lock"));
    let cause = |span: &&&(String, String, BTreeMap<String, Value>)| {
        span.2.get("guestscope.cause").is_some_and(|cause| cause["stringValue"] == "lock")
    };
    // The first requests have their causes, too, which a live export does not know yet.
    assert_eq!(of("ic").iter().filter(cause).count(), 40);
}

#[test]
fn a_new_file_is_written_and_an_old_one_is_not() {
    let (parent, folder) = closed(&usual(30));
    let file = parent.path().join("ic.jsonl");
    let out = file.display().to_string();
    let done = agent("export", &folder, &["--to", "otlp-json", "--output", &out]);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(0), 0));
    assert_eq!(spans(&fs::read_to_string(&file).unwrap()).len(), 33);
    insta::assert_snapshot!(said("export", &folder, &["--to", "otlp-json", "--output", &out], 2));
    insta::assert_snapshot!(said("export", &folder, &["--to", "perfect"], 2));
}

#[test]
fn a_folder_without_requests_has_nothing_to_export() {
    let (_parent, folder) = closed(&[]);
    let done = agent("export", &folder, &["--to", "otlp-json"]);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(1), 0));
    assert_eq!(String::from_utf8(done.stderr).unwrap(), "0 traces, 0 spans\n");
}

#[test]
fn a_trace_for_perfetto_has_a_slice_for_each_phase_and_wait() {
    let (parent, folder) = closed(&usual(30));
    let file = parent.path().join("ic.perfetto-trace");
    let done = agent("export", &folder, &["--to", "perfetto", "--output", &file.display().to_string()]);
    assert_eq!((done.status.code(), done.stdout.len()), (Some(0), 0));
    assert_eq!(String::from_utf8(done.stderr).unwrap(), "30 requests and processes, 33 slices\n");
    let bytes = fs::read(&file).unwrap();
    // The first field of a trace is a packet.
    assert_eq!(bytes[0], 0x0a);
    let count = |text: &[u8]| bytes.windows(text.len()).filter(|found| *found == text).count();
    // Three requests waited for a lock: one slice for the wait of each, and one cause of each.
    assert_eq!((count(b"time.lock_ns"), count(b"blocked_ns"), count(b"cause")), (3, 3, 3));
    let piped = agent("export", &folder, &["--to", "perfetto"]);
    assert_eq!(piped.stdout, bytes);
}
