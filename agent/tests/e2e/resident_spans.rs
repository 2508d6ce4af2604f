//! Traces of an agent that stays, and a collector that is away.

use nix::sys::signal::Signal;

use crate::{
    ground::eventually,
    resident_metrics::free_port,
    running::Running,
    watching::{Resident, answer_all, taker},
};

/// Nothing is noticed: all requests are sent.
const TRIGGER: &str = "[[triggers]]\nslower_than = '1h'\n";

/// An agent that sends spans to this port, once it watches.
fn watch(resident: &Resident, port: u16) -> Running {
    resident.configure("*spikes*", &format!("{TRIGGER}[observe]\notlp = 'http://127.0.0.1:{port}'\n"));
    let start = resident.agent("agent", &[]);
    let agent = start.environment("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf").spawn();
    eventually("it watches", || resident.said("agent").contains("watching: ").then_some(()));
    agent
}

#[test]
fn spans_wait_for_a_collector_and_then_reach_it() {
    const NAME: &str = "resident_spans::spans_wait_for_a_collector_and_then_reach_it";
    let Some(resident) = Resident::new(NAME) else { return };
    let port = free_port();
    let agent = watch(&resident, port);
    let program = resident.program("book");
    let said = |what: &str| resident.said("agent").contains(what).then_some(());
    eventually("it is told", || said("warning: spans are not taken: "));
    let number = |key: &str| resident.ctl("status")[key].as_u64().unwrap_or(0);
    eventually("they wait", || (number("spans_waiting") > 50).then_some(()));
    assert_eq!(number("spans_sent"), 0);
    taker(port);
    eventually("it is told", || said("spans are taken again"));
    eventually("they are sent", || (number("spans_sent") > 50).then_some(()));
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
    assert!(!resident.said("agent").contains("never reached"), "{}", resident.said("agent"));
}

#[test]
fn spans_that_never_reach_a_collector_are_counted() {
    const NAME: &str = "resident_spans::spans_that_never_reach_a_collector_are_counted";
    let Some(resident) = Resident::new(NAME) else { return };
    let agent = watch(&resident, free_port());
    let program = resident.program("book");
    let waiting = || resident.ctl("status")["spans_waiting"].as_u64().filter(|count| *count > 50);
    let waited = eventually("they wait", waiting);
    drop(program);
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    let said = resident.said("agent");
    let lost = said
        .lines()
        .find_map(|line| line.strip_prefix("warning: ")?.strip_suffix(" spans never reached the collector"));
    let lost: u64 =
        lost.and_then(|count| count.replace(',', "").parse().ok()).unwrap_or_else(|| panic!("{said}"));
    assert!(lost >= waited, "{lost} {waited}");
}

#[test]
fn spans_that_a_collector_refuses_are_told_at_once() {
    const NAME: &str = "resident_spans::spans_that_a_collector_refuses_are_told_at_once";
    let Some(resident) = Resident::new(NAME) else { return };
    let port = free_port();
    answer_all(port, "400 Bad Request");
    let agent = watch(&resident, port);
    let program = resident.program("book");
    let said = |what: &str| resident.said("agent").contains(what).then_some(());
    eventually("it is told", || said("spans are lost: "));
    let status = resident.ctl("status");
    assert!(status["spans_lost"].as_u64().is_some_and(|lost| lost > 0), "{status}");
    assert!(
        status["last_error"].as_str().is_some_and(|error| error.starts_with("spans are lost: ")),
        "{status}"
    );
    agent.signal(Signal::SIGTERM);
    agent.finish().expect(0);
    drop(program);
}
