//! What the metrics of a resident agent say of itself, beside those of requests.

use super::shared::{Shared, Status};
use crate::sinks::metrics::{Kind, Metrics, Number};

/// Metrics and numbers as they are now: a copy, since the thread that counts waits for it.
pub(super) fn now(shared: &Shared) -> (Metrics, Vec<Number>) {
    let metrics = shared.metrics().clone();
    let status = shared.status().clone();
    (metrics, numbers(&status))
}

/// Numbers of this state; those of one name are beside each other.
fn numbers(status: &Status) -> Vec<Number> {
    let plain = |name, help, kind, value| Number { name, help, kind, labels: Vec::new(), value };
    let of = |outcome: &str, count: u64| Number {
        name: "incidents",
        help: "Incidents by outcome: kept, counted as alike, beyond the limit per hour, or failed.",
        kind: Kind::Counter,
        labels: vec![("outcome", outcome.to_owned())],
        value: count as f64,
    };
    let about = [
        ("version", &status.version),
        ("service", &status.name),
        ("scenario", &status.scenario),
        ("fidelity", &status.fidelity),
    ];
    let labels = about.map(|(key, value)| (key, value.clone())).to_vec();
    let lost = status.losses.iter().map(|(what, count)| Number {
        name: "losses",
        help: "What was lost or not seen, by what it is.",
        kind: Kind::Counter,
        labels: vec![("what", what.clone())],
        value: *count as f64,
    });
    let own = [
        of("kept", status.incidents),
        of("alike", status.incidents_alike),
        of("too_many", status.incidents_too_many),
        of("failed", status.incidents_failed),
        plain("processes", "Observed processes.", Kind::Gauge, status.processes as f64),
        plain(
            "requests_open",
            "Requests that are open for more than a second.",
            Kind::Gauge,
            status.open as f64,
        ),
        plain("recorder_bytes", "Flight recorder on disk.", Kind::Gauge, status.recorder_bytes as f64),
        plain(
            "rows_lost",
            "Rows of the flight recorder that were not written.",
            Kind::Counter,
            status.rows_lost as f64,
        ),
        plain("agent_cpu_seconds", "CPU time of the agent.", Kind::Counter, status.cpu_ns as f64 / 1e9),
        plain("agent_resident_memory_bytes", "Memory of the agent.", Kind::Gauge, status.rss_bytes as f64),
        Number { name: "agent", help: "The agent and its guest.", kind: Kind::Info, labels, value: 1.0 },
    ];
    own.into_iter().chain(left_out(status)).chain(lost).collect()
}

/// What the agent leaves out to keep to its share of CPU time.
fn left_out(status: &Status) -> [Number; 3] {
    let plain = |name, help, kind, value| Number { name, help, kind, labels: Vec::new(), value };
    [
        plain(
            "requests_unseen",
            "Requests that were not looked at, so that the agent keeps to its share of CPU time.",
            Kind::Counter,
            status.requests_unseen as f64,
        ),
        plain(
            "requests_seen_ratio",
            "Part of the requests that are looked at: less than 1 to keep to its share of CPU time.",
            Kind::Gauge,
            status.seen_part,
        ),
        plain(
            "requests_kept_ratio",
            "Part of the requests looked at whose rows are kept, for the same reason.",
            Kind::Gauge,
            status.kept_part,
        ),
    ]
}
