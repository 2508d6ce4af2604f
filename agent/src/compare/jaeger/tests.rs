//! Requests there and back, answers that are full, and what a server may say that means no good.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use guestscope_contract::{ACCOUNTS, Account};
use proptest::{array::UniformArrayStrategy, prelude::*};
use rstest::rstest;

use super::{JaegerError, PAGE, Question, answer, read, rebuild};
use crate::{
    analyze::compare::Warmup,
    phase::{
        Accounts, COUNTS, Counts, Ending, HelperWait, Helpers, Phase, PhaseKind, Request, ThreadId, TraceIds,
    },
    sinks::otlp::{Lines, LiveVerdict, Value},
};

const MS: u64 = 1_000_000;
const START_NS: u64 = 1_790_000_000_000_000_000;

/// A phase that is the `at`th of its request, without numbers.
fn bare(at: u64, parent: Option<u64>) -> Phase {
    let span = |at: u64| (at + 1).to_be_bytes();
    Phase {
        id: at + 1,
        parent: parent.map(|parent| parent + 1),
        root: 1,
        kind: if at == 0 { PhaseKind::Request } else { PhaseKind::Phase },
        name: format!("phase {}", at % 3).into(),
        name_damaged: false,
        source: guestscope_contract::Source::Marker,
        status: None,
        request: 7,
        thread: ThreadId { tid: 11, tgid: 0, born_ns: 0 },
        comm: "".into(),
        start_ns: START_NS + at * 10 * MS,
        duration_ns: MS,
        suspended_ns: 0,
        accounts: Accounts::from([(Account::Cpu, MS)]),
        counts: Counts::default(),
        pause_ns: 0,
        holder: None,
        helpers: Helpers::default(),
        trace: TraceIds {
            trace_id: [7; 16],
            span_id: span(at),
            parent_span_id: parent.map(span),
            parent_is_remote: false,
        },
        ending: Ending::Ended,
        edges_lost: 0,
    }
}

/// What an export of them says, as Jaeger would answer.
fn body(requests: &[Request]) -> Vec<u8> {
    let resource = vec![("guestscope.run.id".into(), Value::StringValue("run".to_owned()))];
    let mut lines = Lines::new(Vec::new(), "service", resource);
    for request in requests {
        lines.request(Arc::new(request.clone()), LiveVerdict::default(), 0).unwrap();
    }
    let lines = String::from_utf8(lines.finish().unwrap().0).unwrap();
    let answers: Vec<String> = lines.lines().map(|line| format!("{{\"result\":{line}}}")).collect();
    answers.join("\n").into_bytes()
}

/// A phase as its span keeps it, except for its start.
fn left(mut phase: Phase) -> Phase {
    phase.start_ns = 0;
    phase.trace = TraceIds::default();
    phase
}

fn numbers() -> impl Strategy<Value = Phase> {
    let number = || 0_u64..1 << 50;
    let accounts = UniformArrayStrategy::<_, [u64; ACCOUNTS]>::new(number());
    let counts = prop::collection::vec(number(), COUNTS);
    let helpers = (
        UniformArrayStrategy::<_, [u64; ACCOUNTS]>::new(number()),
        prop::array::uniform4(number()),
        prop::array::uniform4(number()),
    );
    (accounts, counts, helpers, number(), number(), any::<bool>()).prop_map(
        |(accounts, counts, (helpers, on_cpu, waiting), suspended_ns, pause_ns, lost)| Phase {
            accounts: Accounts(accounts),
            counts: Counts::from_array(counts.try_into().unwrap()),
            helpers: Helpers {
                accounts: Accounts(helpers),
                wait: HelperWait { on_cpu, waiting },
                ..Helpers::default()
            },
            suspended_ns,
            pause_ns,
            ending: if lost { Ending::Lost } else { Ending::Ended },
            ..bare(0, None)
        },
    )
}

