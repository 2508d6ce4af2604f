//! `guestscope export` of a real run gives the spans that the live export of that run gave, and Jaeger
//! accepts them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    folder::only_folder,
    ground::{Ground, subject},
    jaeger::{Jaeger, Span, resource_spans, service},
};

/// Spans by trace and span id, each with its scope, which differs between the two services.
fn spans(lines: &str) -> BTreeMap<(String, String), (Value, Value)> {
    let mut all = BTreeMap::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        for resource in line["resourceSpans"].as_array().expect("a list") {
            let scopes = resource["scopeSpans"].as_array().expect("a list");
            for (scope, span) in scopes.iter().flat_map(|scope| {
                scope["spans"].as_array().expect("a list").iter().map(move |span| (&scope["scope"], span))
            }) {
                let id = |key: &str| span[key].as_str().expect("an id").to_owned();
                all.insert((id("traceId"), id("spanId")), (scope.clone(), span.clone()));
            }
        }
    }
    all
}

/// Removes what only the complete run can tell: a live export judges after its first hundred requests.
fn without_verdict(span: &Value) -> Value {
    let mut span = span.clone();
    let attributes = span["attributes"].as_array_mut().expect("a list");
    attributes.retain(|one| one["key"] != "guestscope.tail" && one["key"] != "guestscope.cause");
    span
}

#[test]
fn a_folder_becomes_the_same_spans_as_its_run() {
    let Some(ground) = Ground::new("exported::a_folder_becomes_the_same_spans_as_its_run") else { return };
    // Nobody listens on this port, so all spans stay in the folder.
    let run = ground.run().words(&["--otlp", "http://127.0.0.1:9"]).program(subject());
    let done = run.words(&["waits", "20"]).finish().expect(0);
    let folder = only_folder(&done.folder.join("runs"));
    let spilled = std::fs::read_to_string(folder.join("spill.otlp.jsonl")).expect("nobody took the spans");
    let export = ground.command(&["export", "--to", "otlp-json"]).word(&folder).finish().expect(0);
    let (live, exported) = (spans(&spilled), spans(&export.stdout));
    assert!(live.len() > 2, "{spilled}");
    assert_eq!(live.keys().collect::<Vec<_>>(), exported.keys().collect::<Vec<_>>());
    assert!(exported.values().any(|(scope, _)| scope["name"] == "guestscope.kernel"), "no wait is a span");
    for (id, (scope, span)) in &live {
        let (other_scope, other) = &exported[id];
        assert_eq!((scope, without_verdict(span)), (other_scope, without_verdict(other)));
    }
}

/// The content of a span, without what Jaeger adds.
fn told(span: &Span) -> String {
    let Span { trace, id, parent, name, start_ns, end_ns, attributes, events, events_left_out, resource } =
        span;
    let resource: Vec<_> =
        resource.iter().filter(|(key, _)| key.starts_with("guestscope.") || *key == "service.name").collect();
    let parent = parent.as_deref().unwrap_or_default();
    format!(
        "{trace} {id} {parent} {name} {start_ns} {end_ns} {attributes:?} {events:?} {events_left_out} {resource:?}"
    )
}

/// The folder of a run without live export, sent to Jaeger afterwards: each span is there once and equals the
/// line, and the search finds it by the causes of the complete run.
#[test]
fn a_folder_arrives_in_jaeger_and_is_found_by_its_causes() {
    let test = "exported::a_folder_arrives_in_jaeger_and_is_found_by_its_causes";
    let (Some(ground), Some(jaeger)) = (Ground::new(test), Jaeger::new(test)) else { return };
    let service = service("export");
    let run = ground.run().words(&["--name", &service]).program(subject());
    let done = run.words(&["requests", "300", "100", "900"]).finish().expect(0);
    let folder = only_folder(&done.folder.join("runs"));
    let send = ground.command(&["export", "--to", "otlp", "--otlp", &jaeger.grpc]).word(&folder);
    let sent = send.finish().expect(0);
    let lines = ground.command(&["export", "--to", "otlp-json"]).word(&folder).finish().expect(0).stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let written: Vec<Span> = lines.iter().flat_map(|line| resource_spans(&line["resourceSpans"])).collect();
    assert!(sent.stderr.contains(&format!("300 traces, {} spans sent to", written.len())), "{}", sent.stderr);
    let arrived: Vec<Span> = jaeger.traces(&service, 300).into_values().flatten().collect();
    let [mut written, mut arrived] =
        [written, arrived].map(|spans| -> Vec<String> { spans.iter().map(told).collect() });
    written.sort();
    arrived.sort();
    assert_eq!(written, arrived);
    check_search(&jaeger, &service, &lines);
}

/// For each value of these attributes, the search finds exactly the requests that have it.
fn check_search(jaeger: &Jaeger, service: &str, lines: &[Value]) {
    let mut by_value = BTreeMap::<(&str, String), Vec<String>>::new();
    for span in lines.iter().flat_map(|line| resource_spans(&line["resourceSpans"])) {
        for key in ["guestscope.cause", "guestscope.tail"] {
            if let Some(value) = span.attributes.get(key).and_then(Value::as_str) {
                by_value.entry((key, value.to_owned())).or_default().push(span.trace.clone());
            }
        }
    }
    assert!(by_value.keys().any(|(key, value)| *key == "guestscope.tail" && value == "p99"), "{by_value:?}");
    assert!(by_value.keys().any(|(key, _)| *key == "guestscope.cause"), "{by_value:?}");
    for ((key, value), mut traces) in by_value {
        traces.sort();
        assert_eq!(jaeger.search(service, key, &value), traces, "{key}={value}");
    }
    assert_eq!(jaeger.search(service, "guestscope.cause", "no such cause"), [""; 0]);
}
