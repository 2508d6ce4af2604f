//! Answers of a Jaeger to a search, as far as runs can be made of them: OTLP as JSON, one or several values.
//!
//! Everything comes from outside and is untrusted: what has another shape is no span, ids are any text,
//! numbers may be below zero or absent.

use std::collections::HashSet;

use guestscope_contract::metrics::Quantity;
use serde::{Deserialize, de::Error as _};

use super::bounded::{Bounded, with_room};
use crate::sinks::otlp::keys;

/// Value of [`keys::KIND`] of the outermost span of a request.
const REQUEST: &str = "request";
/// Longest text that is kept, characters.
const TEXT: usize = 200;
/// Maximum number of runs, distinguished by their resources.
pub(super) const MOST_ORIGINS: usize = 10_000;

#[derive(Deserialize)]
struct Answer {
    result: Option<Traces>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Traces {
    #[serde(default)]
    resource_spans: Bounded<OfResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfResource {
    resource: Option<Attributes>,
    #[serde(default)]
    scope_spans: Bounded<OfScope>,
}

#[derive(Default, Deserialize)]
struct Attributes {
    #[serde(default)]
    attributes: Bounded<KeyValue>,
}

#[derive(Deserialize)]
struct OfScope {
    scope: Option<Scope>,
    #[serde(default)]
    spans: Bounded<RawSpan>,
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
    attributes: Bounded<KeyValue>,
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

/// The run of a span, and its resource attributes.
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
    /// Version of the guestscope that sent it.
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
    /// The outermost span of a request: it says so, or its span kind is `SERVER`.
    pub(super) is_request: bool,
    /// Wall time, ns.
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Attributes of ours that are numbers, those below zero left out.
    pub(super) numbers: Numbers,
    /// `guestscope.ending`.
    pub(super) ending: Option<String>,
    /// Index among the origins of its answer.
    pub(super) origin: usize,
}

impl Span {
    /// Its size in memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.trace, &self.id, &self.parent, &self.name].map(String::capacity);
        size_of::<Self>() + texts.iter().sum::<usize>() + self.numbers.0.capacity() * size_of::<(&str, u64)>()
    }
}

/// Numbers by their names, which are ours: of others there may be any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers(Vec<(&'static str, u64)>);

/// Numeric attributes that the table of metrics does not have.
const OTHERS: [&str; 3] = ["guestscope.request", "guestscope.duration_ns", "thread.id"];

impl Numbers {
    fn insert(&mut self, key: &str, value: u64) {
        let table = Quantity::all().map(|quantity| quantity.row().attribute);
        let known = OTHERS.into_iter().chain(table).find(|known| *known == key);
        if let Some(known) = known.filter(|known| self.get(known).is_none()) {
            self.0.push((known, value));
        }
    }

    /// None if the span has no such attribute.
    pub(super) fn get(&self, key: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }
}

/// Spans of one service in an answer.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// All origins of its spans.
    pub(super) origins: Vec<Origin>,
    /// Spans of phases; waits belong to a service of their own.
    pub(super) spans: Vec<Span>,
    /// Traces in it, those of others included: whether it was full.
    pub(super) traces: usize,
}

/// Reads an answer.
///
/// # Errors
/// It is no JSON, or not of this shape.
pub(super) fn read(body: &[u8], service: &str) -> Result<Found, serde_json::Error> {
    with_room(|| found(body, service))
}

fn found(body: &[u8], service: &str) -> Result<Found, serde_json::Error> {
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
                if at >= MOST_ORIGINS {
                    return Err(serde_json::Error::custom("resources of more than 10,000 runs"));
                }
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
        let is_server = match &self.kind {
            Some(Integer::Number(kind)) => *kind == 2,
            Some(Integer::Text(kind)) => kind == "SPAN_KIND_SERVER",
            None => false,
        };
        let short = |text: String| if text.len() > TEXT { text.chars().take(TEXT).collect() } else { text };
        let mut span = Span {
            trace: short(self.trace_id),
            id: short(self.span_id),
            parent: short(self.parent_span_id),
            name: short(self.name),
            is_request: is_server,
            start_ns: time(self.start_time_unix_nano),
            end_ns: time(self.end_time_unix_nano),
            origin,
            ..Span::default()
        };
        for KeyValue { key, value } in self.attributes {
            if let Some(number) = value.int_value.and_then(|number| number.get()) {
                span.numbers.insert(&key, number);
            } else if key == "guestscope.ending" {
                span.ending = value.string_value.map(short);
            } else if key == keys::KIND {
                span.is_request |= value.string_value.as_deref() == Some(REQUEST);
            } else if key == keys::AROUND {
                span.parent = value.string_value.map_or(span.parent, short);
            }
        }
        span.numbers.0.shrink_to_fit();
        span
    }
}