/// Phases within each other and one after the other, perhaps with a queue before them.
fn drawn() -> impl Strategy<Value = Request> {
    let phases = prop::collection::vec((numbers(), 0_usize..4), 1..7);
    (phases, any::<bool>()).prop_map(|(drawn, has_queue)| {
        let mut open: Vec<u64> = Vec::new();
        let mut phases: Vec<Phase> = Vec::new();
        for (at, (numbers, closed)) in drawn.into_iter().enumerate() {
            let keep = open.len().saturating_sub(closed).max(1);
            open.truncate(keep);
            let Phase { id, parent, kind, name, start_ns, mut trace, .. } =
                bare(at as u64, open.last().copied());
            // Every second one is made of a span of the program's, which is not ours.
            if at % 2 == 1 {
                trace = TraceIds { parent_span_id: Some([9; 8]), parent_is_remote: true, ..trace };
            }
            phases.push(Phase { id, parent, kind, name, start_ns, trace, ..numbers });
            open.push(at as u64);
        }
        // As long as all that is nested in it, and a little less than what it is nested in.
        let count = phases.len() as u64;
        for phase in &mut phases {
            phase.duration_ns = START_NS + count * 10 * MS - phase.start_ns + (count - phase.id) * MS;
        }
        if has_queue {
            let queue = Phase {
                kind: PhaseKind::Queue,
                name: "queue".into(),
                start_ns: START_NS - 5 * MS,
                duration_ns: 5 * MS,
                accounts: Accounts::default(),
                ..bare(count, Some(0))
            };
            phases.insert(1, queue);
        }
        Request { phases }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn requests_come_back_as_they_went(request in drawn()) {
        let found = answer::read(&body(std::slice::from_ref(&request)), "service").unwrap();
        let mut next_id = 1;
        let (back, astray) = rebuild::requests(&found.spans, &mut next_id);
        prop_assert_eq!((back.len(), astray, found.traces), (1, 0, 1));
        let back = &back[0].1;
        prop_assert_eq!(back.root().start_ns, request.root().start_ns);
        let names = |request: &Request| -> Vec<_> {
            let parent = |phase: &Phase| request.phases.iter().position(|one| Some(one.id) == phase.parent);
            request.phases.iter().map(|phase| (phase.name.clone(), parent(phase))).collect()
        };
        prop_assert_eq!(names(back), names(&request));
        for (mine, theirs) in back.phases.iter().zip(&request.phases) {
            let ids = |phase: &Phase| Phase { id: 0, parent: None, root: 0, ..left(phase.clone()) };
            prop_assert_eq!(ids(mine), ids(theirs));
        }
    }
}

/// A Jaeger with so many traces, 1 ms apart, that gives at most as many as asked for, the newest first.
fn server(traces: u64, answers: &'static AtomicUsize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let newest_ns =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let request = move |number: u64| {
        let mut phase = bare(0, None);
        phase.start_ns = newest_ns - number * MS;
        phase.request = number;
        (phase.trace.trace_id, phase.trace.span_id) =
            (u128::from(number + 1).to_be_bytes(), (number + 1).to_be_bytes());
        Request { phases: vec![phase] }
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut line).unwrap();
            while {
                let mut rest = String::new();
                reader.read_line(&mut rest).unwrap() > 2
            } {}
            let path = line.split_whitespace().nth(1).unwrap();
            let body = if path.starts_with("/api/v3/services") {
                br#"{"services":["service","kernel"]}"#.to_vec()
            } else {
                answers.fetch_add(1, Ordering::Relaxed);
                let time = |key: &str| {
                    let text = path.split(['&', '?']).find_map(|pair| pair.strip_prefix(key)).unwrap();
                    let text = text.replace("%3A", ":");
                    chrono::DateTime::parse_from_rfc3339(&text).unwrap().timestamp_nanos_opt().unwrap() as u64
                };
                let (from, to) = (time("query.start_time_min="), time("query.start_time_max="));
                let found = (0..traces).filter(|number| (from..to).contains(&(newest_ns - number * MS)));
                body(&found.take(PAGE).map(request).collect::<Vec<_>>())
            };
            let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
            let head = format!("HTTP/1.0 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
        }
    });
    url
}

fn ask(url: &str, service: &str) -> Result<Vec<super::ReadRun>, JaegerError> {
    let services = [service.to_owned()];
    let lookback = std::time::Duration::from_hours(24);
    read(&Question { url, services: &services, lookback, warmup: Warmup::Requests(0) }, &|_| {})
}

#[test]
fn answers_that_are_full_are_asked_for_in_parts() {
    static ANSWERS: AtomicUsize = AtomicUsize::new(0);
    let url = server(PAGE as u64 * 5 / 2, &ANSWERS);
    let runs = ask(&url, "label=service").unwrap();
    let [run] = &runs[..] else { panic!("{} runs", runs.len()) };
    assert_eq!(run.digest.groups[0].latencies_ns, vec![MS; PAGE * 5 / 2]);
    assert_eq!((run.source.label.as_deref(), run.manifest.run_id.as_str()), (Some("label"), "run"));
    assert!(run.notes.is_empty(), "{:?}", run.notes);
    let answers = ANSWERS.load(Ordering::Relaxed);
    assert!((4..100).contains(&answers), "{answers} answers");
}

