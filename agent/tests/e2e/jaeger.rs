//! Queries a real Jaeger through its query API, version 3.
//!
//! Yields spans with attributes and resource as Jaeger returns them. It starts none: the environment has the
//! addresses. Each test has its own service names, since all share one Jaeger.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use guestscope::folder::rfc3339;
use guestscope_base::percent;
use serde_json::Value;

use crate::{
    ground::{eventually, skipped, variable},
    http,
};

/// Most traces in an answer: more than any test sends.
const MOST: u32 = 20_000;

/// A Jaeger's address.
pub(crate) struct Jaeger {
    pub(crate) grpc: String,
    pub(crate) http: String,
    query: String,
}

/// A span as Jaeger returns it.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) name: String,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) attributes: BTreeMap<String, Value>,
    pub(crate) resource: BTreeMap<String, Value>,
    /// Attributes of each event.
    pub(crate) events: Vec<BTreeMap<String, Value>>,
    /// Number of further events.
    pub(crate) events_left_out: u64,
}

impl Span {
    /// An attribute that is an integer.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.attributes.get(key).map(|value| value.as_u64().unwrap_or_else(|| panic!("{key}: {value}")))
    }
}

/// Whether it is the span of a wait, not of a phase.
pub(crate) fn is_kernel(span: &Span) -> bool {
    span.resource["service.name"] == "kernel"
}

/// A service name that no other run uses.
pub(crate) fn service(test: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("e2e-{test}-{}-{}", std::process::id(), now.as_micros())
}

impl Jaeger {
    /// The Jaeger of the environment; none, with a note on stdout, if it names none.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let address = |name: &str| {
            let value = variable(name).and_then(|value| value.into_string().ok());
            value.or_else(|| {
                skipped(test, &format!("no Jaeger: {name} is not set"));
                None
            })
        };
        Some(Self {
            grpc: address("GUESTSCOPE_JAEGER_OTLP_GRPC")?,
            http: address("GUESTSCOPE_JAEGER_OTLP_HTTP")?,
            query: address("GUESTSCOPE_JAEGER_QUERY")?,
        })
    }

    /// Address of its query API.
    pub(crate) fn query(&self) -> &str {
        &self.query
    }

    /// The spans of a service by trace, once it has this many traces.
    pub(crate) fn traces(&self, service: &str, traces: usize) -> BTreeMap<String, Vec<Span>> {
        let found = eventually(&format!("{traces} traces of {service} in Jaeger"), || {
            let found = self.look(service);
            (found.len() >= traces).then_some(found)
        });
        assert_eq!(found.len(), traces, "traces of {service}");
        found
    }

    /// The spans of a service that Jaeger has now.
    pub(crate) fn look(&self, service: &str) -> BTreeMap<String, Vec<Span>> {
        let mut traces = BTreeMap::<String, Vec<Span>>::new();
        for span in self.spans(&v3(service)) {
            traces.entry(span.trace.clone()).or_default().push(span);
        }
        traces
    }

    /// IDs of the traces with this attribute, as the search form finds them.
    pub(crate) fn search(&self, service: &str, key: &str, value: &str) -> Vec<String> {
        self.find(service, None, key, value)
    }

    /// The same, restricted to an operation of the service.
    pub(crate) fn operation(&self, service: &str, operation: &str, key: &str, value: &str) -> Vec<String> {
        self.find(service, Some(operation), key, value)
    }

    fn find(&self, service: &str, operation: Option<&str>, key: &str, value: &str) -> Vec<String> {
        let tags = percent::encoded(&serde_json::json!({ key: value }).to_string());
        let service_ = percent::encoded(service);
        let with = |name: &str| operation.map(|value| format!("&{name}={}", percent::encoded(value)));
        let old_operation = with("operation").unwrap_or_default();
        let old =
            format!("/api/traces?service={service_}{old_operation}&limit={MOST}&lookback=1h&tags={tags}");
        let (status, body) = http::get(&self.query, &old).expect("Jaeger answers");
        let mut ids: Vec<String> = if status == 200 {
            let answer: Value = serde_json::from_str(&body).expect("Jaeger's answer is JSON");
            let traces = answer["data"].as_array().cloned().unwrap_or_default();
            traces.iter().filter_map(|trace| Some(trace["traceID"].as_str()?.to_owned())).collect()
        } else {
            // Later versions of Jaeger have only this interface, which can search attributes.
            let operation = with("query.operation_name").unwrap_or_default();
            let path = format!("{}{operation}&query.attributes={tags}", v3(service));
            self.spans(&path).into_iter().map(|span| span.trace).collect()
        };
        ids.sort();
        ids.dedup();
        ids
    }

    /// One trace by its id.
    pub(crate) fn trace(&self, id: &str) -> Vec<Span> {
        self.spans(&format!("/api/v3/traces/{id}"))
    }

    fn spans(&self, path: &str) -> Vec<Span> {
        let (status, body) = http::get(&self.query, path).expect("Jaeger answers");
        match status {
            200 => spans(&body),
            // Jaeger answers 404 if it has no trace.
            404 => Vec::new(),
            _ => panic!("Jaeger: status {status} for {path}: {body}"),
        }
    }
}

