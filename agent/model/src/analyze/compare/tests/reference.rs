//! The same numbers as scipy, statsmodels and numpy, to 1e-9 of their size. See `reference.py`.

use serde::Deserialize;

use super::super::{
    chance::permutation_probability,
    metric::quantile_ns,
    student::{critical, two_sided},
    verdict::measure,
    welch::holm,
    *,
};

#[derive(Deserialize)]
struct Reference {
    margin: f64,
    cases: Vec<Case>,
    holm: Vec<f64>,
    t: Vec<OfT>,
    critical: Vec<OfT>,
    latencies: Vec<u64>,
    quantiles: Vec<Quantile>,
}

#[derive(Deserialize)]
struct Case {
    baseline: Vec<f64>,
    values: Vec<f64>,
    ratio: f64,
    low: f64,
    high: f64,
    p: f64,
    p_not_equivalent: f64,
    p_permutation: f64,
    shift: f64,
}

#[derive(Deserialize)]
struct OfT {
    t: f64,
    df: f64,
    p: f64,
}

#[derive(Deserialize)]
struct Quantile {
    q: f64,
    value: f64,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("reference.json")).unwrap()
}

#[track_caller]
fn agree(what: &str, mine: f64, theirs: f64) {
    let off = (mine - theirs).abs();
    assert!(off <= 1e-9 * theirs.abs(), "{what}: {mine} instead of {theirs}, {off:e} off");
}

#[test]
fn student() {
    let reference = reference();
    for OfT { t, df, p } in reference.t {
        agree("p", two_sided(t, df), p);
        agree("p of -t", two_sided(-t, df), p);
    }
    for OfT { t, df, p } in reference.critical {
        agree("t", critical(p, df), t);
    }
}

#[test]
fn welch_equivalence_and_permutation() {
    let reference = reference();
    for case in &reference.cases {
        let judged = measure(Metric::Mean, reference.margin, &case.baseline, &case.values);
        agree("ratio", judged.ratio.value, case.ratio);
        agree("low", judged.ratio.low.unwrap(), case.low);
        agree("high", judged.ratio.high.unwrap(), case.high);
        agree("p", judged.probability.unwrap(), case.p);
        agree("p of two one-sided tests", judged.not_equivalent.unwrap(), case.p_not_equivalent);
        agree("shift", judged.shift, case.shift);
        let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
        let permutation = permutation_probability(&logs(&case.baseline), &logs(&case.values));
        agree("p of permutations", permutation.unwrap(), case.p_permutation);
    }
}

#[test]
fn holms_probabilities() {
    let reference = reference();
    let probabilities: Vec<f64> = reference.cases.iter().map(|case| case.p).collect();
    for (mine, theirs) in holm(&probabilities).into_iter().zip(reference.holm) {
        agree("adjusted p", mine, theirs);
    }
}

#[test]
fn quantiles() {
    let reference = reference();
    for Quantile { q, value } in reference.quantiles {
        agree("quantile", quantile_ns(&reference.latencies, q), value);
    }
}
