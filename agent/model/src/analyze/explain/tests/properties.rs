//! Invariants of any explanation: everything adds up, and the order of reading changes nothing.

use guestscope_contract::Account;
use proptest::prelude::*;

use super::{
    super::{
        super::{
            OUTSIDE,
            samples::{Sample, Step},
        },
        Wanted,
    },
    explain,
};
use crate::phase::{Phase, Request};

fn any_request(number: u64) -> impl Strategy<Value = Request> {
    let names = prop_oneof![Just("a"), Just("b"), Just("c")];
    let spend = (0..guestscope_contract::ACCOUNTS, 0u64..20_000_000)
        .prop_map(|(account, ns)| Step::Spend(Account::ALL[account], ns));
    let leaf = prop_oneof![
        spend,
        (0u64..9_000_000).prop_map(Step::Suspend),
        (0usize..4, 0u64..20_000_000).prop_map(|(kept, ns)| Step::Kept(kept, ns)),
    ];
    let step = leaf.prop_recursive(2, 8, 4, move |inner| {
        (names.clone(), prop::collection::vec(inner, 0..4)).prop_map(|(name, steps)| Step::Nest(name, steps))
    });
    (prop::collection::vec(step, 0..4), 0u64..5_000_000, 0u64..40, 0u64..3_000_000).prop_map(
        move |(steps, queued_ns, samples, beside_ns)| {
            let sample =
                Sample { queued_ns, ..Sample::new(number, number * 1_000_000_000 + 10_000_000, steps) };
            let mut request = sample.build();
            let change = |phase: &mut Phase| {
                phase.counts.sample_fault = samples;
                phase.counts.steal_ns = beside_ns;
                phase.pause_ns = beside_ns / 2;
            };
            request.phases.iter_mut().for_each(change);
            request
        },
    )
}

fn any_requests() -> impl Strategy<Value = Vec<Request>> {
    (1u64..130).prop_flat_map(|count| (0..count).map(any_request).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_adds_up_whatever_happened(requests in any_requests()) {
        let explanation = explain(&requests, Wanted::Slowest(10));
        let group = &explanation.summary.groups[0];
        let explained = &explanation.groups[0];
        prop_assert_eq!(explained.cases.len(), group.slowest.len());
        for case in &explained.cases {
            prop_assert_eq!(case.latency_ns as i64 - group.typical_ns as i64, case.excess_ns);
            prop_assert_eq!(case.phases.iter().map(|phase| phase.excess_ns).sum::<i64>(), case.excess_ns);
            for phase in &case.phases {
                prop_assert_eq!(phase.parts.iter().map(|part| part.excess_ns).sum::<i64>(), phase.excess_ns);
                prop_assert!(phase.path.iter().all(|name| !name.is_empty()) && !phase.path.is_empty());
                prop_assert!(phase.path[0] != OUTSIDE || phase.path.len() == 1);
            }
        }
        for tail in &explained.tails {
            let latency = |request: &Request| super::super::super::tree::latency_ns(request);
            let slow: Vec<u64> = requests.iter().map(latency).filter(|&ns| ns > tail.above_ns).collect();
            prop_assert_eq!(tail.requests, slow.len() as u64);
            let excess: i128 = slow.iter().map(|&ns| i128::from(ns) - i128::from(group.typical_ns)).sum();
            prop_assert_eq!(tail.excess_ns, excess);
            prop_assert_eq!(tail.causes.iter().map(|one| one.excess_ns).sum::<i128>(), excess);
            prop_assert_eq!(tail.parts.iter().map(|one| one.excess_ns).sum::<i128>(), excess);
            let shares: f64 = tail.causes.iter().map(|one| one.share).sum();
            prop_assert!(excess == 0 || (shares - 1.0).abs() < 1e-6, "{}", shares);
            prop_assert!(tail.causes.iter().map(|one| one.requests).sum::<u64>() <= tail.requests);
        }
    }

    #[test]
    fn the_order_of_reading_changes_nothing(requests in any_requests(), seed in any::<u64>()) {
        let mut shuffled = requests.clone();
        // Fisher-Yates with a linear congruence.
        let mut state = seed | 1;
        for index in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            shuffled.swap(index, (state >> 33) as usize % (index + 1));
        }
        let (one, other) = (explain(&requests, Wanted::Slowest(5)), explain(&shuffled, Wanted::Slowest(5)));
        prop_assert_eq!(one.groups, other.groups);
    }
}
