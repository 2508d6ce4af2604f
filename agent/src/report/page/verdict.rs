//! The answer, and the numbers on which it stands.

use maud::{Markup, html};

use super::{super::Report, numbers};
use crate::{
    analyze::compare::Overall,
    sinks::terminal::{
        units::{mean_duration, percent},
        verdict_words,
    },
};

/// What a reader sees first.
pub(super) fn headline(report: &Report) -> Markup {
    let answers = report.sentences.answers.iter().zip(&report.compared.comparison.platforms);
    html! {
        @for (sentences, one) in answers {
            @for (index, sentence) in sentences.iter().enumerate() {
                @if index == 0 { p class={ "answer " (class(one.overall)) } { (sentence) } }
                @else { p class="because" { (sentence) } }
            }
        }
        @if report.sentences.answers.is_empty() { @for view in &report.views {
            p class="answer plain" {
                (view.breakdown.label) ": a mean request takes " (mean_duration(view.breakdown.mean_ns.value))
                @if let Some(share) = view.largest_wait() { ", of which it waits longest for " (share) }
            }
            @if let Some(caveat) = &report.sentences.caveat { p class="because" { (caveat) } }
        } }
    }
}

const fn class(overall: Overall) -> &'static str {
    match overall {
        Overall::Slower => "bad",
        Overall::Faster => "good",
        Overall::Mixed | Overall::Drift => "warning",
        Overall::Equivalent | Overall::Negligible | Overall::Inconclusive | Overall::TooFewRuns => "plain",
    }
}

/// Metric by metric.
pub(super) fn verdict(report: &Report) -> Markup {
    let comparison = &report.compared.comparison;
    html! {
        @if comparison.platforms.is_empty() {
            p { "All runs are of one platform, so there is nothing to compare it with." }
        } @else {
            div class="wide" { table id="metrics" {
                thead { tr { th { "platform" } th { "metric" } th { "verdict" } th class="n" { (comparison.baseline.label) } th class="n" { "this" } th class="n" { "ratio [95 %]" } th class="n" { "margin" } } }
                tbody { @for one in &comparison.platforms { @for judged in &one.judged { tr {
                    td { (one.side.label) } td { (judged.metric.name()) } td { (verdict_words(judged.verdict)) }
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