/// The query for the traces of a service in this hour and the next.
fn v3(service: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let hour = Duration::from_hours(1);
    let [from, to] =
        [now.saturating_sub(hour), now + hour].map(|time| percent::encoded(&rfc3339(time.as_nanos() as u64)));
    let service = percent::encoded(service);
    format!(
        "/api/v3/traces?query.service_name={service}&query.start_time_min={from}&query.start_time_max={to}\
         &query.num_traces={MOST}&query.search_depth={MOST}"
    )
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Spans of an answer, which is one or several JSON values.
fn spans(body: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    for answer in serde_json::Deserializer::from_str(body).into_iter::<Value>() {
        let answer = answer.expect("Jaeger's answer is JSON");
        spans.extend(resource_spans(&answer["result"]["resourceSpans"]));
    }
    spans
}

/// Spans in a list of resource spans, as in OTLP-JSON.
pub(crate) fn resource_spans(groups: &Value) -> Vec<Span> {
    let mut spans = Vec::new();
    for group in list(groups) {
        let resource = attributes(&group["resource"]["attributes"]);
        let scopes = list(&group["scopeSpans"]);
        let all = scopes.iter().flat_map(|scope| list(&scope["spans"]));
        spans.extend(all.map(|span| one(&span, &resource)));
    }
    spans
}

fn one(span: &Value, resource: &BTreeMap<String, Value>) -> Span {
    let text = |key: &str| span[key].as_str().unwrap_or_default().to_owned();
    let time = |key: &str| {
        span[key].as_str().and_then(|ns| ns.parse().ok()).unwrap_or_else(|| panic!("{key}: {span}"))
    };
    Span {
        trace: text("traceId"),
        id: text("spanId"),
        parent: Some(text("parentSpanId")).filter(|id| !id.is_empty()),
        name: text("name"),
        start_ns: time("startTimeUnixNano"),
        end_ns: time("endTimeUnixNano"),
        attributes: attributes(&span["attributes"]),
        resource: resource.clone(),
        events: list(&span["events"]).iter().map(|event| attributes(&event["attributes"])).collect(),
        events_left_out: span["droppedEventsCount"].as_u64().unwrap_or(0),
    }
}

/// Key and value of each attribute; integers come as text.
fn attributes(list: &Value) -> BTreeMap<String, Value> {
    let pairs = list.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    pairs
        .map(|pair| {
            let (key, value) = (pair["key"].as_str().unwrap_or_default(), &pair["value"]);
            let integer =
                value["intValue"].as_str().and_then(|text| text.parse::<i64>().ok()).map(Value::from);
            let plain = ["stringValue", "boolValue", "doubleValue", "arrayValue"]
                .iter()
                .find_map(|kind| value.get(kind));
            (key.to_owned(), integer.or_else(|| plain.cloned()).unwrap_or_else(|| panic!("{pair}")))
        })
        .collect()
}
