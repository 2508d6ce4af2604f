//! A collector that is absent, or dies during a run: each span is sent, kept or counted, and the program is
//! not affected.

use std::{net::TcpListener, path::Path};

use serde_json::Value;

use crate::{
    ground::{Ground, eventually},
    http::authority,
    jaeger::{Jaeger, Span, is_kernel, resource_spans, service},
    proxy::Proxy,
    running::Done,
};

/// These tests count spans. Waits are spans, too, and their number depends on the machine.
const NO_WAITS: [&str; 2] = ["--wait-threshold", "off"];

/// An address without a listener.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    format!("http://{address}")
}

/// Number of spans in the spill file of a run folder.
fn spilled(folder: &Path) -> usize {
    let text = std::fs::read_to_string(folder.join("spill.otlp.jsonl")).expect("spans were spilled");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON"));
    let scopes =
        lines.flat_map(|line| list(&line["resourceSpans"])).flat_map(|group| list(&group["scopeSpans"]));
    scopes.map(|scope| list(&scope["spans"]).len()).sum()
}

fn sent(done: &Done) -> usize {
    done.summary()["export"]["spans_sent"].as_u64().expect("a number") as usize
}

#[test]
fn absent() {
    let Some(ground) = Ground::new("collector::absent") else { return };
    let endpoint = nobody();
    let done = ground.run().words(&["--otlp", &endpoint]).words(&NO_WAITS).program(crate::ground::subject());
    let done = done.words(&["requests", "50", "100"]).finish().expect(0);
    let seen = done.seen();
    assert_eq!((sent(&done), done.losses()), (0, vec![("spans_spilled".to_owned(), 150)]));
    assert_eq!(spilled(&seen.path), 150);
    let error = done.summary()["export"]["last_error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("150 spans are kept in spill.otlp.jsonl"), "{error}");
    assert_eq!(seen.manifest.health.export.spans_spilled, 150);

    let ground = Ground::new("collector::absent").expect("it was there before");
    let run = ground.command(&["run", "--otlp", &endpoint, "--output"]).word(ground.path("runs"));
    let done = run.program("sh").words(&["-c", "exit 3"]).finish().expect(3);
    let said: Vec<&str> = done.stdout.lines().filter(|line| line.contains("span")).collect();
    assert!(
        said.iter().any(|line| line.starts_with("lost          1 span kept in the run folder")),
        "{said:?}"
    );
}

/// Waits are kept beside the phases: lines of two services, each wait below a phase in the file.
#[test]
fn absent_for_waits() {
    let Some(ground) = Ground::new("collector::absent_for_waits") else { return };
    let run = ground.run().words(&["--otlp", &nobody()]).program(crate::ground::subject());
    let done = run.words(&["waits", "2"]).finish().expect(0);
    let seen = done.seen();
    let text = std::fs::read_to_string(seen.path.join("spill.otlp.jsonl")).expect("spans were spilled");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON"));
    let spans: Vec<Span> = lines.flat_map(|line| resource_spans(&line["resourceSpans"])).collect();
    assert_eq!(done.losses(), [("spans_spilled".to_owned(), spans.len() as u64)]);
    let (kernel, program): (Vec<&Span>, Vec<&Span>) = spans.iter().partition(|span| is_kernel(span));
    assert_eq!(program.len(), seen.requests.iter().map(|request| request.phases.len()).sum::<usize>());
    assert!(!kernel.is_empty(), "it slept 124 times");
    for wait in kernel {
        let is_parent = |span: &&&Span| wait.trace == span.trace && wait.parent.as_ref() == Some(&span.id);
        assert!(program.iter().any(|span| is_parent(&span)), "{wait:#?}");
    }
}

/// OTLP variables in the program's environment are the program's own: the agent does not change them.
#[test]
fn named_by_the_environment() {
    let Some(ground) = Ground::new("collector::named_by_the_environment") else { return };
    let endpoint = nobody();
    let start = ground.run().words(&NO_WAITS).program(crate::ground::subject()).words(&["requests", "2"]);
    let start = start.environment("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    let done = start.finish().expect(0);
    assert_eq!(done.summary()["export"]["endpoint"], endpoint);
    assert_eq!(done.losses(), [("spans_spilled".to_owned(), 6)]);
}

#[test]
fn dies_half_way() {
    let test = "collector::dies_half_way";
    let (Some(ground), Some(jaeger)) = (Ground::new(test), Jaeger::new(test)) else { return };
    let mut proxy = Proxy::to(authority(&jaeger.grpc));
    let service = service("dies");
    let start = ground.run().words(&["--name", &service, "--otlp", &proxy.url()]).words(&NO_WAITS);
    // 1,500 requests of 2 ms: 3 s or more, and a batch leaves every second.
    let run = start.program(crate::ground::subject()).words(&["requests", "1500", "100", "1900"]).spawn();
    eventually("the first batch arrives", || (proxy.bytes() > 20_000).then_some(()));
    eventually("Jaeger has some", || (!jaeger.look(&service).is_empty()).then_some(()));
    proxy.cut();
    let done = run.finish().expect(0);
    let seen = done.seen();
    let all: usize = seen.requests.iter().map(|request| request.phases.len()).sum();
    assert_eq!((seen.requests.len(), all), (1500, 4500));
    let (sent, kept, dropped) =
        (sent(&done), done.loss("spans_spilled") as usize, done.loss("spans_dropped") as usize);
    assert_eq!((sent + kept + dropped, dropped), (all, 0), "{sent} sent, {kept} kept");
    assert!(sent > 0 && kept > 0, "{sent} sent, {kept} kept");
    assert_eq!(spilled(&seen.path), kept);
    // Jaeger may have stored a batch without being able to acknowledge it.
    let arrived: usize = jaeger.look(&service).values().map(Vec::len).sum();
    assert!(arrived >= sent, "{arrived} arrived, {sent} were sent");
}

/// The collector comes back: kept spans are sent.
#[test]
fn comes_late() {
    let test = "collector::comes_late";
    let (Some(ground), Some(jaeger)) = (Ground::new(test), Jaeger::new(test)) else { return };
    let endpoint = nobody();
    let service = service("late");
    let start = ground.run().words(&["--name", &service, "--otlp", &endpoint]).words(&NO_WAITS);
    let run = start.program(crate::ground::subject()).words(&["requests", "1000", "100", "2900"]).spawn();
    eventually("a second of requests", || (ground.book().lines().count() > 400).then_some(()));
    let proxy = Proxy::at(authority(&endpoint), authority(&jaeger.grpc));
    let done = run.finish().expect(0);
    assert_eq!((sent(&done), done.losses()), (3000, vec![]), "{}", done.stdout);
    assert!(!done.seen().path.join("spill.otlp.jsonl").exists());
    jaeger.traces(&service, 1000);
    drop(proxy);
}
