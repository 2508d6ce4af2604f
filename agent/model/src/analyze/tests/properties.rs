//! Random requests, which nest phases, repeat names, wait in queues, are suspended, and damaged ones.
//!
//! Sums are exact whatever comes; quantiles are compared with sorted values.

use guestscope_contract::Account;
use proptest::{collection::vec, prelude::*, sample::select};

use super::summary_of;
use crate::{
    analyze::{
        Band, Live, SLOWEST, Summary, TailVerdict,
        quantiles::Durations,
        samples::{Sample, Step},
        split::Split,
        tally::request_split,
        tree::{Leaves, Tree, latency_ns},
        typical::exact_means,
    },
    phase::Request,
};

fn steps(depth: u32) -> BoxedStrategy<Vec<Step>> {
    let spend =
        (select(Account::ALL.to_vec()), 0u64..50_000_000).prop_map(|(account, ns)| Step::Spend(account, ns));
    let suspend = (0u64..5_000_000).prop_map(Step::Suspend);
    if depth == 0 {
        return vec(prop_oneof![3 => spend, 1 => suspend], 0..4).boxed();
    }
    let nest =
        (select(vec!["a", "b", "c"]), steps(depth - 1)).prop_map(|(name, inner)| Step::Nest(name, inner));
    vec(prop_oneof![3 => spend, 1 => suspend, 3 => nest], 0..5).boxed()
}

prop_compose! {
    fn samples(most: usize)(
        list in vec((select(vec!["request", "other"]), 0u64..1_000, prop_oneof![Just(0u64), 1u64..9_000_000], steps(2)), 1..most)
    ) -> Vec<Request> {
        let mut start_ns = 10_000_000;
        list.into_iter().enumerate().map(|(number, (name, gap, queued_ns, steps))| {
            start_ns += gap;
            Sample { name, number: number as u64 + 1, start_ns, queued_ns, steps }.build()
        }).collect()
    }
}

/// Breaks every promise that a folder may break.
fn damage(requests: &mut [Request], noise: &[(usize, u64)]) {
    for (index, &(at, value)) in noise.iter().enumerate() {
        let count = requests.len();
        let request = &mut requests[at % count];
        let phases = request.phases.len();
        let phase = &mut request.phases[at / 7 % phases];
        match index % 6 {
            0 => phase.duration_ns = value,
            1 => phase.accounts.0[at % 11] = value,
            2 => phase.parent = Some(value % 1_000_000),
            3 => phase.start_ns = value,
            4 => phase.suspended_ns = value,
            _ => phase.id = value % 3,
        }
    }
}

