//! A guest is saved while a program is observed, and restored as another one: the agent detects it through
//! VMGENID or vmclock, and shows it in the summary, in the manifest and on the span of the request that was
//! open.

use std::{ffi::OsStr, fs::OpenOptions, io::Write as _, path::Path};

use guestscope::{
    phase::Request,
    restore::kernel_log::{self, KernelLog},
};
use serde_json::Value;

use crate::{
    disposable::is_ours,
    folder::phase,
    ground::{Ground, skipped, variable},
    truth::workloads,
};

/// Nobody listens there: spans stay in the run folder, where the test reads them.
const NOWHERE: &str = "http://127.0.0.1:9";
/// One of ten requests is hit: the runner of this guest saves and restores the guest while that request
/// waits.
const WORDS: [&str; 10] =
    ["stall", "pause", "--size", "10ms", "--every", "10", "--requests", "10", "--warmup", "0"];
/// Attempts: the agent may get no CPU until the request has ended.
const ATTEMPTS: u32 = 3;
/// The kernel's log line.
const LINE: &str = "<5>random: crng reseeded due to virtual machine fork\n";

#[test]
fn a_guest_that_was_restored_is_told_by_its_generation() {
    let test = "restored::a_guest_that_was_restored_is_told_by_its_generation";
    if !is_ours(test) {
        return;
    }
    let Some(restorer) = variable("GUESTSCOPE_RESTORER") else {
        return skipped(test, "only in the guest `restored`, which is saved and restored");
    };
    let Some(workloads) = workloads(test, "pause") else { return };
    let Some(ground) = Ground::new(test) else { return };
    let found: Value = serde_json::from_str(&ground.command(&["doctor", "--json"]).finish().expect(0).stdout)
        .expect("the doctor's findings are JSON");
    assert_eq!(found["signs"][0]["source"], "vmgenid");
    assert_eq!(found["signs"][0]["state"], "present", "{}", found["signs"]);

    for attempt in 1..=ATTEMPTS {
        let Some(ground) = Ground::new(test) else { return };
        if seen_while_open(&ground, &restorer, &workloads) {
            return;
        }
        assert!(attempt < ATTEMPTS, "every time it was noticed when the request had ended, if at all");
    }
}

/// Whether the hit request was still open when the agent noticed the restore. Checks what must hold in any
/// case, and then the spans.
fn seen_while_open(ground: &Ground, restorer: &OsStr, workloads: &OsStr) -> bool {
    let log = ground.path("truth.jsonl");
    let start = ground.run().environment("GUESTSCOPE_STOPPER", restorer).words(&["--otlp", NOWHERE]);
    let done = start.program(workloads).words(&WORDS).word("--log").word(&log).finish().expect(0);
    let hit: Value = serde_json::from_str(&std::fs::read_to_string(&log).expect("the log was written"))
        .expect("one request was hit");

    let summary = done.summary();
    let told = summary["restored"].as_array().expect("they are a list");
    if told.is_empty() {
        return false;
    }
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["source"], "vmgenid");
    let seen = done.seen();
    let [kept] = &seen.manifest.restored[..] else { panic!("{:?}", seen.manifest.restored) };
    assert_eq!((&*kept.source, Some(kept.noticed_ns)), ("vmgenid", told[0]["noticed_ns"].as_u64()));
    let asked_ns = hit["start_ns"].as_u64().expect("a number");
    assert!(kept.noticed_ns >= asked_ns, "{kept:?} after {asked_ns}");
    let is_hit = |request: &&Request| hit["request"].as_u64() == Some(request.root().request);
    let request = seen.named("stall").into_iter().find(is_hit).expect("the request that was hit is there");
    let work = phase(request, "work");
    let end_ns = work.start_ns + work.duration_ns;
    let _ = writeln!(
        std::io::stdout(),
        "restored: noticed {:.1} ms after it was asked for, in a phase that went on for {:.1} ms",
        (kept.noticed_ns - asked_ns) as f64 / 1e6,
        (end_ns - asked_ns) as f64 / 1e6
    );
    if kept.noticed_ns >= end_ns {
        return false;
    }
    assert_eq!(on_spans(&seen.path), ["stall vmgenid", "work vmgenid"]);
    true
}

/// Name of the span and source of each event `restored`, sorted.
fn on_spans(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("spill.otlp.jsonl")).expect("spans were kept");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let each = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let spans = lines
        .flat_map(|line| each(&line, "resourceSpans"))
        .flat_map(|resource| each(&resource, "scopeSpans"))
        .flat_map(|scope| each(&scope, "spans"));
    let of = |span: Value| {
        let name = span["name"].as_str().expect("a span has a name").to_owned();
        let events = each(&span, "events").into_iter().filter(|event| event["name"] == "restored");
        let source =
            |event: &Value| event["attributes"][0]["value"]["stringValue"].as_str().map(str::to_owned);
        let told: Vec<String> =
            events.map(|event| format!("{name} {}", source(&event).unwrap_or_default())).collect();
        told
    };
    let mut told: Vec<String> = spans.flat_map(of).collect();
    told.sort();
    told
}

/// A program that may write to the log can write the kernel's words, but not in the kernel's name.
#[test]
fn what_a_program_writes_to_the_log_is_not_the_kernel_s_word() {
    let test = "restored::what_a_program_writes_to_the_log_is_not_the_kernel_s_word";
    if !is_ours(test) {
        return;
    }
    let mut log = KernelLog::open(Path::new(kernel_log::PATH)).expect("root may read it");
    let mut kernel = OpenOptions::new().write(true).open(kernel_log::PATH).expect("root may write to it");
    kernel.write_all(LINE.as_bytes()).expect("the log takes a line");
    // A line in the name of the kernel's facility and of another one.
    kernel.write_all(LINE.replace("<5>", "<13>").as_bytes()).expect("the log takes a line");
    let records: Vec<bool> = std::iter::from_fn(|| log.next_tells().ok()).collect();
    assert!(records.len() >= 2, "{records:?}");
    assert!(!records.contains(&true), "{records:?}");
}
