//! Latencies by quantile, each platform's and as multiples of the baseline's.

use maud::{Markup, html};

use super::{
    super::{
        charts::{ChartError, Line, largest_ns, latencies, ratio},
        report::Report,
    },
    numbers, sizes,
};
use crate::analyze::compare::Quantile;

/// The section.
pub(super) fn latency(report: &Report) -> Result<Markup, ChartError> {
    let mut curves = Vec::new();
    for (index, one) in report.compared.comparison.platforms.iter().enumerate() {
        if one.curve.len() > 1 {
            curves.push((&one.side.label, ratio(&one.curve, index + 1, &one.side.label)?, &one.curve));
        }
    }
    let baseline = &report.compared.comparison.baseline.label;
    let lines: Vec<Line> = (0..report.views.len()).map(|place| line(report, place)).collect();
    Ok(html! {
        (by_quantile(report)?)
        details { summary { "Numbers" } (table(&lines)) }
        @if !curves.is_empty() { p { "As a multiple of " (baseline) ", from the fastest requests at the left to the slowest. Above 1 is slower. Level: all requests differ alike; rising to the right: the slow ones differ most. The band is the interval." } }
        @for (label, chart, _) in &curves { figure { figcaption class="name" { (label) " as a multiple of " (baseline) } (chart) } }
        @if !curves.is_empty() { details { summary { "Numbers" } @for (label, _, curve) in &curves { div class="wide" { table class="curve" data-of=(label) {
            thead { tr { th class="n" { "quantile" } th class="n" { "baseline" } th class="n" { (label) ", ratio [95 %]" } } }
            tbody { @for point in curve.iter() { tr { td class="n" data-value=(point.quantile) { (format!("{:.1} %", point.quantile * 100.0)) } (numbers::time(point.baseline_ns)) (numbers::ratio(point.ratio)) } } }
        } } } } }
    })
}

/// Lines of all platforms, those of similar size on one axis.
fn by_quantile(report: &Report) -> Result<Markup, ChartError> {
    let (mut charts, mut ends) = (Vec::new(), Vec::new());
    for places in report.axes() {
        let lines: Vec<Line> = places.iter().map(|place| line(report, *place)).collect();
        if lines.iter().any(|line| line.quantiles.len() > 1) {
            ends.push(largest_ns(&lines));
            charts.push((sizes::title(report, &places), latencies(&lines)?));
        }
    }
    Ok(html! { @if !charts.is_empty() {
        p { "Latency by quantile, each further nine as wide as the one before, as far as every run has slower requests; bands are intervals." }
        @if let Some(sentence) = sizes::sentence(&ends) { p class="axes" { (sentence) } }
        @for (title, chart) in &charts { figure { @if charts.len() > 1 { figcaption class="name" { (title) } } (chart) } }
    } })
}

fn line(report: &Report, place: usize) -> Line {
    let view = &report.views[place];
    Line { label: view.breakdown.label.clone(), place, quantiles: view.quantiles.clone() }
}

fn table(lines: &[Line]) -> Markup {
    let longest = lines.iter().map(|line| &line.quantiles).max_by_key(|quantiles| quantiles.len());
    let cell = |line: &Line, quantile: f64| {
        let found: Option<&Quantile> =
            line.quantiles.iter().find(|one| one.quantile.total_cmp(&quantile).is_eq());
        found.map(|one| numbers::time_between(one.latency_ns))
    };
    html! { div class="wide" { table id="quantiles" {
        thead { tr { th class="n" { "quantile" } @for line in lines { th class="n" { (line.label) } } } }
        tbody { @for one in longest.into_iter().flatten() { tr {
            td class="n" data-value=(one.quantile) { (format!("{:.3} %", one.quantile * 100.0)) }
            @for line in lines { @match cell(line, one.quantile) { Some(cell) => (cell), None => td { "-" } } }
        } } }
    } } }
}
