//! `guestscope export --to otlp`: every span of a folder arrives once, or the number of missing ones is
//! reported.

use std::{collections::BTreeMap, path::Path, process::Output};

use opentelemetry_proto::tonic::trace::v1::TracesData;

use super::{
    agent, closed,
    receiver::{Answer, Receiver},
    request, usual,
};

/// The content of each span, by trace and span id.
type Spans = BTreeMap<(Vec<u8>, Vec<u8>), String>;

/// The number of spans, and by trace and span id: the resource and all content, in sorted order.
fn spans<'a>(batches: impl IntoIterator<Item = &'a TracesData>) -> (usize, Spans) {
    let (mut count, mut all) = (0, Spans::new());
    for of in batches.into_iter().flat_map(|batch| &batch.resource_spans) {
        // Resource attributes are a hash map in the library, whose order differs between processes.
        let mut resource = of.resource.clone().unwrap();
        resource.attributes.sort_by(|one, other| one.key.cmp(&other.key));
        for scope in &of.scope_spans {
            for span in &scope.spans {
                count += 1;
                let text = format!("{:?} {resource:?} {:?} {span:?}", of.schema_url, scope.scope);
                all.insert((span.trace_id.clone(), span.span_id.clone()), text);
            }
        }
    }
    (count, all)
}

fn lines(folder: &Path) -> Vec<TracesData> {
    let output = agent("export", folder, &["--to", "otlp-json"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn replay(folder: &Path, receiver: &Receiver, more: &[&str]) -> Output {
    let protocol = ["--to", "otlp", "--otlp", &receiver.endpoint];
    agent("export", folder, &[&protocol, more].concat())
}

fn told(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Requests with ids of their own, because receivers identify spans by them.
fn numbered(count: u64) -> Vec<guestscope::phase::Request> {
    let mut all = usual(count);
    for request in &mut all {
        let id = request.root().id;
        let trace = &mut request.phases[0].trace;
        (trace.trace_id, trace.span_id) = (u128::from(id).to_be_bytes(), id.to_be_bytes());
    }
    all
}

#[test]
fn all_spans_arrive_once_and_are_those_of_the_lines() {
    let (_parent, folder) = closed(&numbered(3_000));
    // Batches that the receiver refused as busy are sent again.
    let receiver = Receiver::start(|attempt| if attempt % 3 == 1 { Answer::Busy } else { Answer::Take });
    let output = replay(&folder, &receiver, &[]);
    let origin = &receiver.endpoint;
    assert_eq!(told(&output), format!("3000 traces, 3300 spans sent to {origin}\n"));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    let heard = receiver.heard.lock().unwrap();
    assert!(heard.attempts > heard.taken.len() + 1, "{}", heard.attempts);
    assert_eq!(heard.tenant.as_deref(), Some("7"));
    let (count, sent) = spans(&heard.taken);
    assert_eq!((count, sent.len()), (3_300, 3_300));
    for (id, text) in spans(&lines(&folder)).1 {
        assert_eq!(sent[&id], text);
    }
}

#[test]
fn what_is_refused_or_rejected_is_counted() {
    let (_parent, folder) = closed(&numbered(1_000));
    let rejecting = Receiver::start(|attempt| if attempt == 1 { Answer::Reject(7) } else { Answer::Take });
    let output = replay(&folder, &rejecting, &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = told(&output);
    let expected = "error: the collector did not take all spans: 1093 taken, 7 rejected, 0 left: \
                    the collector rejected 7 spans: over the limit of its tenant\n\nhint: ";
    assert!(said.starts_with(expected), "{said}");

    let refusing = Receiver::start(|attempt| if attempt == 0 { Answer::Refuse } else { Answer::Take });
    let output = replay(&folder, &refusing, &[]);
    assert_eq!(output.status.code(), Some(2));
    let (arrived, _) = spans(&refusing.heard.lock().unwrap().taken);
    let said = told(&output);
    let books = format!("{arrived} taken, 0 rejected, {} left", 1_100 - arrived);
    assert!(arrived < 1_100 && said.contains(&books), "{said}");
}

#[test]
fn a_collector_that_takes_nothing_any_more_is_given_up() {
    let (_parent, folder) = closed(&numbered(20_000));
    let receiver = Receiver::start(|attempt| if attempt < 2 { Answer::Take } else { Answer::Busy });
    let output = replay(&folder, &receiver, &["--give-up", "300ms"]);
    assert_eq!(output.status.code(), Some(2));
    let (arrived, _) = spans(&receiver.heard.lock().unwrap().taken);
    let said = told(&output);
    assert!(arrived > 0 && said.contains(&format!("{arrived} taken, 0 rejected, ")), "{said}");
    assert!(said.contains("the collector answered 503"), "{said}");
}

#[test]
fn a_folder_without_requests_sends_nothing() {
    let (_parent, folder) = closed(&[]);
    let receiver = Receiver::start(|_| Answer::Take);
    let output = replay(&folder, &receiver, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(told(&output), format!("0 traces, 0 spans sent to {}\n", receiver.endpoint));
    assert_eq!(receiver.heard.lock().unwrap().attempts, 0);
}

#[test]
fn options_are_for_their_form_and_an_endpoint_is_needed() {
    let (_parent, folder) = closed(&[request(0, "request", 0)]);
    let said = |more: &[&str]| {
        let output = agent("export", &folder, more);
        assert_eq!(output.status.code(), Some(2));
        told(&output).lines().next().unwrap().to_owned()
    };
    let (to_lines, to_otlp) = (["--to", "otlp-json"], ["--to", "otlp"]);
    let url = ["--otlp", "http://127.0.0.1:1"];
    assert_eq!(said(&[to_lines, url].concat()), "error: not an option of this form: --otlp");
    assert_eq!(said(&[to_otlp, ["--output", "x"]].concat()), "error: not an option of this form: --output");
    assert_eq!(said(&to_otlp), "error: no OTLP endpoint is given");
}
