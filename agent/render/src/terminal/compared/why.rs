//! The parts of a difference, by phase and cause in mean and tail, number and price, events, advice.

use crate::analyze::{
    Cause,
    compare::{
        Advised, Compared as OnePlatform, Comparison, Cost, CountChange, Decomposition, Interval,
        LimitDifference, OfCause, Overall, Part, TailDifference,
    },
    moves,
};
use crate::{
    limits::Kind,
    untrusted::{self, Untrusted},
};

use super::super::{
    limits::clause,
    page::{Align, Emphasis, Page, Piece, words},
    tables::listed,
    units::{mean_duration, percent},
};
use super::{
    gpu,
    numbers::{interval, number, signed},
};

/// Most parts of a difference listed.
const MOST_PARTS: usize = 8;
/// Share of a difference from which on a cause's limits are told.
const LARGE: f64 = 0.1;
/// Share of a difference below which parts are summed up.
const SMALL: f64 = 0.01;
/// Most events listed.
const MOST_COUNTS: usize = 8;

/// The names of a phase and of those around it.
pub(super) fn path_of(part: &Part) -> Untrusted {
    untrusted::join(&part.path, " > ")
}

/// The parts of a difference, number and price behind them, events that differ, advice.
pub(super) fn why(page: &mut Page, comparison: &Comparison, one: &OnePlatform) {
    let label = page.name(&one.side.label, 40);
    let word = match one.overall {
        Overall::Slower => "slower",
        Overall::Faster => "faster",
        Overall::Mixed
        | Overall::Equivalent
        | Overall::Negligible
        | Overall::Inconclusive
        | Overall::TooFewRuns
        | Overall::Drift => "different",
    };
    let baseline = page.name(&comparison.baseline.label, 40);
    page.sentence(&format!("why is {label} {word} than {baseline}?"), Emphasis::Strong);
    let Some((explained, quantile)) = one.explained() else {
        page.sentence("neither its mean nor its slowest requests differ that way", Emphasis::None);
        return;
    };
    match quantile {
        None => parts(page, "mean [95 %]", explained, one.tail.as_ref()),
        Some(quantile) => {
            let name = format!("slowest {} [95 %]", percent(1.0 - quantile));
            parts(page, &name, explained, None);
        }
    }
    for Reason { heading: of, indent, words } in reasons(comparison, one) {
        page.wrapped(&[heading(of)], indent, words);
    }
}

/// A line below the parts.
pub(super) struct Reason {
    pub(super) heading: &'static str,
    /// Columns of the headings.
    indent: usize,
    words: Vec<Piece>,
}

impl Reason {
    /// The advice in one line.
    pub(super) fn text(&self) -> String {
        self.words.iter().map(Piece::text).collect::<Vec<_>>().join(" ")
    }
}

/// Number and price of what explains most, events that differ, advice.
pub(super) fn reasons(comparison: &Comparison, one: &OnePlatform) -> Vec<Reason> {
    let Some((_, quantile)) = one.explained() else { return Vec::new() };
    let mut reasons = Vec::new();
    if quantile.is_none() {
        costs(&mut reasons, one);
        counts(&mut reasons, one);
        // As counts these are of all requests, and say nothing about the slowest.
        reasons.extend(gpu::lines(one).into_iter().map(|(heading, text)| Reason {
            heading,
            indent: 12,
            words: words(&text, Emphasis::None),
        }));
    }
    limits(&mut reasons, one);
    let texts = if one.is_emulated(&comparison.baseline) {
        vec!["none: the time is that of QEMU's emulator (TCG), and studies speak of platforms".to_owned()]
    } else {
        one.advised(&comparison.baseline).iter().map(advice_words).collect()
    };
    for text in texts {
        let text = Untrusted::from(text).to_string();
        reasons.push(Reason { heading: "advice", indent: 8, words: words(&text, Emphasis::None) });
    }
    reasons
}

/// Causes with a large part, and the limits behind them.
fn limits(reasons: &mut Vec<Reason>, one: &OnePlatform) {
    let Some((explained, _)) = one.explained() else { return };
    let total = explained.difference_ns.value;
    let matters = explained.causes.iter().filter(|of| of.difference_ns.value / total >= LARGE);
    let mut told: Vec<&LimitDifference> = Vec::new();
    for OfCause { cause, .. } in matters {
        let Some(difference) = one.limited(*cause).filter(|one| !told.contains(one)) else { continue };
        told.push(difference);
        let mut text = format!("{}: {}", cause.name(), limit_words(difference));
        if let Some(limit) = one.hit_of(difference) {
            text.push_str("; ");
            text.push_str(&clause(limit));
        }
        // Names of groups and devices are those of the folder.
        let text = Untrusted::from(text).to_string();
        reasons.push(Reason { heading: "limit", indent: 12, words: words(&text, Emphasis::None) });
    }
}

/// `CPUs 1 of 2 (baseline 2)`
pub(super) fn limit_words(LimitDifference { baseline, platform }: &LimitDifference) -> String {
    let kind = match platform.kind {
        Kind::Cpus => "CPUs",
        Kind::Quota => "CPU quota",
        Kind::Memory => "memory",
        Kind::Io => "I/O",
        Kind::GpuShared | Kind::GpuClock => "GPU",
    };
    format!("{kind} {} (baseline {})", platform.text, baseline.text)
}

