//! Metrics of requests whose numbers are known.

use super::*;
use crate::analyze::samples;

/// The requests of the samples, with the nine slowest judged.
fn metrics() -> (Metrics, Vec<Request>) {
    let requests = samples::inference(100);
    let mut metrics = Metrics::default();
    for request in &requests {
        metrics.observe(request, None, 1_000_000_000);
    }
    (metrics, requests)
}

#[test]
fn counts_and_sums_are_those_of_the_rows() {
    let (metrics, requests) = metrics();
    let counted: Vec<&Phase> = requests
        .iter()
        .filter(|one| !one.is_warmup() && one.root().ending == Ending::Ended)
        .flat_map(|one| &one.phases)
        .collect();
    let count: u64 = metrics.rows().map(|(_, row)| row.durations.count()).sum();
    assert_eq!(count, counted.len() as u64);
    let time: u128 = metrics.rows().flat_map(|(_, row)| row.time()).map(|(_, ns)| ns).sum();
    assert_eq!(time, counted.iter().map(|phase| u128::from(phase.duration_ns)).sum::<u128>());
    assert_eq!(metrics.others, 0);
}

#[test]
fn names_are_bounded() {
    let request = samples::inference(1).remove(0);
    let mut metrics = Metrics::default();
    let verdict = TailVerdict { cause: None, tail: Some(Band::P99) };
    for number in 0..2 * MOST {
        let mut request = request.clone();
        request.phases[0].name = format!("request {number}").into();
        metrics.observe(&request, Some(&verdict), 0);
    }
    let phases = request.phases.len() as u64 * 2 * MOST as u64;
    assert_eq!(metrics.rows().map(|(_, row)| row.durations.count()).sum::<u64>(), phases);
    assert!(metrics.rows().count() <= MOST + 2);
    let others = metrics.rows().filter(|(key, _)| key.request == OTHER_REQUESTS);
    assert_eq!(others.map(|(_, row)| row.durations.count()).sum::<u64>(), metrics.others, "each once");
    assert!(metrics.others > 0);
}

#[test]
fn the_text_is_open_metrics() {
    let mut request = samples::inference(1).remove(0);
    request.phases[0].name = "GET \"/\\chat\"\u{1b}".into();
    let mut metrics = Metrics::default();
    let verdict = TailVerdict {
        cause: Some(Cause::Account(guestscope_contract::Account::Lock)),
        tail: Some(Band::P99),
    };
    metrics.observe(&request, Some(&verdict), 0);
    let numbers = [Number {
        name: "agent_resident_memory_bytes",
        help: "Memory of the agent.",
        kind: Kind::Gauge,
        labels: Vec::new(),
        value: 27e6,
    }];
    insta::assert_snapshot!(text(&metrics, &numbers));
}

/// A program may give its phases any names.
#[test]
fn two_names_are_never_one_series() {
    let mut metrics = Metrics::default();
    for name in ["a\u{1}", "a\u{2}", "a\\u{1}", "a\n", "a\\n", "a\"", "a\\\"", "a\u{202e}", "a\u{fffd}"] {
        let mut request = samples::inference(1).remove(0);
        request.phases.truncate(1);
        request.phases[0].name = name.into();
        metrics.observe(&request, None, 0);
    }
    let text = text(&metrics, &[]);
    let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once("} "));
    let series: Vec<&str> = samples.map(|(series, _)| series).collect();
    let different: std::collections::HashSet<&&str> = series.iter().collect();
    assert_eq!(different.len(), series.len());
}

#[test]
fn what_came_since_and_what_was_before_is_all() {
    let requests = samples::inference(40);
    let mut metrics = Metrics::default();
    requests[..20].iter().for_each(|request| metrics.observe(request, None, 0));
    let before = metrics.clone();
    requests[20..].iter().for_each(|request| metrics.observe(request, None, 0));
    let since = metrics.since(&before);
    let sums = |metrics: &Metrics| {
        let count: u64 = metrics.rows().map(|(_, row)| row.durations.count()).sum();
        let time: u128 = metrics.rows().flat_map(|(_, row)| row.time()).map(|(_, ns)| ns).sum();
        (count, time)
    };
    let (all, before, since) = (sums(&metrics), sums(&before), sums(&since));
    assert_eq!(all, (before.0 + since.0, before.1 + since.1));
    assert!(since.0 > 0);
}