#[test]
fn an_unknown_service_is_told_with_those_that_there_are() {
    static ANSWERS: AtomicUsize = AtomicUsize::new(0);
    let error = ask(&server(1, &ANSWERS), "other").unwrap_err();
    assert_eq!(error.to_string(), "no such service in Jaeger: other; there are service, kernel");
    let error = ask(&server(0, &ANSWERS), "service").unwrap_err();
    assert_eq!(error.to_string(), "no traces of guestscope in the last 86400 s: service");
}

/// Spans in an answer of one trace, as (id, parent, kind, attributes).
fn made(spans: &[(&str, &str, &str, &str)]) -> Vec<u8> {
    let spans: Vec<String> = spans
        .iter()
        .map(|(id, parent, kind, attributes)| {
            format!(
                r#"{{"traceId":"t","spanId":"{id}","parentSpanId":"{parent}","name":"n","kind":{kind},"attributes":[{attributes}]}}"#
            )
        })
        .collect();
    let resource = r#"{"attributes":[{"key":"service.name","value":{"stringValue":"service"}}]}"#;
    let scope = format!(r#"{{"scope":{{"name":"guestscope"}},"spans":[{}]}}"#, spans.join(","));
    format!(r#"{{"result":{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{scope}]}}]}}}}"#)
        .into_bytes()
}

const LENGTH: &str = r#"{"key":"guestscope.duration_ns","value":{"intValue":"5"}},{"key":"guestscope.request","value":{"intValue":1}}"#;

const KIND: &str = r#"{"key":"guestscope.duration_ns","value":{"intValue":"5"}},{"key":"guestscope.request","value":{"intValue":1}},{"key":"guestscope.kind","value":{"stringValue":"request"}}"#;
const OTHER_KIND: &str = r#"{"key":"guestscope.duration_ns","value":{"intValue":"5"}},{"key":"guestscope.request","value":{"intValue":1}},{"key":"guestscope.kind","value":{"stringValue":"phase"}}"#;

#[rstest]
#[case::as_it_should_be(&[("a", "", "2", LENGTH), ("b", "a", "1", LENGTH)], 1, 0)]
#[case::sent_twice(&[("a", "", "2", LENGTH), ("a", "", "2", LENGTH)], 1, 0)]
#[case::a_circle(&[("a", "b", "1", LENGTH), ("b", "a", "1", LENGTH)], 0, 2)]
#[case::its_own_parent(&[("a", "a", "1", LENGTH)], 0, 1)]
#[case::without_its_request(&[("b", "a", "1", LENGTH)], 0, 1)]
#[case::by_its_attribute(&[("a", "", "1", KIND), ("b", "a", "1", LENGTH)], 1, 0)]
#[case::another_attribute(&[("a", "", "1", OTHER_KIND)], 0, 1)]
#[case::a_kind_by_name(&[("a", "", "\"SPAN_KIND_SERVER\"", LENGTH)], 1, 0)]
#[case::no_length(&[("a", "", "2", "")], 0, 1)]
#[case::below_zero(&[("a", "", "2", r#"{"key":"guestscope.duration_ns","value":{"intValue":"-5"}}"#)], 0, 1)]
#[case::an_ending_of_its_own(&[("a", "", "2", r#"{"key":"guestscope.ending","value":{"stringValue":"?"}},{"key":"guestscope.duration_ns","value":{"intValue":"5"}}"#)], 0, 1)]
#[case::other_values(&[("a", "", "2", r#"{"key":"guestscope.duration_ns","value":{"doubleValue":5}},{"key":"x","value":{}},{"key":"y"}"#)], 0, 1)]
fn spans_that_nobody_vouches_for(
    #[case] spans: &[(&str, &str, &str, &str)],
    #[case] found: usize,
    #[case] astray: u64,
) {
    let answer = answer::read(&made(spans), "service").unwrap();
    let (requests, lost) = rebuild::requests(&answer.spans, &mut 1);
    assert_eq!((requests.len(), lost), (found, astray));
}

#[rstest]
#[case::text("<html>")]
#[case::another_shape(r#"{"result":5}"#)]
#[case::an_id_that_is_none(
    r#"{"result":{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":5,"spanId":"a"}]}]}]}}"#
)]
#[case::cut_off(r#"{"result":{"resourceSpans":["#)]
fn what_is_no_answer_is_an_error(#[case] body: &str) {
    assert!(answer::read(body.as_bytes(), "service").is_err());
}

#[test]
fn a_name_is_as_long_as_a_marker_can_make_it() {
    let mut phase = bare(0, None);
    phase.name = "é".repeat(40).into();
    let found = answer::read(&body(&[Request { phases: vec![phase] }]), "service").unwrap();
    let (requests, _) = rebuild::requests(&found.spans, &mut 1);
    assert_eq!(requests[0].1.root().name.stored(), "é".repeat(32));
}
