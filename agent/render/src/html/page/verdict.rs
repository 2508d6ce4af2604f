//! The answer, and the numbers on which it stands.

use maud::{Markup, html};

use super::{super::report::Report, numbers};
use crate::{
    analyze::compare::{Compared, Overall},
    terminal::{
        units::{counted, mean_duration, percent},
        verdict_words,
    },
};

/// Most answers shown one by one; beyond that a tally comes first.
const FEW: usize = 3;

/// Headline of the page.
pub(super) fn headline(report: &Report) -> Markup {
    let platforms = &report.compared.comparison.platforms;
    let answers = || report.sentences.answers.iter().zip(platforms);
    html! {
        @match platforms.len() {
            0 => (alone(report)),
            1..=FEW => @for (sentences, one) in answers() { (answer(sentences, one)) },
            _ => (many(report)),
        }
    }
}

/// Headline of platforms with nothing to compare with.
fn alone(report: &Report) -> Markup {
    html! { @for view in &report.views {
        p class="answer plain" {
            (view.breakdown.label) ": a mean request takes " (mean_duration(view.breakdown.mean_ns.value))
            @if let Some(share) = view.largest_wait() { ", of which it waits longest for " (share) }
        }
        @if let Some(caveat) = &report.sentences.caveat { p class="because" { (caveat) } }
    } }
}

fn answer(sentences: &[String], one: &Compared) -> Markup {
    html! { @for (index, sentence) in sentences.iter().enumerate() {
        @if index == 0 { p class={ "answer " (class(one.overall)) } { (sentence) } }
        @else { p class="because" { (sentence) } }
    } }
}

/// Count of each verdict, then line by line; emulated platforms last, with one caveat for all of them.
fn many(report: &Report) -> Markup {
    let comparison = &report.compared.comparison;
    let is_apart = |one: &Compared| comparison.baseline.emulated == 0 && one.side.emulated == one.side.runs;
    let (apart, others): (Vec<&Compared>, Vec<&Compared>) =
        comparison.platforms.iter().partition(|one| is_apart(one));
    let answers = || report.sentences.answers.iter().zip(&comparison.platforms);
    html! {
        p class="answer plain" { (tally(report, &others, &apart)) }
        ul class="answers" { @for (sentences, one) in answers().filter(|(_, one)| !is_apart(one)) { (item(sentences, one)) } }
        @if !apart.is_empty() {
            p class="apart" { "emulated by QEMU (TCG), all that follow: what that costs is the emulator's, and nothing about a platform follows from it" }
            ul class="answers" { @for (sentences, one) in answers().filter(|(_, one)| is_apart(one)) {
                // The caveat, which is the second of an emulated platform's sentences, stands above.
                (item(&[sentences.get(..1), sentences.get(2..)].map(Option::unwrap_or_default).concat(), one))
            } }
        }
    }
}

fn item(sentences: &[String], one: &Compared) -> Markup {
    let label = one.side.label.as_str();
    html! { li class=(class(one.overall)) { @for (index, sentence) in sentences.iter().enumerate() {
        @match sentence.strip_prefix(label).filter(|_| index == 0) {
            Some(rest) => p { b { (label) } (rest) },
            None => p { (sentence) },
        }
    } } }
}

/// `Of 5 platforms against BM/2/VNL/CPU (31.5 ms a mean request): 1 slower, 4 equivalent. Of 6 emulated: 6
/// slower`
fn tally(report: &Report, others: &[&Compared], apart: &[&Compared]) -> String {
    let counts = |of: &[&Compared]| {
        let count = |(overall, word): &(Overall, &str)| {
            let count = of.iter().filter(|one| one.overall == *overall).count();
            (count > 0).then(|| format!("{count} {word}"))
        };
        WORDS.iter().filter_map(count).collect::<Vec<_>>().join(", ")
    };
    let against = format!(
        "against {} ({} a mean request)",
        report.compared.comparison.baseline.label,
        mean_duration(report.views.first().map_or(0.0, |view| view.breakdown.mean_ns.value)),
    );
    let (of_others, of_apart) = (counts(others), counts(apart));
    match (others.len(), apart.len()) {
        (0, apart) => format!("Of {apart} platforms {against}, all emulated: {of_apart}"),
        (others, 0) => format!("Of {others} platforms {against}: {of_others}"),
        (others, apart) => format!(
            "Of {} {against}: {of_others}. Of {apart} emulated: {of_apart}",
            counted(others as u64, "platform", "platforms")
        ),
    }
}

/// All verdicts, most urgent first.
const WORDS: [(Overall, &str); 8] = [
    (Overall::Slower, "slower"),
    (Overall::Faster, "faster"),
    (Overall::Mixed, "slower by one metric and faster by another"),
    (Overall::Negligible, "negligible"),
    (Overall::Equivalent, "equivalent"),
    (Overall::Inconclusive, "inconclusive"),
    (Overall::TooFewRuns, "with too few runs"),
    (Overall::Drift, "drifting"),
];

const fn class(overall: Overall) -> &'static str {
    match overall {
        Overall::Slower => "bad",
        Overall::Faster => "good",
        Overall::Mixed | Overall::Drift => "warning",
        Overall::Equivalent | Overall::Negligible | Overall::Inconclusive | Overall::TooFewRuns => "plain",
    }
}

/// Table of verdicts, metric by metric.
pub(super) fn verdict(report: &Report) -> Markup {
    let comparison = &report.compared.comparison;
    html! {
        @if comparison.platforms.is_empty() {
            p { "All runs are of one platform, so there is nothing to compare it with." }
        } @else {
            div class="wide" { table id="metrics" {
                thead { tr { th { "platform" } th { "metric" } th { "verdict" } th class="n" { (comparison.baseline.label) } th class="n" { "this" } th class="n" { "ratio [95 %]" } th class="n" { "margin" } } }
                tbody { @for one in &comparison.platforms { @for judged in &one.judged { tr {
                    td { (one.side.label) } td { (judged.metric.to_string()) } td { (verdict_words(judged.verdict)) }
                    (numbers::metric(judged.metric, judged.baseline)) (numbers::metric(judged.metric, judged.value))
                    (numbers::ratio(judged.ratio)) td class="n" { (percent(judged.margin)) }
                } } } }
            } }
            details { summary { "What the words mean" } ul {
                li { b { "slower, faster" } ": surely different, and by more than the margin that was fixed before" }
                li { b { "negligible" } ": surely different, and surely by less" }
                li { b { "equivalent" } ": surely not different by more than the margin" }
                li { b { "inconclusive" } ": none of these; the number says how many runs of each would settle it" }
            } }
        }
    }
}