/// Advice, with the events behind it and its source.
fn advice_words(Advised { counts, advice, cause: _ }: &Advised<'_>) -> String {
    let evidence: Vec<String> = counts.iter().map(|change| count_words(change)).collect();
    let evidence = if evidence.is_empty() {
        String::new()
    } else {
        let price = |change: &&CountChange| change.difference.value.abs() * moves::price_ns(change.metric);
        let at_most: f64 = counts.iter().map(price).sum();
        let (counts, at_most) = (evidence.join(", "), mean_duration(at_most));
        format!(
            "Threads moved away from their caches, {counts} per request, at a price of at most {at_most}. "
        )
    };
    format!("{evidence}{} ({})", advice.text, advice.source)
}

/// Parts worth a line, in their order, and the sum of the others.
fn parts(page: &mut Page, name: &str, of: &Decomposition, tail: Option<&TailDifference>) {
    let total = of.difference_ns.value;
    let shown = of.largest(SMALL, MOST_PARTS);
    let tail_name = tail.map(|tail| format!("slowest {}", percent(1.0 - tail.quantile)));
    let mut head = vec![heading(""), heading("phase"), heading("cause"), heading(name), heading("of it")];
    head.extend(tail_name.iter().map(|name| heading(name)));
    head.extend(tail_name.iter().map(|_| heading("of it")));
    let mut rows = vec![head];
    let tail_total = tail.map(|tail| tail.decomposition.difference_ns.value);
    let line = |rank: String, path: String, cause: &str, of_mean: Interval, of_tail: Option<f64>| {
        let mut cells: Vec<Piece> = vec![
            rank.into(),
            path.into(),
            cause.to_owned().into(),
            interval(of_mean).into(),
            share(of_mean.value, total).into(),
        ];
        if let Some((of_tail, tail_total)) = of_tail.zip(tail_total) {
            cells.extend([signed(of_tail).into(), share(of_tail, tail_total).into()]);
        }
        cells
    };
    let in_tail = |part: &Part| {
        let same = |other: &&Part| other.path == part.path && other.cause == part.cause;
        let found = tail.map(|tail| tail.decomposition.parts.iter().find(same));
        found.map(|part| part.map_or(0.0, |part| part.difference_ns.value))
    };
    let (mut left, mut tail_left) = (total - of.residual_ns, tail_total);
    for (index, part) in shown.iter().enumerate() {
        let rank =
            if part.difference_ns.value * total > 0.0 { (index + 1).to_string() } else { String::new() };
        let (path, of_tail) = (page.name(path_of(part), 28), in_tail(part));
        left -= part.difference_ns.value;
        tail_left = tail_left.zip(of_tail).map(|(left, of_tail)| left - of_tail);
        rows.push(line(rank, path, part.cause.name(), part.difference_ns, of_tail));
    }
    rows.push(line(String::new(), "rest".to_owned(), "", Interval::from(left), tail_left));
    rows.push(line(String::new(), "all".to_owned(), "", of.difference_ns, tail_total));
    let mut aligns = vec![Align::Right, Align::Left, Align::Left, Align::Right, Align::Right];
    aligns.extend(tail_name.iter().flat_map(|_| [Align::Right, Align::Right]));
    page.table(&aligns, &rows);
    // A residual of zero is part of the answer.
    let emphasis = if of.residual_ns.abs() >= 1.0 { Emphasis::Warning } else { Emphasis::Faint };
    page.sentence(&format!("residual {}", signed(of.residual_ns)), emphasis);
}

fn share(part: f64, total: f64) -> String {
    if total == 0.0 { "-".to_owned() } else { format!("{:.0} %", part / total * 100.0) }
}

/// A signed share.
pub(super) fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// Number and price, where something is counted, for the causes that matter.
fn costs(reasons: &mut Vec<Reason>, one: &OnePlatform) {
    let total = one.mean.difference_ns.value;
    let matters = |cause: Cause| {
        let of: Option<&OfCause> = one.mean.cause(cause);
        of.is_some_and(|of| of.difference_ns.value / total >= 0.1)
    };
    for cost in one.costs.iter().filter(|cost| matters(cost.cause)).take(3) {
        let words = words(&cost_words(cost), Emphasis::None);
        reasons.push(Reason { heading: cost.cause.name(), indent: 12, words });
    }
}

fn cost_words(cost: &Cost) -> String {
    let price = |count: f64, ns: f64| {
        if count > 0.0 { format!("{} x {}", number(count), mean_duration(ns)) } else { "none".to_owned() }
    };
    format!(
        "{} per request: {} (baseline {}); by number {}, by price {}",
        cost.events.iter().map(|metric| metric.row().name).collect::<Vec<_>>().join(" and "),
        price(cost.count, cost.each_ns),
        price(cost.baseline_count, cost.baseline_each_ns),
        signed(cost.by_number_ns),
        signed(cost.by_price_ns),
    )
}

/// Events that surely differ, the largest changes by their own size first.
fn counts(reasons: &mut Vec<Reason>, one: &OnePlatform) {
    let mut shown: Vec<&CountChange> = one.counts.iter().filter(|change| change.is_sure()).collect();
    shown.sort_by(|a, b| b.relative().total_cmp(&a.relative()));
    if shown.is_empty() {
        return;
    }
    let texts = shown.iter().take(MOST_COUNTS).map(|change| count_words(change));
    reasons.push(Reason { heading: "per request", indent: 12, words: listed(texts.collect()) });
}

fn count_words(change: &CountChange) -> String {
    format!("{} {} (baseline {})", change.metric.row().name, number(change.value), number(change.baseline))
}

/// Whether to show the parts: for platforms that differ, and for those with too few runs for a verdict.
pub(super) fn is_worth_why(one: &OnePlatform) -> bool {
    matches!(one.overall, Overall::Slower | Overall::Faster | Overall::Mixed | Overall::TooFewRuns)
}

pub(super) fn heading(text: &str) -> Piece {
    Piece::new(text, Emphasis::Faint)
}
