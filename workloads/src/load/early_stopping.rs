//! MLPerf's early stopping: how many of `n` requests may exceed a bound, so that with 99 % confidence at most
//! the allowed share of all possible ones does. Yields counts and, for streams, an upper percentile estimate.
//!
//! `late` late requests of `n` prove it when P(at most `late` of `n`, each late with probability 1 - p) <= 1
//! %. LoadGen asks the same of the incomplete beta function: how many punctual requests beside `late` late
//! ones suffice (inference_rules.adoc, appendix "Early Stopping Criterion"; loadgen/early_stopping.cc). Here
//! `n` is fixed and the binomial terms are added up: a logarithm per term, 20 ns, and few terms.

/// Remaining doubt: 1 - the confidence of 99 %.
const DOUBT: f64 = 0.01;

/// The most late requests among `n` that still prove that `percent` of all would be in time. None where `n`
/// are too few to prove anything.
pub fn most_late(n: u64, percent: f64) -> Option<u64> {
    terms(n, percent)
        .scan(0.0, |sum, term| {
            *sum += term;
            (*sum <= DOUBT).then_some(())
        })
        .zip(0..n)
        .map(|((), late)| late)
        .last()
}

/// Number of requests that prove it when `late` of them were late.
pub fn needed(late: u64, percent: f64) -> u64 {
    let proves = |n: u64| n > late && doubt(n, late, percent) <= DOUBT;
    let mut enough = late.max(1);
    while !proves(enough) {
        enough *= 2;
    }
    let mut too_few = enough / 2;
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if proves(middle) { enough = middle } else { too_few = middle }
    }
    enough
}

/// Upper bound of the percentile of all possible requests, with 99 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub latency_ns: u64,
    /// Number of slower requests, which were set aside.
    pub discarded: u64,
}

/// LoadGen's estimate for streams, from ascending latencies: the largest that is left after setting aside all
/// but one of those that may be late. None if there are too few requests for one late one.
pub fn estimate(ascending: &[u64], percent: f64) -> Option<Estimate> {
    let late = most_late(ascending.len() as u64, percent).filter(|late| *late >= 1)?;
    let latency_ns = *ascending.get(ascending.len() - late as usize)?;
    Some(Estimate { latency_ns, discarded: late - 1 })
}

/// P(at most `late` of `n` are late) where each is with probability 1 - `percent` %.
fn doubt(n: u64, late: u64, percent: f64) -> f64 {
    terms(n, percent).take(late as usize + 1).sum()
}

/// P(exactly k of `n` are late) for k = 0, 1, ... `n`. By logarithms: the first term is 1e-317 at n = 6,930
/// and p = 90 %, and beyond that f64 cannot hold it.
fn terms(n: u64, percent: f64) -> impl Iterator<Item = f64> {
    let punctual = percent / 100.0;
    let odds = ((1.0 - punctual) / punctual).ln();
    let mut logarithm = n as f64 * punctual.ln();
    (0..=n).map(move |k| {
        let term = logarithm.exp();
        logarithm += ((n - k) as f64 / (k + 1) as f64).ln() + odds;
        term
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::{Estimate, doubt, estimate, most_late, needed};

    /// Values from scipy 1.x: the smallest n with `scipy.stats.binom.cdf(late, n, 1 - p) <= 0.01`. Those for
    /// 0 and 1 late requests are also MLPerf's own: 64 requests for SingleStream, 662 for MultiStream.
    #[rstest]
    #[case(90.0, &[(0, 44), (1, 64), (2, 81), (5, 127), (10, 197), (100, 1246), (1000, 10722)])]
    #[case(95.0, &[(0, 90), (1, 130), (2, 165), (5, 259), (10, 398), (100, 2504), (1000, 21483)])]
    #[case(97.0, &[(0, 152), (1, 219), (2, 277), (5, 433), (10, 667), (100, 4182), (1000, 35831)])]
    #[case(99.0, &[(0, 459), (1, 662), (2, 838), (5, 1307), (10, 2010), (100, 12571), (1000, 107_569)])]
    #[case(99.9, &[(0, 4603), (1, 6636), (2, 8403), (5, 13105), (10, 20140), (100, 125_826), (1000, 1_076_032)])]
    fn as_many_are_needed_as_scipy_says(#[case] percent: f64, #[case] expected: &[(u64, u64)]) {
        for (late, n) in expected {
            assert_eq!(needed(*late, percent), *n, "{late} late, p{percent}");
        }
    }

    /// The largest number with `scipy.stats.binom.cdf(late, n, 1 - p) <= 0.01`.
    #[rstest]
    #[case(90.0, &[(43, None), (44, Some(0)), (63, Some(0)), (64, Some(1)), (459, Some(31)), (1000, Some(78)), (24576, Some(2348)), (1_000_000, Some(99302))])]
    #[case(97.0, &[(64, None), (459, Some(5)), (662, Some(9)), (10000, Some(260)), (270_336, Some(7903))])]
    #[case(99.0, &[(458, None), (459, Some(0)), (662, Some(1)), (1000, Some(2)), (24576, Some(209)), (270_336, Some(2583))])]
    #[case(99.9, &[(1000, None), (10000, Some(2)), (24576, Some(13)), (1_000_000, Some(926))])]
    fn as_many_may_be_late_as_scipy_says(#[case] percent: f64, #[case] expected: &[(u64, Option<u64>)]) {
        for (n, late) in expected {
            assert_eq!(most_late(*n, percent), *late, "{n} requests, p{percent}");
        }
    }

    #[test]
    fn the_estimate_is_the_largest_that_is_not_set_aside() {
        let latencies: Vec<u64> = (1..=1000).collect();
        // 78 of 1000 may be late: 77 are set aside, 923 is the largest of the rest.
        assert_eq!(estimate(&latencies, 90.0), Some(Estimate { latency_ns: 923, discarded: 77 }));
        assert_eq!(estimate(&latencies[..64], 90.0), Some(Estimate { latency_ns: 64, discarded: 0 }));
        assert_eq!(estimate(&latencies[..63], 90.0), None);
        assert_eq!(estimate(&[], 90.0), None);
    }

    proptest! {
        #[test]
        fn both_questions_have_one_answer(n in 1..20_000_u64, percent in 50.0..99.9_f64) {
            match most_late(n, percent) {
                None => prop_assert!(needed(0, percent) > n),
                Some(late) => {
                    prop_assert!(needed(late, percent) <= n);
                    prop_assert!(needed(late + 1, percent) > n);
                }
            }
        }

        #[test]
        fn all_terms_make_one(n in 1..3_000_u64, percent in 50.0..99.9_f64) {
            prop_assert!((doubt(n, n, percent) - 1.0).abs() < 1e-9);
        }
    }
}
