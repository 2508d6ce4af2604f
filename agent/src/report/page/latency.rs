//! Latencies by quantile, each platform's and as multiples of the baseline's.

use maud::{Markup, html};

use super::{
    super::{
        Report, ReportError,
        charts::{Line, latencies, ratio},
    },
    numbers,
};
use crate::analyze::compare::Quantile;

/// The section.
pub(super) fn latency(report: &Report) -> Result<Markup, ReportError> {
    let lines: Vec<Line> = report
        .views
        .iter()
        .map(|view| Line { label: view.breakdown.label.clone(), quantiles: view.quantiles.clone() })
        .collect();
    let mut curves = Vec::new();
    for (index, one) in report.compared.comparison.platforms.iter().enumerate() {
        if one.curve.len() > 1 {
            curves.push((&one.side.label, ratio(&one.curve, index + 1, &one.side.label)?, &one.curve));
        }
    }
    let has_lines = lines.iter().any(|line| line.quantiles.len() > 1);
    Ok(html! {
        @if has_lines {
            figure { (latencies(&lines)?) figcaption { "Latency by quantile, each further nine as wide as the one before, as far as every run has slower requests; bands are intervals." } }
        }
        details { summary { "Numbers" } (table(&lines)) }
        @for (label, chart, _) in &curves {
            h3 { (label) " as a multiple of " (report.compared.comparison.baseline.label) }
            figure { (chart) figcaption { "Above 1 is slower. Level: all requests differ alike; rising to the right: the slow ones differ most." } }
        }
        @if !curves.is_empty() { details { summary { "Numbers" } @for (label, _, curve) in &curves { div class="wide" { table class="curve" data-of=(label) {
            thead { tr { th class="n" { "quantile" } th class="n" { "baseline" } th class="n" { (label) ", ratio [95 %]" } } }
            tbody { @for point in curve.iter() { tr { td class="n" data-value=(point.quantile) { (format!("{:.1} %", point.quantile * 100.0)) } (numbers::time(point.baseline_ns)) (numbers::ratio(point.ratio)) } } }
        } } } } }
    })
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
