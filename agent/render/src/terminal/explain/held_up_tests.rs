//! What is said of suspended phases: what had their thread meanwhile, or that it was free.

use guestscope_contract::Account;
use insta::assert_snapshot;

use super::{
    super::tests::fixtures::NARROW,
    tests::{explained, facts},
    *,
};
use crate::{
    analyze::{
        explain::Wanted,
        samples::{Sample, Step},
    },
    phase::{Holder, Request},
};

/// 100 requests that fetch for 30 ms; the last ten for 150 ms more.
fn requests(hold: impl Fn(&mut Request)) -> Vec<Request> {
    let request = |number: u64| {
        let slow = number > 90;
        let fetch = if slow { 180_000_000 } else { 30_000_000 };
        let steps =
            vec![Step::Spend(Account::Cpu, 1_000_000), Step::Nest("fetch", vec![Step::Suspend(fetch)])];
        let mut request = Sample::new(number, number * 200_000_000, steps).build();
        if slow {
            hold(&mut request);
        }
        request
    };
    (1..=100).map(request).collect()
}

fn text(requests: &[Request]) -> String {
    render_explanation(&explained(requests, Vec::new(), Wanted::Slowest(1)), &facts(), NARROW)
}

#[test]
fn another_request_had_the_thread() {
    let made = requests(|request| {
        request.phases.iter_mut().for_each(|phase| phase.counts.suspended_held_ns = 151_000_000);
        let holder = Holder { request: 7, phase: Some("rerank".into()), ns: 148_000_000 };
        request.phases[1].holder = Some(Box::new(holder));
    });
    assert_snapshot!(text(&made));
}

#[test]
fn the_thread_was_free() {
    let text = text(&requests(|_| {})).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("see what it awaited"), "{text}");
    assert!(!text.contains("was taken"), "{text}");
}
