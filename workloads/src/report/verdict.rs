//! A result in words: what was judged, whether it holds, and what is missing. Yields lines for people. The
//! judgement comes from `load::summary`.

use crate::{
    load::{
        scenario::{LEAST_NS, Scenario},
        summary::{Objection, Summary},
    },
    numbers::grouped,
};

/// Report lines of the verdict, each with its name.
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
    let loadgen = [Some(minima(summary)), short(summary), rates(summary)];
    named("result", lines).chain(named("loadgen", loadgen.into_iter().flatten())).collect()
}

/// Gives the first of these lines the name.
fn named(
    name: &'static str,
    lines: impl IntoIterator<Item = String>,
) -> impl Iterator<Item = (&'static str, String)> {
    lines.into_iter().enumerate().map(move |(at, line)| (if at == 0 { name } else { "" }, line))
}

/// LoadGen's minima in LoadGen's words.
fn minima(summary: &Summary) -> String {
    let word = |holds: bool| if holds { "yes" } else { "no" };
    let (long, many, proved) = (summary.is_long(), summary.is_many(), summary.is_proved());
    format!(
        "{}: min duration {}, min queries {}, early stopping {}",
        if summary.is_valid() { "VALID" } else { "INVALID" },
        word(long),
        word(many),
        word(proved)
    )
}

/// The rates that LoadGen prints for a scenario; that of Offline is its result.
fn rates(summary: &Summary) -> Option<String> {
    let samples = |requests_per_s: f64| requests_per_s * summary.batch as f64;
    match summary.scenario {
        Scenario::SingleStream => Some(format!(
            "QPS {:.2} with overhead, {:.2} without",
            summary.scheduled_per_s(),
            summary.answered_per_s()
        )),
        Scenario::Server => Some(format!(
            "samples/s {:.2} completed, {:.2} scheduled",
            samples(summary.completed_per_s()),
            samples(summary.scheduled_per_s())
        )),
        Scenario::MultiStream | Scenario::Offline => None,
    }
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
        // The line above gives both numbers.
        Objection::AboveTarget => None,
        Objection::Stopped => Some("ended early: it could not become valid any more".to_owned()),
    }
}

/// What LoadGen's defaults require and this run lacks; our verdict judges the requests that were asked for.
fn short(summary: &Summary) -> Option<String> {
    let mut asked = Vec::new();
    if !summary.is_long() {
        asked.push(format!("{} s", LEAST_NS / 1_000_000_000));
    }
    if !summary.is_many() {
        let (least, what) = summary.scenario.least_queries();
        asked.push(format!("{} {what}", grouped(least)));
    }
    (!asked.is_empty()).then(|| format!("short of its defaults: at least {}", asked.join(", ")))
}

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}
