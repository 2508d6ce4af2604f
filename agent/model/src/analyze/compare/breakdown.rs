//! Where the time of each platform's mean request went: the data of the bar charts.
//!
//! Yields a [`Breakdown`] per platform with an interval for each share; the sample is the platform's runs.
//! Differences and their parts are in [`super::causes`].

use super::{
    causes::named,
    metric,
    platform::Platform,
    profile::{Path, Profile},
    welch::{Difference, Interval, mean},
};
use crate::analyze::cause::Cause;

/// The time of a mean request of one platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// The platform's name.
    pub label: String,
    /// Mean latency, ns.
    pub mean_ns: Interval,
    /// Parts that are not zero, in the order of the phases; they add up to the whole.
    pub shares: Vec<Share>,
}

/// The own time of a phase on one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The phase and those around it.
    pub path: Path,
    /// Cause that the time is charged to.
    pub cause: Cause,
    /// Time in a mean request, ns.
    pub mean_ns: Interval,
}

/// A quantile of the latency of one platform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// Quantile, from 0 to 1.
    pub quantile: f64,
    /// Mean over runs, ns.
    pub latency_ns: Interval,
}

/// Number of values of 1 / (1 - q) between two powers of ten.
const PER_DECADE: u32 = 12;

/// Breakdowns of all platforms by the same rules: time inside `cpu` is split where all runs of all platforms
/// have samples, and folded accounts are folded in all.
pub fn breakdowns(platforms: &[&Platform], fold: bool) -> Vec<Breakdown> {
    let sampled = !fold && platforms.iter().all(|platform| platform.is_sampled());
    platforms
        .iter()
        .map(|platform| if fold { of(&platform.fold(), false) } else { of(platform, sampled) })
        .collect()
}

fn of(platform: &Platform, sampled: bool) -> Breakdown {
    let profiles = || platform.runs.iter().map(|run| &run.requests.profile);
    let means: Vec<f64> = platform.runs.iter().map(|run| run.requests.mean_ns).collect();
    let mut shares = Vec::new();
    for (path, _) in &Profile::mean(profiles()).phases {
        let of_runs: Vec<_> = profiles().map(|profile| named(&profile.get(path), sampled)).collect();
        for cause in Cause::all() {
            let values: Vec<f64> = of_runs.iter().map(|named| named.get(cause)).collect();
            if values.iter().any(|&ns| ns != 0.0) {
                shares.push(Share { path: path.clone(), cause, mean_ns: estimate(&values) });
            }
        }
    }
    Breakdown { label: platform.label.clone(), mean_ns: estimate(&means), shares }
}

/// A mean over runs and its interval, where there are two runs at least.
fn estimate(values: &[f64]) -> Interval {
    Difference::from_zero(values).map_or_else(|| mean(values).into(), |difference| difference.interval())
}

impl Platform {
    /// Quantiles from the fastest request on, even on a logarithmic scale of 1 / (1 - q), up to the last one
    /// beyond which every run has a request.
    pub fn quantiles(&self) -> Vec<Quantile> {
        let fewest = self.fewest_requests() as f64;
        let odds = |step: u32| 10_f64.powf(f64::from(step) / f64::from(PER_DECADE));
        let of = |step: u32| {
            let quantile = 1.0 - 1.0 / odds(step);
            let values: Vec<f64> = self
                .runs
                .iter()
                .map(|run| metric::quantile_ns(&run.requests.latencies_ns, quantile))
                .collect();
            Quantile { quantile, latency_ns: estimate(&values) }
        };
        (0..20 * PER_DECADE).take_while(|&step| odds(step) <= fewest).map(of).collect()
    }
}
