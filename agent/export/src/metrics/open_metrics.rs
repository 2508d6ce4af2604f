//! Metrics as text of OpenMetrics 1.0, which Prometheus and its kin scrape.
//!
//! Names follow Prometheus' rules: base units (seconds, bytes), `_total` for what only grows.

use std::fmt::Write as _;

use super::{Exemplar, Key, Metrics, POWERS, Row};
use crate::{analyze::Cause, untrusted::is_unsafe};

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A number beside those of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Name without `guestscope_` and without the ending of its kind.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
    /// Labels and their values.
    pub labels: Vec<(&'static str, String)>,
    /// The number, in base units.
    pub value: f64,
}

/// Kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It is 1, and its labels say something.
    Info,
}

/// The whole text. Numbers of the same name must be beside each other.
pub fn text(metrics: &Metrics, numbers: &[Number]) -> String {
    let mut text = String::new();
    durations(&mut text, metrics);
    times(&mut text, metrics);
    slow(&mut text, metrics);
    let left_out = metrics.left_out.iter().map(|(reason, count)| Number {
        name: "requests_left_out",
        help: "Requests that no other metric counts.",
        kind: Kind::Counter,
        labels: vec![("reason", (*reason).to_owned())],
        value: *count as f64,
    });
    let others = Number {
        name: "phases_in_others",
        help: "Phases that were counted as others for want of room.",
        kind: Kind::Counter,
        labels: Vec::new(),
        value: metrics.others as f64,
    };
    let mut last = "";
    for number in left_out.chain([others]).chain(numbers.iter().cloned()) {
        if number.name != last {
            head(&mut text, number.name, number.kind.name(), number.help);
        }
        last = number.name;
        let ending = match number.kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Info => "_info",
        };
        let labels: Vec<(&str, &str)> = number.labels.iter().map(|(key, value)| (*key, &**value)).collect();
        line(&mut text, &format!("{}{ending}", number.name), &labels, number.value);
        text.push('\n');
    }
    text.push_str("# EOF\n");
    text
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Info => "info",
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# TYPE guestscope_{name} {kind}");
    if let Some(unit) = ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(&format!("_{unit}"))) {
        let _ = writeln!(text, "# UNIT guestscope_{name} {unit}");
    }
    let _ = writeln!(text, "# HELP guestscope_{name} {help}");
}

/// A sample without its line end.
fn line(text: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let labels: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = write!(text, "guestscope_{name}{labels} {value}");
}

/// A value of a label: names come from programs. Two names never become one: a series that comes twice is an
/// error to who reads this. So a backslash that looks like the begin of an escaped character is escaped too.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for (at, c) in value.char_indices() {
        match c {
            _ if is_unsafe(c) && c != '\n' => push_escaped(&mut text, c),
            '\\' if value[at + 1..].starts_with("u{") => push_escaped(&mut text, c),
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => text.push(c),
        }
    }
    text
}

/// `\u{1b}`, whose backslash is itself escaped in a label.
fn push_escaped(text: &mut String, c: char) {
    text.push('\\');
    text.extend(c.escape_unicode());
}

fn seconds(ns: u128) -> f64 {
    ns as f64 / 1e9
}

/// Labels of a row; that of a whole request has no phase.
fn labels(key: &Key) -> Vec<(&str, &str)> {
    [("request", &*key.request), ("phase", &*key.phase)]
        .into_iter()
        .filter(|(_, name)| !name.is_empty())
        .collect()
}

fn durations(text: &mut String, metrics: &Metrics) {
    let help = "Durations of requests, and of phases in them.";
    head(text, "phase_duration_seconds", "histogram", help);
    for (key, row) in metrics.rows() {
        let labels = labels(key);
        for power in POWERS {
            let le = format!("{}", seconds(1 << power));
            let with = [&labels[..], &[("le", &*le)]].concat();
            line(text, "phase_duration_seconds_bucket", &with, row.durations.up_to(power) as f64);
            exemplar(text, row.exemplar(power));
        }
        let with = [&labels[..], &[("le", "+Inf")]].concat();
        let count = row.durations.count() as f64;
        line(text, "phase_duration_seconds_bucket", &with, count);
        exemplar(text, row.beyond());
        line(text, "phase_duration_seconds_count", &labels, count);
        text.push('\n');
        line(text, "phase_duration_seconds_sum", &labels, seconds(row.durations.sum_ns()));
        text.push('\n');
    }
}

fn exemplar(text: &mut String, exemplar: Option<&Exemplar>) {
    if let Some(Exemplar { trace_id, duration_ns, ended_ns }) = exemplar {
        let trace_id = u128::from_be_bytes(*trace_id);
        let (value, at) = (seconds((*duration_ns).into()), *ended_ns as f64 / 1e9);
        let _ = write!(text, " # {{trace_id=\"{trace_id:032x}\"}} {value} {at:.3}");
    }
    text.push('\n');
}

fn times(text: &mut String, metrics: &Metrics) {
    let help = "Where the time of requests and phases went; a phase has the time of those in it.";
    head(text, "phase_time_seconds", "counter", help);
    let each = |text: &mut String, (key, row): (&Key, &Row)| {
        let used = row.time().filter(|(_, ns)| *ns > 0);
        for (cause, ns) in used.collect::<Vec<(Cause, u128)>>() {
            let with = [&labels(key)[..], &[("account", cause.name())]].concat();
            line(text, "phase_time_seconds_total", &with, seconds(ns));
            text.push('\n');
        }
    };
    metrics.rows().for_each(|row| each(text, row));
}

fn slow(text: &mut String, metrics: &Metrics) {
    let help =
        "Requests slower than a quantile of those before them, by the largest part of what they took longer.";
    head(text, "requests_slow", "counter", help);
    for (key, row) in metrics.rows() {
        for ((tail, cause), count) in &row.slow {
            let with = [&labels(key)[..], &[("beyond", *tail), ("cause", *cause)]].concat();
            line(text, "requests_slow_total", &with, *count as f64);
            text.push('\n');
        }
    }
}
