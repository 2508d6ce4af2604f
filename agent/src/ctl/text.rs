//! The answers of a resident agent as text.

use crate::{
    sinks::terminal::units::{bytes, counted, duration, percent},
    untrusted::Untrusted,
    watch::shared::{Listed, Status},
};

/// How the agent fares.
pub(super) fn status(status: &Status) -> String {
    let Status { processes, requests, requests_per_s, open, segments, recorder_bytes, .. } = status;
    let Status { incidents, incidents_alike, incidents_too_many, incidents_failed, .. } = status;
    let mut lines = vec![
        format!(
            "{} {}  fidelity {}  since {}",
            Untrusted::from(&*status.name),
            Untrusted::from(&*status.scenario),
            Untrusted::from(&*status.fidelity),
            seconds(&status.since)
        ),
        row("programs", &format!("{} observed", counted(*processes, "process", "processes"))),
        row(
            "requests",
            &format!("{requests} so far, {requests_per_s:.1}/s, {open} open for more than a second"),
        ),
        row(
            "recorder",
            &format!("{}, {}", counted(*segments, "segment", "segments"), bytes(*recorder_bytes)),
        ),
        row(
            "incidents",
            &format!(
                "{incidents} kept, {incidents_alike} alike counted, {incidents_too_many} beyond the limit, \
                 {incidents_failed} failed"
            ),
        ),
        row(
            "agent",
            &format!(
                "{} of one CPU, {}; {} lost",
                percent(status.cpu),
                bytes(status.rss_bytes),
                counted(status.rows_lost, "row", "rows")
            ),
        ),
    ];
    lines.extend(parts(status));
    if status.spans_sent + status.spans_waiting + status.spans_lost > 0 {
        let (sent, waiting, lost) = (status.spans_sent, status.spans_waiting, status.spans_lost);
        lines.push(row("spans", &format!("{sent} sent, {waiting} waiting, {lost} lost")));
    }
    if !status.losses.is_empty() {
        let lost: Vec<String> = status.losses.iter().map(|(what, count)| format!("{what} {count}")).collect();
        lines.push(row("not seen", &Untrusted::from(lost.join(", ")).to_string()));
    }
    if !status.last_error.is_empty() {
        lines.push(row("last error", &Untrusted::from(&*status.last_error).to_string()));
    }
    lines.join("\n") + "\n"
}

/// The parts of the requests that it looks at and keeps, where these are not all.
fn parts(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    if (f64::MIN_POSITIVE..1.0).contains(&status.seen_part) || status.requests_unseen > 0 {
        let part = match (1.0 / status.seen_part.max(f64::MIN_POSITIVE)).round() {
            1.0 => "all requests".to_owned(),
            of => format!("1 of {of} requests: else the agent takes too much"),
        };
        let unseen = counted(status.requests_unseen, "was", "were");
        lines.push(row("looks at", &format!("{part}; so far {unseen} not looked at")));
    }
    if (f64::MIN_POSITIVE..1.0).contains(&status.kept_part) {
        let of = (1.0 / status.kept_part).round();
        lines.push(row(
            "kept",
            &format!("1 of {of} requests, and those that are noticed: else the agent takes too much"),
        ));
    }
    lines
}

fn row(name: &str, text: &str) -> String {
    format!("{name:<12}{text}")
}

/// Incidents, two lines each.
pub(super) fn incidents(incidents: &[Listed]) -> String {
    if incidents.is_empty() {
        return "no incident so far\n".to_owned();
    }
    incidents.iter().map(incident).collect()
}

fn incident(incident: &Listed) -> String {
    let Listed { at, trigger, request, duration_ns, typical_ns, cause, folder, error, alike, .. } = incident;
    let mut what = Vec::new();
    if !request.is_empty() {
        let typical = typical_ns.map(|ns| format!("typical {}", duration(ns)));
        let typical = typical.map_or_else(String::new, |text| format!(" ({text})"));
        what.push(format!("{} took {}{typical}", Untrusted::from(&**request), duration(*duration_ns)));
    }
    if !cause.is_empty() {
        what.push(format!("most of it {}", Untrusted::from(&**cause)));
    }
    what.push(Untrusted::from(&**trigger).to_string());
    let place = match (&**folder, &**error) {
        ("", "") => "being made".to_owned(),
        ("", error) => format!("not kept: {}", Untrusted::from(error)),
        (folder, _) => Untrusted::from(folder).to_string(),
    };
    let alike = if *alike > 0 { format!(" (+{alike} alike)") } else { String::new() };
    format!("{}  {}\n  {place}{alike}\n", seconds(at), what.join("; "))
}

/// A time of RFC 3339 to the second, with its zone: that of the agent's times is UTC.
fn seconds(time: &str) -> String {
    let whole = time.split('.').next().unwrap_or_default();
    let zone = if whole != time && time.ends_with('Z') { "Z" } else { "" };
    Untrusted::from(format!("{whole}{zone}")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_as_text() {
        let state = Status {
            name: "guest".to_owned(),
            scenario: "MVM/2/VNL/CPU".to_owned(),
            fidelity: "full".to_owned(),
            since: "2026-11-29T06:00:00.123456789Z".to_owned(),
            processes: 3,
            requests: 12_345,
            requests_per_s: 118.04,
            open: 1,
            segments: 30,
            recorder_bytes: 41 << 20,
            incidents: 2,
            incidents_alike: 5,
            cpu: 0.0123,
            rss_bytes: 27 << 20,
            ..Status::default()
        };
        insta::assert_snapshot!(status(&state));
        let slow = Listed {
            number: 1,
            at: "2026-11-29T06:04:05.5Z".to_owned(),
            trigger: "request: slower than 500ms".to_owned(),
            request: "POST /chat\u{1b}[2J".to_owned(),
            duration_ns: 2_310_000_000,
            typical_ns: Some(412_000_000),
            cause: "throttled".to_owned(),
            folder: "/var/lib/guestscope/incidents/2026-11-29T06-03-45-MVM-2-VNL-CPU-POST-chat".to_owned(),
            alike: 3,
            ..Listed::default()
        };
        let asked =
            Listed { number: 2, trigger: "asked for".to_owned(), at: slow.at.clone(), ..Listed::default() };
        insta::assert_snapshot!(incidents(&[asked, slow]));
        assert_eq!(incidents(&[]), "no incident so far\n");
    }
}
