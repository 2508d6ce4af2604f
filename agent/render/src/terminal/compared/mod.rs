//! Comparison of platforms: the answer per platform, the numbers behind it, and the parts of a difference.
//!
//! Yields text. The first lines are the verdicts; only what the verdict calls a difference is called one.

mod answer;
mod circumstances;
mod gpu;
mod json;
mod numbers;
mod subject;
mod why;

use crate::analyze::compare::{Compared as OnePlatform, Comparison, Interval, Metric, Verdict};

use super::{
    page::{Align, Emphasis, Page, Piece},
    style::Style,
    units::{mean_duration, percent, thousands},
};
use answer::{answer, caveat};
use circumstances::{Notes, circumstances};
use why::{reasons, why};

pub use json::{render_comparison_json, render_self_test_json};

pub use self::subject::Compared;

use self::why::{heading, is_worth_why};

/// The whole comparison.
pub fn render_comparison(compared: &Compared, style: Style) -> String {
    let mut page = Page::new(style);
    let comparison = &compared.comparison;
    for one in &comparison.platforms {
        answer(&mut page, comparison, one);
    }
    page.blank();
    circumstances(&mut page, compared, Notes::Few);
    page.blank();
    metrics(&mut page, comparison);
    for one in comparison.platforms.iter().filter(|one| is_worth_why(one)) {
        page.blank();
        why(&mut page, comparison, one);
    }
    page.finish()
}

/// A comparison in sentences, for other pages than a terminal's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentences {
    /// Per platform: the verdict, a caveat where there is one, then the main part of its difference.
    pub answers: Vec<Vec<String>>,
    /// Caveat on the baseline, where it is the only platform.
    pub caveat: Option<String>,
    /// The work, the runs, and notes on them.
    pub circumstances: Vec<String>,
    /// Per platform that differs, each with its heading: number and price of events, events that differ,
    /// advice.
    pub reasons: Vec<Vec<(&'static str, String)>>,
}

impl Sentences {
    /// The sentences of a comparison.
    pub fn of(compared: &Compared) -> Self {
        let comparison = &compared.comparison;
        let answers = comparison.platforms.iter().map(|one| lines(|page| answer(page, comparison, one)));
        let reasons = |one: &OnePlatform| {
            reasons(comparison, one).iter().map(|reason| (reason.heading, reason.text())).collect()
        };
        let reasons =
            comparison.platforms.iter().map(|one| if is_worth_why(one) { reasons(one) } else { Vec::new() });
        Self {
            answers: answers.collect(),
            caveat: caveat(&wide(), &[&comparison.baseline]),
            circumstances: lines(|page| circumstances(page, compared, Notes::All)),
            reasons: reasons.collect(),
        }
    }
}

/// Lines that never wrap.
fn lines(write: impl FnOnce(&mut Page)) -> Vec<String> {
    let mut page = wide();
    write(&mut page);
    page.finish().lines().map(|line| line.trim().to_owned()).collect()
}

fn wide() -> Page {
    Page::new(Style { width: 100_000, color: false, unicode: true })
}

fn metrics(page: &mut Page, comparison: &Comparison) {
    let baseline = page.name(&comparison.baseline.label, 24);
    let mut rows = vec![vec![
        heading("platform"),
        heading("metric"),
        heading(&baseline),
        heading("this"),
        heading("ratio [95 %]"),
        heading("margin"),
        heading("verdict"),
    ]];
    for one in &comparison.platforms {
        for (index, judged) in one.judged.iter().enumerate() {
            let label = if index == 0 { page.name(&one.side.label, 28) } else { String::new() };
            rows.push(vec![
                label.into(),
                judged.metric.to_string().into(),
                value(judged.metric, judged.baseline).into(),
                value(judged.metric, judged.value).into(),
                ratio(judged.ratio).into(),
                percent(judged.margin).into(),
                Piece::new(verdict(judged.verdict), emphasis_of(judged.verdict)),
            ]);
        }
    }
    let right = Align::Right;
    page.table(&[Align::Left, Align::Left, right, right, Align::Left, right, Align::Left], &rows);
}

fn value(metric: Metric, value: f64) -> String {
    if metric.is_rate() { format!("{value:.2}/s") } else { mean_duration(value) }
}

fn ratio(ratio: Interval) -> String {
    match ratio.low.zip(ratio.high) {
        Some((low, high)) => format!("{:.3} [{low:.3}, {high:.3}]", ratio.value),
        None => format!("{:.3}", ratio.value),
    }
}

/// A verdict in words.
pub fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Slower { clearly: true } => "clearly slower".to_owned(),
        Verdict::Faster { clearly: true } => "clearly faster".to_owned(),
        Verdict::Inconclusive { runs_needed } => format!("inconclusive, {} runs", thousands(runs_needed)),
        Verdict::Slower { .. }
        | Verdict::Faster { .. }
        | Verdict::TooFewRuns
        | Verdict::Drift
        | Verdict::Negligible
        | Verdict::Equivalent => verdict.name().to_owned(),
    }
}

const fn emphasis_of(verdict: Verdict) -> Emphasis {
    match verdict {
        Verdict::Slower { .. } => Emphasis::Bad,
        Verdict::Faster { .. } => Emphasis::Good,
        Verdict::Drift => Emphasis::Warning,
        Verdict::TooFewRuns | Verdict::Negligible | Verdict::Equivalent | Verdict::Inconclusive { .. } => {
            Emphasis::None
        }
    }
}
