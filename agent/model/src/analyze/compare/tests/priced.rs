//! Number and price of what a cause is made of, and when there are none.

use guestscope_contract::Account;
use rstest::rstest;

use super::*;
use crate::analyze::{
    Cause, Overlay,
    compare::{causes::OfCause, counts::cost, welch::Interval},
};

/// Requests of both sides.
const MANY: [u64; 2] = [1_000, 1_000];

/// One fault in ten requests and a sample by chance, against 40,000 faults: more of them, at their own price.
#[test]
fn what_hardly_happens_has_no_price() {
    let of = |baseline_ns: f64, difference_ns: f64| OfCause {
        cause: Cause::Overlay(Overlay::Fault),
        baseline_ns,
        difference_ns: Interval { value: difference_ns, low: None, high: None },
    };
    let change = |baseline: f64, value: f64| {
        let difference = Interval { value: value - baseline, low: None, high: None };
        [CountChange { metric: crate::phase::Metric::FaultMinor, baseline, value, difference }]
    };
    let more = cost(&of(265e3, 135e6), &change(0.1, 40_000.0), MANY).unwrap();
    near(more.each_ns, 135.265e6 / 40_000.0);
    near(more.by_number_ns, 135.265e6 / 40_000.0 * 39_999.9);
    near(more.by_price_ns, 0.1 * (135.265e6 / 40_000.0 - 2.65e6));
    let fewer = cost(&of(135.265e6, -135e6), &change(40_000.0, 0.1), MANY).unwrap();
    near(fewer.by_number_ns, -more.by_number_ns);
    near(fewer.by_price_ns, -more.by_price_ns);
    let none = cost(&of(0.0, 135e6), &change(0.0, 40_000.0), MANY).unwrap();
    assert_eq!((none.by_number_ns, none.by_price_ns), (135e6, 0.0));
    // A thousand are enough for a price, however many there are on the other side.
    let many = cost(&of(10e6, 90e6), &change(1_000.0, 200_000.0), MANY).unwrap();
    near(many.by_number_ns, 199_000.0 * f64::midpoint(10_000.0, 500.0));
    let dearer = cost(&of(1e6, 39e6), &change(1_000.0, 10_000.0), MANY).unwrap();
    near(dearer.by_number_ns, 9_000.0 * 2_500.0);
    near(dearer.by_price_ns, 3_000.0 * 5_500.0);
}

/// Ten events are a price, nine are chance; and a difference that may be none has neither number nor price.
#[rstest]
#[case::ten(0.1, [100, 100], None, true)]
#[case::nine(0.1, [90, 100], None, false)]
#[case::few_on_the_other_side(0.1, [100, 0], None, false)]
#[case::sure(4.0, [100, 100], Some((1e6, 3e6)), true)]
#[case::perhaps_none(4.0, [100, 100], Some((-1e6, 5e6)), false)]
fn number_and_price_need_events_and_a_difference(
    #[case] baseline: f64,
    #[case] requests: [u64; 2],
    #[case] interval: Option<(f64, f64)>,
    #[case] expected: bool,
) {
    let of = |value: f64, ends: Option<(f64, f64)>| Interval {
        value,
        low: ends.map(|ends| ends.0),
        high: ends.map(|ends| ends.1),
    };
    let cause = Cause::Account(Account::Runq);
    let of_cause = OfCause { cause, baseline_ns: 1e6, difference_ns: of(2e6, interval) };
    let metric = crate::phase::Metric::Wakeup;
    let change = CountChange { metric, baseline, value: 8.0, difference: of(8.0 - baseline, None) };
    assert_eq!(cost(&of_cause, &[change], requests).is_some(), expected);
}
