//! Student's t distribution with any number of degrees of freedom, and what confidence it gives.
//!
//! Only [`statrs`] and a bisection: the regularised incomplete beta function decides both directions, so that
//! an interval excludes zero exactly where the probability lies below its level.

use statrs::function::beta::checked_beta_reg;

/// Two-sided probability that |t| is at least this large by chance, 0 to 1. `df` must be positive.
pub(super) fn two_sided(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    let square = t * t;
    // Near t = 0 the other tail keeps its digits.
    if square < df {
        return 1.0 - checked_beta_reg(0.5, df / 2.0, square / (df + square)).unwrap_or(0.0);
    }
    checked_beta_reg(df / 2.0, 0.5, df / (df + square)).unwrap_or(0.0)
}

/// Probability of a t above this one, 0 to 1.
pub(super) fn above(t: f64, df: f64) -> f64 {
    let half = two_sided(t, df) / 2.0;
    if t < 0.0 { 1.0 - half } else { half }
}

/// The |t| that chance exceeds with this probability, both tails: 2.2281 for 0.05 and 10 degrees of freedom.
pub(super) fn critical(probability: f64, df: f64) -> f64 {
    let mut above = 1.0;
    while two_sided(above, df) > probability && above < 1e300 {
        above *= 2.0;
    }
    let mut below = 0.0;
    // Halving ends where the two are neighbours among the floating-point numbers.
    loop {
        let middle = f64::midpoint(below, above);
        if middle <= below || middle >= above {
            return above;
        }
        if two_sided(middle, df) > probability { below = middle } else { above = middle }
    }
}