/// Everything that a summary says, and nothing of how it got there.
fn said(summary: &Summary, requests: &[Request]) -> String {
    let mut by_id: Vec<(u64, Vec<TailVerdict>)> =
        requests.iter().map(|request| (request.root().id, summary.verdicts(request))).collect();
    by_id.sort_by_key(|(id, _)| *id);
    format!("{:?} {:?} {:?} {by_id:?}", summary.groups, summary.left_out, summary.processes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_parts_of_a_request_add_up_to_its_latency(requests in samples(6)) {
        for request in &requests {
            let located = Tree::new(&request.root().name).learn(request, &mut 64);
            let leaves = Leaves::of(request, &located);
            let mut whole = Split::default();
            for (_, own) in &leaves.own {
                whole.add(own);
            }
            prop_assert_eq!(whole.total_ns(), u128::from(latency_ns(request)));
            prop_assert_eq!(whole, request_split(request));
            prop_assert_eq!(leaves.overlapping_ns, 0);
        }
    }

    #[test]
    fn the_excess_of_a_slow_request_is_the_sum_of_its_parts(requests in samples(40)) {
        let summary = summary_of(&requests);
        let mut seen = 0;
        for group in &summary.groups {
            seen += group.latency.count;
            prop_assert_eq!(group.sums.total_ns(), group.latency.sum_ns);
            for slow in &group.slowest {
                let parts: i64 = slow.parts.iter().map(|part| part.excess_ns).sum();
                prop_assert_eq!(parts, slow.excess_ns);
                prop_assert_eq!(group.typical_ns as i64 + slow.excess_ns, slow.latency_ns as i64);
            }
            prop_assert!(group.slowest.is_sorted_by_key(|slow| std::cmp::Reverse(slow.latency_ns)));
            let mut all: Vec<&Request> = requests.iter().filter(|one| one.root().name == group.name).collect();
            all.sort_by_key(|one| (std::cmp::Reverse(latency_ns(one)), one.root().start_ns, one.root().id));
            let slowest: Vec<u64> = all.iter().take(SLOWEST).map(|one| one.root().id).collect();
            prop_assert_eq!(group.slowest.iter().map(|slow| slow.id).collect::<Vec<_>>(), slowest);
            let shares: f64 = group.rows.iter().filter(|row| row.depth == 0).map(|row| row.share).sum();
            prop_assert!(group.latency.sum_ns == 0 || (shares - 1.0).abs() < 1e-9, "{}", shares);
            for row in &group.rows {
                prop_assert_eq!(row.sums.total_ns(), row.duration.sum_ns);
            }
        }
        prop_assert_eq!(seen, requests.len() as u64);
    }

    #[test]
    fn the_order_of_requests_does_not_matter(requests in samples(40), seed in any::<u64>()) {
        let mut shuffled = requests.clone();
        let mut state = seed | 1;
        for index in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            shuffled.swap(index, (state >> 33) as usize % (index + 1));
        }
        prop_assert_eq!(said(&summary_of(&requests), &requests), said(&summary_of(&shuffled), &requests));
    }

    #[test]
    fn damaged_rows_are_survived_and_all_requests_are_accounted_for(
        mut requests in samples(12),
        noise in vec((any::<usize>(), prop_oneof![any::<u64>(), 0u64..100_000_000]), 0..40),
    ) {
        damage(&mut requests, &noise);
        let summary = summary_of(&requests);
        prop_assert_eq!(summary.requests() + summary.left_out.damaged, requests.len() as u64);
        let mut live = Live::new();
        for request in &requests {
            live.observe(request);
            prop_assert_eq!(summary.verdicts(request).len(), request.phases.len());
        }
        for group in &summary.groups {
            for slow in &group.slowest {
                prop_assert_eq!(slow.parts.iter().map(|part| part.excess_ns).sum::<i64>(), slow.excess_ns);
            }
        }
    }

    #[test]
    fn quantiles_lie_within_a_thousandth_of_the_exact_ones(mut values in vec(0u64..100_000_000_000, 1..1500)) {
        let mut durations = Durations::default();
        for &value in &values {
            durations.record(value);
        }
        values.sort_unstable();
        let exact = |q: f64| values[(q * values.len() as f64).ceil().max(1.0) as usize - 1];
        let found = durations.quantiles();
        prop_assert_eq!((found.min_ns, found.max_ns), (values[0], values[values.len() - 1]));
        prop_assert_eq!(found.sum_ns, values.iter().map(|&value| u128::from(value)).sum::<u128>());
        let pairs = [(0.5, Some(found.p50_ns)), (0.9, found.p90_ns), (0.99, found.p99_ns), (0.999, found.p999_ns)];
        for ((q, quantile), needed) in pairs.into_iter().zip([1, 10, 100, 1000]) {
            prop_assert_eq!(quantile.is_some(), values.len() >= needed);
            if let Some(quantile) = quantile {
                prop_assert!(quantile.abs_diff(exact(q)) <= exact(q) / 1000 + 1, "{} {} {}", q, quantile, exact(q));
            }
        }
    }

    #[test]
    fn rounded_means_add_up(sums in vec(0u64..u64::MAX, 1..40), count in 1u64..1_000_000) {
        let sums: Vec<u128> = sums.into_iter().map(u128::from).collect();
        let means = exact_means(&sums, count);
        let whole: u128 = means.iter().map(|&mean| u128::from(mean)).sum();
        prop_assert_eq!(whole, sums.iter().sum::<u128>() / u128::from(count));
        for (mean, sum) in means.iter().zip(&sums) {
            prop_assert!((u128::from(*mean)).abs_diff(sum / u128::from(count)) <= 1);
        }
    }

    #[test]
    fn a_final_verdict_is_what_the_definition_says(requests in samples(60)) {
        let summary = summary_of(&requests);
        for request in &requests {
            let group = summary.groups.iter().find(|group| group.name == request.root().name).expect("has a group");
            let verdict = summary.verdicts(request)[0];
            let latency = latency_ns(request);
            prop_assert_eq!(verdict.tail.is_some(), latency > group.latency.p50_ns);
            let is_slow = group.latency.p90_ns.is_some_and(|p90| latency > p90);
            prop_assert_eq!(verdict.tail >= Some(Band::P90), is_slow);
            let is_long = group.latency.p90_ns.is_some() && latency > 0 && latency >= 2 * group.typical_ns;
            prop_assert_eq!(verdict.cause.is_some(), is_slow || is_long);
        }
    }
}
