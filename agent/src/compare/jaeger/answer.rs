//! What a Jaeger answers to a search, as far as runs can be made of it: OTLP as JSON, one value or several behind each other.
//!
//! Everything comes from outside, so nothing here is trusted: what has another shape is no span, ids are just texts,
//! numbers may be below zero or absent.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

/// Longest text of a resource that is kept, characters.
const TEXT: usize = 200;

#[derive(Deserialize)]
struct Answer {
    result: Option<Traces>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Traces {
    #[serde(default)]
    resource_spans: Vec<OfResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfResource {
    resource: Option<Attributes>,
    #[serde(default)]
    scope_spans: Vec<OfScope>,
}

#[derive(Default, Deserialize)]
struct Attributes {
    #[serde(default)]
    attributes: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct OfScope {
    scope: Option<Scope>,
    #[serde(default)]
    spans: Vec<RawSpan>,
}

#[derive(Default, Deserialize)]
struct Scope {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpan {
    trace_id: String,
    span_id: String,
    #[serde(default)]
    parent_span_id: String,
    #[serde(default)]
    name: String,
    kind: Option<Integer>,
    start_time_unix_nano: Option<Integer>,
    end_time_unix_nano: Option<Integer>,
    #[serde(default)]
    attributes: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: AnyValue,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyValue {
    string_value: Option<String>,
    int_value: Option<Integer>,
}

/// 64 bits do not fit into a number of JavaScript, so most write them as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Integer {
    Number(i64),
    Text(String),
}

impl Integer {
    fn get(&self) -> Option<u64> {
        match self {
            Integer::Number(number) => u64::try_from(*number).ok(),
            Integer::Text(text) => text.parse().ok(),
        }
    }
}

/// Which run a span belongs to, and what its resource says of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// `guestscope.run.id`.
    pub(super) run_id: String,
    /// `guestscope.scenario`.
    pub(super) scenario: String,
    /// `guestscope.platform`.
    pub(super) platform: String,
    /// `guestscope.fidelity`.
    pub(super) fidelity: String,
    /// `guestscope.work.hash`: exports of folders have it.
    pub(super) work_hash: Option<String>,
    /// `os.description`.
    pub(super) kernel: String,
    /// `host.cpu.model.name`.
    pub(super) cpu_model: String,
    /// Of the guestscope that sent it.
    pub(super) version: String,
}

/// A span of a phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    /// Empty if there is none.
    pub(super) parent: String,
    pub(super) name: String,
    /// Of kind `SERVER`.
    pub(super) is_server: bool,
    /// Wall time, ns.
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Attributes of ours that are numbers, those below zero left out.
    pub(super) numbers: HashMap<String, u64>,
    /// `guestscope.ending`.
    pub(super) ending: Option<String>,
    /// Among those of its answer.
    pub(super) origin: usize,
}

/// What an answer holds of a service.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Each that its spans name.
    pub(super) origins: Vec<Origin>,
    /// Of phases: waits belong to a service of their own.
    pub(super) spans: Vec<Span>,
    /// Traces in it, those of others included: whether it was full.
    pub(super) traces: usize,
}

/// Reads an answer.
///
/// # Errors
/// It is no JSON, or not of this shape.
pub(super) fn read(body: &[u8], service: &str) -> Result<Found, serde_json::Error> {
    let mut found = Found::default();
    let mut traces = HashSet::new();
    for answer in serde_json::Deserializer::from_slice(body).into_iter::<Answer>() {
        for of_resource in answer?.result.map(|traces| traces.resource_spans).unwrap_or_default() {
            let resource = of_resource.resource.unwrap_or_default().attributes;
            let text = |key: &str| {
                let value = resource.iter().find(|one| one.key == key)?.value.string_value.as_ref()?;
                Some(value.chars().take(TEXT).collect::<String>())
            };
            let is_ours = text("service.name").as_deref() == Some(service);
            for OfScope { scope, spans } in of_resource.scope_spans {
                let scope = scope.unwrap_or_default();
                traces.extend(spans.iter().map(|span| span.trace_id.clone()));
                if !is_ours || scope.name != "guestscope" {
                    continue;
                }
                let origin = origin(&text, &scope.version);
                let at = found.origins.iter().position(|known| *known == origin);
                let at = at.unwrap_or_else(|| {
                    found.origins.push(origin);
                    found.origins.len() - 1
                });
                found.spans.extend(spans.into_iter().map(|span| span.into_span(at)));
            }
        }
    }
    found.traces = traces.len();
    Ok(found)
}

fn origin(text: &dyn Fn(&str) -> Option<String>, version: &str) -> Origin {
    let known = |key: &str| text(key).unwrap_or_default();
    Origin {
        run_id: known("guestscope.run.id"),
        scenario: known("guestscope.scenario"),
        platform: known("guestscope.platform"),
        fidelity: known("guestscope.fidelity"),
        work_hash: text("guestscope.work.hash"),
        kernel: known("os.description"),
        cpu_model: known("host.cpu.model.name"),
        version: version.chars().take(TEXT).collect(),
    }
}

impl RawSpan {
    fn into_span(self, origin: usize) -> Span {
        let time = |time: Option<Integer>| time.and_then(|time| time.get()).unwrap_or(0);
        let ours = |one: &KeyValue| one.key.starts_with("guestscope.") || one.key == "thread.id";
        let is_server = match &self.kind {
            Some(Integer::Number(kind)) => *kind == 2,
            Some(Integer::Text(kind)) => kind == "SPAN_KIND_SERVER",
            None => false,
        };
        let mut span = Span {
            trace: self.trace_id,
            id: self.span_id,
            parent: self.parent_span_id,
            name: self.name,
            is_server,
            start_ns: time(self.start_time_unix_nano),
            end_ns: time(self.end_time_unix_nano),
            origin,
            ..Span::default()
        };
        for KeyValue { key, value } in self.attributes.into_iter().filter(ours) {
            if let Some(number) = value.int_value.and_then(|number| number.get()) {
                span.numbers.insert(key, number);
            } else if key == "guestscope.ending" {
                span.ending = value.string_value;
            }
        }
        span
    }
}
