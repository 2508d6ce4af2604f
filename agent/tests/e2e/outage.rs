//! A collector that goes away under load and comes back: every span arrives.

use guestscope::sinks::otlp::SPILL_FILE;

use crate::{
    counting::Collector,
    ground::{Ground, eventually},
};

const REQUESTS: u64 = 4_000;

/// The collector is killed during some thousand requests a second, and restarted on the same port.
#[test]
fn what_came_while_the_collector_was_away_arrives() {
    let Some(ground) = Ground::new("outage::what_came_while_the_collector_was_away_arrives") else { return };
    let mut collector = Collector::start().expect("a port is free");
    // Waits are spans, too, and their number depends on the machine.
    let start = ground.run().words(&["--otlp", &collector.endpoint(), "--wait-threshold", "off"]);
    let start = start.program(crate::ground::subject());
    let run = start.words(&["requests", &REQUESTS.to_string(), "0", "500"]).spawn();
    let done = |requests: usize| (ground.book().lines().count() > requests).then_some(());
    eventually("it takes some", || (collector.counts().first > 0).then_some(()));
    collector.away();
    eventually("more than half of the requests", || done(REQUESTS as usize / 2));
    collector.back().expect("its port is still free");
    let done = run.finish().expect(0);
    let (spans, export) = (3 * REQUESTS, &done.summary()["export"]);
    assert_eq!((export["spans_sent"].as_u64(), done.losses()), (Some(spans), vec![]), "{export}");
    let counts = collector.counts();
    assert_eq!(counts.first, spans, "each arrived, {} of them twice", counts.again);
    assert!(!done.seen().path.join(SPILL_FILE).exists(), "nothing is left to keep");
}

/// The collector stays away: every span is in the folder, and the manifest says so.
#[test]
fn what_nobody_took_lies_in_the_folder() {
    let Some(ground) = Ground::new("outage::what_nobody_took_lies_in_the_folder") else { return };
    let mut collector = Collector::start().expect("a port is free");
    let endpoint = collector.endpoint();
    let start = ground.run().words(&["--otlp", &endpoint, "--wait-threshold", "off"]);
    let run = start.program(crate::ground::subject()).words(&["requests", "4000", "0", "500"]).spawn();
    eventually("it takes some", || (collector.counts().first > 0).then_some(()));
    collector.away();
    let done = run.finish().expect(0);
    let export = &done.seen().manifest.health.export;
    assert_eq!(export.spans_sent + export.spans_spilled, 3 * REQUESTS, "{export:?}");
    assert_eq!(export.spans_dropped, 0, "{export:?}");
    assert!(export.spans_spilled > 0, "{export:?}");
}
