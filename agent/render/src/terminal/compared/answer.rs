//! The first lines: the verdict on each platform, and the main part of its difference.

use crate::analyze::compare::{
    Compared as OnePlatform, Comparison, ENOUGH_RUNS, Interval, Judged, MOST_WARMUP, Overall, Side, Verdict,
};

use super::{
    super::{
        page::{Emphasis, Page},
        units::{percent, thousands},
    },
    gpu,
    numbers::signed,
    why::{is_worth_why, path_of, signed_percent},
};

/// One or two sentences on a platform.
pub(super) fn answer(page: &mut Page, comparison: &Comparison, one: &OnePlatform) {
    let (label, baseline) = (page.name(&one.side.label, 40), page.name(&comparison.baseline.label, 40));
    let emphasis = match one.overall {
        Overall::Slower => Emphasis::Bad,
        Overall::Faster => Emphasis::Good,
        Overall::Mixed | Overall::Drift => Emphasis::Warning,
        Overall::Equivalent | Overall::Negligible | Overall::Inconclusive | Overall::TooFewRuns => {
            Emphasis::Strong
        }
    };
    let changes = || one.judged.iter().map(change).collect::<Vec<_>>().join(", ");
    let text = match one.overall {
        Overall::Slower | Overall::Faster => {
            format!("{label} is {} than {baseline}: {}", one.overall.name(), changes())
        }
        Overall::Mixed => {
            format!("{label} is slower by one metric and faster by another than {baseline}: {}", changes())
        }
        Overall::Equivalent => format!("{label} is equivalent to {baseline}: {}", changes()),
        Overall::Negligible => format!("{label} differs negligibly from {baseline}: {}", changes()),
        Overall::Inconclusive => {
            let needed = one.judged.iter().filter_map(|judged| match judged.verdict {
                Verdict::Inconclusive { runs_needed } => Some((judged.metric, runs_needed)),
                Verdict::TooFewRuns
                | Verdict::Drift
                | Verdict::Slower { .. }
                | Verdict::Faster { .. }
                | Verdict::Negligible
                | Verdict::Equivalent => None,
            });
            let needed: Vec<String> =
                needed.map(|(metric, runs)| format!("{} for {metric}", thousands(runs))).collect();
            format!(
                "{label} against {baseline}: inconclusive ({}); it would take about so many runs of each: {}",
                changes(),
                needed.join(", ")
            )
        }
        Overall::TooFewRuns => format!(
            "{label} against {baseline}: no verdict below {ENOUGH_RUNS} runs of each ({}); what was measured: {}",
            runs_of(comparison, one),
            changes()
        ),
        Overall::Drift => format!(
            "{label} against {baseline}: no verdict, latencies change while runs go on ({}); {}--allow-drift judges all the same",
            drifting(page, comparison, one),
            warmup(comparison, one)
        ),
    };
    page.sentence(&text, emphasis);
    if let Some(caveat) = caveat(page, &[&comparison.baseline, &one.side]) {
        page.sentence(&caveat, Emphasis::Warning);
    }
    if is_worth_why(one)
        && let Some(because) = because(page, one)
    {
        page.sentence(&because, Emphasis::None);
    }
}

/// Caveat for emulated guests: the emulator's costs drown those of the platform.
pub(super) fn caveat(page: &Page, sides: &[&Side]) -> Option<String> {
    let name = |side: &&Side| {
        let label = page.name(&side.label, 40);
        match side.emulated {
            0 => None,
            all if all == side.runs => Some(label),
            some => Some(format!("{some} of {} runs of {label}", side.runs)),
        }
    };
    let names: Vec<String> = sides.iter().filter_map(name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "emulated by QEMU (TCG): {}; what that costs is the emulator's, and nothing about a platform follows from it",
            names.join(", ")
        )
    })
}

fn runs_of(comparison: &Comparison, one: &OnePlatform) -> String {
    format!("{} and {} of the baseline", one.side.runs, comparison.baseline.runs)
}

/// Option that leaves out the start of runs that get faster: the third by which drift is measured.
fn warmup(comparison: &Comparison, one: &OnePlatform) -> String {
    let sides = [&comparison.baseline, &one.side];
    let get_faster =
        sides.iter().filter(|side| side.drifts).all(|side| side.drift.is_some_and(|by| by < 0.0));
    let third = sides.map(|side| side.requests.0).into_iter().min().unwrap_or(0) / 3;
    let wanted = third.min(MOST_WARMUP);
    let is_left_out = sides.iter().any(|side| side.warmup / side.runs.max(1) as u64 >= wanted);
    if get_faster && !is_left_out {
        format!("--warmup {wanted} leaves out their begins, ")
    } else {
        String::new()
    }
}

fn drifting(page: &Page, comparison: &Comparison, one: &OnePlatform) -> String {
    let of = |side: &Side| {
        let drift = side.drift.filter(|_| side.drifts)?;
        let label = page.name(&side.label, 40);
        Some(format!("{label} by {} from the first to the last third", signed_percent(drift)))
    };
    [of(&comparison.baseline), of(&one.side)].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `mean +7.1 % [5.5, 8.8]`, and where percents become hard to read `mean 98.8 times [91.0, 107.2]`.
fn change(judged: &Judged) -> String {
    const TIMES: f64 = 10.0;
    let by = |ratio: f64| (ratio - 1.0) * 100.0;
    let Interval { value, low, high } = judged.ratio;
    if value >= TIMES {
        let interval = low.zip(high).map(|(low, high)| format!(" [{low:.1}, {high:.1}]"));
        return format!("{} {value:.1} times{}", judged.metric, interval.unwrap_or_default());
    }
    let interval = low.zip(high).map(|(low, high)| format!(" [{:+.1}, {:+.1}]", by(low), by(high)));
    format!("{} {:+.1} %{}", judged.metric, by(value), interval.unwrap_or_default())
}

/// The first cause, if it makes a noticeable part of what explains the verdict.
fn because(page: &Page, one: &OnePlatform) -> Option<String> {
    const NOTICEABLE: f64 = 0.2;
    let (whole, quantile) = one.explained()?;
    let first = whole.first()?;
    let (part, total) = (first.difference_ns.value, whole.difference_ns.value);
    if part / total < NOTICEABLE {
        return None;
    }
    let place = whole.parts.iter().find(|part| part.cause == first.cause)?;
    let path = page.name(path_of(place), 48);
    let is_most = place.difference_ns.value / part > 0.5;
    let path =
        if is_most { format!("most of it in {path}") } else { format!("in several phases, most in {path}") };
    let second = whole.causes.get(1).filter(|second| second.difference_ns.value / total >= NOTICEABLE);
    let second =
        second.map(|second| format!(", then {} {}", second.cause.name(), signed(second.difference_ns.value)));
    let each = quantile.map_or_else(
        || "per request".to_owned(),
        |quantile| format!("per request of the slowest {}", percent(1.0 - quantile)),
    );
    let on_gpu = if first.cause.waits_for_gpu() { gpu::clause(one) } else { String::new() };
    Some(format!(
        "mostly {}: {} of {} {each} ({}), {path}{}{on_gpu}",
        first.cause.name(),
        signed(part),
        signed(total),
        percent(part / total),
        second.unwrap_or_default()
    ))
}
