//! `compare` of runs read from a real Jaeger gives the same result as `compare` of their folders. One side
//! was exported while it ran, the other afterwards from its folders.

use serde_json::Value;

use crate::{
    ground::{Ground, eventually, subject},
    jaeger::{Jaeger, service},
};

const RUNS: usize = 3;
const REQUESTS: &str = "120";

/// Sums in another order, and throughput from wall time, differ in their last digits; what is computed from
/// them, p-values above all, differs more: 8e-8 was seen.
const SHARE: f64 = 1e-5;

/// Removes what only one of the two sources can know.
fn comparable(mut value: Value) -> Value {
    let fields = value.as_object_mut().expect("an object");
    for only in ["work", "notes"] {
        assert!(fields.remove(only).is_some(), "{only} in {:?}", fields.keys());
    }
    value
}

fn assert_same(path: &str, [a, b]: [&Value; 2]) {
    match (a, b) {
        (Value::Object(one), Value::Object(other)) => {
            assert!(one.keys().eq(other.keys()), "{path}: {a} {b}");
            one.iter().for_each(|(key, value)| assert_same(&format!("{path}.{key}"), [value, &other[key]]));
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len(), "{path}: {a} {b}");
            let pairs = one.iter().zip(other).enumerate();
            pairs.for_each(|(place, (a, b))| assert_same(&format!("{path}[{place}]"), [a, b]));
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() && other.is_f64() => {
            let [one, other] = [one, other].map(|number| number.as_f64().expect("it is one"));
            assert!((one - other).abs() <= SHARE * one.abs().max(other.abs()), "{path}: {one} {other}");
        }
        _ => assert_eq!(a, b, "{path}"),
    }
}

#[test]
fn traces_compare_as_their_folders_do() {
    let test = "compared_traces::traces_compare_as_their_folders_do";
    let (Some(ground), Some(jaeger)) = (Ground::new(test), Jaeger::new(test)) else { return };
    let (first, second) = (service("live"), service("sent-later"));
    for _ in 0..RUNS {
        let run = |name: &str, more: &[&str], work_us: &str| {
            let start = ground.command(&["run", "--json", "--name", name, "--output"]);
            let start = start.word(ground.path(name)).words(more).program(subject());
            start.words(&["requests", REQUESTS, work_us, "300"]).finish().expect(0);
        };
        run(&first, &["--otlp", &jaeger.grpc], "200");
        run(&second, &[], "400");
    }
    for folder in std::fs::read_dir(ground.path(&second)).expect("it was made") {
        let folder = folder.expect("it can be listed").path();
        let to = ["export", "--to", "otlp", "--otlp", &jaeger.grpc];
        ground.command(&to).word(folder).finish().expect(0);
    }
    let all = RUNS * REQUESTS.parse::<usize>().expect("a number");
    for service in [&first, &second] {
        eventually("all traces in Jaeger", || (jaeger.look(service).len() == all).then_some(()));
    }
    let [a, b] = [&first, &second].map(|name| format!("{name}={}", ground.path(name).display()));
    let metrics = "mean,p50,p90,throughput";
    let common = ["compare", "--json", "--metric", metrics, "--allow-unequal-work"];
    let folders = ground.command(&common).word(a).word(b).finish().expect(0);
    let [a, b] = [&first, &second].map(|name| format!("{name}={name}"));
    let traces = ground.command(&common).words(&["--jaeger", jaeger.query(), "--lookback", "1h"]);
    let traces = traces.words(&["--service", &a, "--service", &b]).finish().expect(0);
    let parse = |text: &str| serde_json::from_str::<Value>(text).expect("the comparison is JSON");
    let (folders, traces) = (parse(&folders.stdout), parse(&traces.stdout));
    let notes = traces["notes"].as_array().expect("a list");
    assert!(notes[0].as_str().is_some_and(|note| note.starts_with("runs out of Jaeger: ")), "{notes:?}");
    assert_same("", [&comparable(folders), &comparable(traces)]);
}

#[test]
fn a_jaeger_that_is_none_is_told() {
    let test = "compared_traces::a_jaeger_that_is_none_is_told";
    let (Some(ground), Some(jaeger)) = (Ground::new(test), Jaeger::new(test)) else { return };
    let said = |url: &str, service: &str| {
        let start = ground.command(&["compare", "--jaeger", url, "--service", service]);
        let error = start.finish().expect(2).stderr;
        error.lines().next().unwrap_or_default().to_owned()
    };
    assert!(
        said("http://127.0.0.1:9", "a").starts_with("error: no answer from Jaeger: http://127.0.0.1:9: ")
    );
    // The port for spans speaks HTTP as well, but has no query API.
    let other = said(&jaeger.http, "a");
    assert!(other.starts_with("error: not an answer of Jaeger's query API: "), "{other}");
    let unknown = said(jaeger.query(), "no such service");
    assert!(
        unknown.starts_with("error: no such service in Jaeger: no such service; there are "),
        "{unknown}"
    );
}
