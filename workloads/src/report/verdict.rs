//! A result in words: what was judged, whether it holds, and what is missing. Yields lines for people. The judgement is
//! `load::summary`'s.

use crate::{
    catalog::grouped,
    load::{
        scenario::{LEAST_NS, Scenario},
        summary::{Objection, Summary},
    },
};

/// Each with the name of its line.
pub(super) fn lines(summary: &Summary) -> Vec<(&'static str, String)> {
    let percent = summary.target.percentile;
    let word = if summary.objections.is_empty() { "valid" } else { "invalid" };
    let at = format!("{word}: p{percent} {}", ms(summary.percentile_ns));
    let mut lines = match summary.scenario {
        Scenario::Offline => vec![format!("{:.1} samples/s", summary.samples_per_s())],
        Scenario::SingleStream | Scenario::MultiStream => vec![match summary.estimate {
            Some(estimate) => format!("{at}, at most {} with 99 % confidence", ms(estimate.latency_ns)),
            None => at,
        }],
        Scenario::Server => {
            let target = ms(summary.target.latency_ns);
            vec![format!("{at} of at most {target}, {} late", summary.late)]
        }
    };
    lines.extend(summary.objections.iter().filter_map(|objection| objects(*objection, summary)));
    lines.extend(short(summary));
    lines.into_iter().enumerate().map(|(at, line)| (if at == 0 { "result" } else { "" }, line)).collect()
}

fn objects(objection: Objection, summary: &Summary) -> Option<String> {
    let Summary { requests, late, target, .. } = summary;
    match objection {
        Objection::TooFew { needed } => Some(format!(
            "{requests} requests are too few for 99 % confidence in p{}: it takes {needed}",
            target.percentile
        )),
        Objection::Unproved { missing } => Some(match summary.may_be_late {
            Some(most) => {
                format!("{late} late of {requests}, may be {most}; {missing} more in time would prove it")
            }
            None => format!("too few requests to prove it: {missing} more, all in time, would"),
        }),
        // The line above says both numbers.
        Objection::AboveTarget => None,
        Objection::Stopped => Some("ended early: it could not become valid any more".to_owned()),
    }
}

/// What LoadGen's own defaults ask for and this run does not have; our verdict goes by the requests that were asked for.
fn short(summary: &Summary) -> Option<String> {
    let mut asked = Vec::new();
    if !summary.is_long() {
        asked.push(format!("{} s", LEAST_NS / 1_000_000_000));
    }
    if !summary.is_many() {
        let (least, what) = summary.scenario.least_queries();
        asked.push(format!("{} {what}", grouped(least)));
    }
    (!asked.is_empty()).then(|| format!("short of LoadGen's defaults: at least {}", asked.join(", ")))
}

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}
