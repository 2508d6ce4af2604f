//! The highest rate of arrivals that holds the latency bound. Yields that rate and every trial on the way.
//!
//! A rate holds it when its trial would be a valid Server result: the percentile below the bound, and few
//! enough late requests to prove it with 99 % confidence. All trials have the arrivals of one seed at
//! different speeds. A trial ends early once too many requests are late for any ending to help. Trials are
//! marked as warm-up; the peak is then measured. Chance decides at the final rate, so it has to hold twice.

use serde::Serialize;

use super::{
    Crew, Measured, Plan, Workload, crew::Course, dispenser::arrivals_of, early_stopping, error::LoadError,
    scenario::Scenario, summary::Summary,
};
use crate::{error::Error, stall::size::Size};

/// Ratio of the lowest failing rate to the highest holding one at which the search ends.
const PRECISION: f64 = 1.05;
/// Bounds of the search, as factors of the first rate.
const LEAST_FACTOR: f64 = 1.0 / 1024.0;
const MOST_FACTOR: f64 = 1024.0;
/// Shortest trial, in multiples of the bound: at a rate that exceeds the capacity by the search's precision,
/// the queue has then grown to the bound after half of it, so that even a median tells. In a shorter trial
/// the queue would have no time to grow, and any rate would hold.
const BOUNDS: u64 = (2.0 / (PRECISION - 1.0) + 1.0) as u64;
/// Requests of each worker, without pauses, that find the first rate.
const SOUNDING: u64 = 10;

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trial {
    pub qps: f64,
    pub holds: bool,
    /// Number of requests run.
    pub requests: u64,
    pub late: u64,
}

/// A search that found a peak.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// The highest rate that held twice.
    pub qps: f64,
    /// The lowest rate that failed.
    pub fails_at_qps: f64,
    pub trials: Vec<Trial>,
}

/// Searches for the peak, and measures it.
pub(super) fn find<W: Workload>(crew: &mut Crew<'_, W>, plan: &Plan) -> Result<Measured, Error> {
    let percent = plan.target.percentile;
    // Fewer could never prove anything.
    let requests = plan.requests.max(early_stopping::needed(0, percent));
    let duration_ns = plan.duration_ns.max(plan.target.latency_ns.saturating_mul(BOUNDS));
    let plan = Plan { requests, duration_ns, ..plan.clone() };
    let first = match plan.qps {
        Some(qps) => qps,
        None => sounding(crew, &plan)? / 2.0,
    };
    let peak = search(&plan, first, |qps| {
        let most = early_stopping::most_late(arrivals_of(&plan, qps), percent);
        let measured = crew.run(&plan, Course::trial(Some(qps), most))?;
        let summary = Summary::new(&plan, 1, &measured);
        Ok(Trial {
            qps,
            holds: summary.objections.is_empty(),
            requests: summary.requests,
            late: summary.late,
        })
    })?;
    let course = Course::measured(&Plan { qps: Some(peak.qps), ..plan.clone() });
    let measured = crew.run(&plan, course)?;
    Ok(Measured { peak: Some(peak), ..measured })
}

/// Requests per second when all workers are always busy.
fn sounding<W: Workload>(crew: &mut Crew<'_, W>, plan: &Plan) -> Result<f64, Error> {
    let requests = SOUNDING * u64::from(plan.workers);
    let closed = Plan { scenario: Scenario::Offline, requests, duration_ns: 0, ..plan.clone() };
    Ok(crew.run(&closed, Course::trial(None, None))?.requests_per_s())
}

/// Doubles and halves the rate until one holds and one fails, then halves the distance between them, and
/// tries the last one that held once more.
fn search(
    plan: &Plan,
    first: f64,
    mut attempt: impl FnMut(f64) -> Result<Trial, Error>,
) -> Result<Peak, Error> {
    let mut trials: Vec<Trial> = Vec::new();
    loop {
        let failed = trials.iter().filter(|trial| !trial.holds).map(|trial| trial.qps);
        let fails = failed.min_by(f64::total_cmp);
        let held = || trials.iter().filter(|trial| trial.holds).map(|trial| trial.qps);
        // A rate that held above one that failed held by chance.
        let holds = held().filter(|qps| fails.is_none_or(|fails| *qps < fails)).max_by(f64::total_cmp);
        let qps = match (holds, fails) {
            (None, None) => first,
            (Some(qps), None) => qps * 2.0,
            (None, Some(qps)) => qps / 2.0,
            (Some(qps), Some(above)) if above / qps <= PRECISION => {
                if held().filter(|held| held.total_cmp(&qps).is_eq()).count() > 1 {
                    return Ok(Peak { qps, fails_at_qps: above, trials });
                }
                qps
            }
            (Some(below), Some(above)) => (below * above).sqrt(),
        };
        if qps > first * MOST_FACTOR {
            return Err(LoadError::NoLimit { qps: qps / 2.0 }.into());
        }
        if qps < first * LEAST_FACTOR {
            let bound = Size::Time { ns: plan.target.latency_ns }.to_string();
            let percentile = plan.target.percentile;
            return Err(LoadError::NoPeak { percentile, bound, qps: qps * 2.0 }.into());
        }
        trials.push(attempt(qps)?);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::{PRECISION, Trial, search};
    use crate::load::tests::{ms, plan};

    fn trial(qps: f64, holds: bool) -> Trial {
        Trial { qps, holds, requests: 1000, late: 0 }
    }

    proptest! {
        #[test]
        fn the_peak_is_between_a_rate_that_holds_and_one_that_fails(
            limit in 1.0..1000.0_f64,
            factor in 0.01..100.0_f64,
        ) {
            let plan = plan(1000);
            let peak = search(&plan, limit * factor, |qps| Ok(trial(qps, qps <= limit))).unwrap();
            prop_assert!(peak.qps <= limit && limit < peak.fails_at_qps);
            prop_assert!(peak.fails_at_qps / peak.qps <= PRECISION);
            // At most 7 doublings from a factor of 100, then 4 halvings of a factor of 2, and the peak again.
            prop_assert!(peak.trials.len() <= 14, "{:?}", peak.trials);
        }

        /// Rates up to a third above the limit hold once, by chance.
        #[test]
        fn a_rate_that_held_by_chance_is_no_peak(limit in 1.0..1000.0_f64, factor in 0.01..100.0_f64) {
            let mut seen = HashSet::new();
            let peak = search(&plan(1000), limit * factor, |qps| {
                Ok(trial(qps, qps <= limit || qps <= limit * 1.33 && seen.insert(qps.to_bits())))
            });
            let peak = peak.unwrap();
            prop_assert!(peak.qps <= limit && peak.qps < peak.fails_at_qps, "{peak:?}");
            prop_assert!(peak.fails_at_qps / peak.qps <= PRECISION);
            let held = peak.trials.iter().filter(|trial| trial.holds && trial.qps.total_cmp(&peak.qps).is_eq());
            prop_assert!(held.count() >= 2);
        }
    }

    #[test]
    fn a_search_that_cannot_end_says_why() {
        let mut plan = plan(1000);
        plan.target.latency_ns = ms(15);
        let says = |holds| search(&plan, 8.0, |qps| Ok(trial(qps, holds))).unwrap_err().to_string();
        insta::assert_snapshot!(says(false), @"no rate holds the bound: 99 % within 15ms, tried down to 0.008 requests/s");
        insta::assert_snapshot!(says(true), @"every rate holds the bound, tried up to 8192 requests/s");
    }
}
