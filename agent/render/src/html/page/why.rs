//! The parts of each difference, by phase and cause, and the sentences of `compare` on number, price and
//! advice.

use maud::{Markup, html};

use super::{super::report::Report, numbers, parts::path};
use crate::{
    analyze::compare::{Compared, Decomposition},
    terminal::units::percent,
};

/// Most parts listed.
const MOST_PARTS: usize = 12;
/// Share below which parts are summed up.
const SMALL: f64 = 0.01;

/// The section; none without a second platform.
pub(super) fn why(report: &Report) -> Option<Markup> {
    let comparison = &report.compared.comparison;
    let platforms = || comparison.platforms.iter().zip(&report.sentences.reasons);
    (!comparison.platforms.is_empty()).then(|| {
        html! {
            @for (one, reasons) in platforms() {
                h3 { (one.side.label) " against " (comparison.baseline.label) }
                @for (heading, sentence) in reasons { p { b { (heading) } " " (sentence) } }
                (parts(one))
            }
        }
    })
}

fn parts(one: &Compared) -> Markup {
    let tail = one
        .tail
        .as_ref()
        .map(|tail| (format!("slowest {}", percent(1.0 - tail.quantile)), &tail.decomposition));
    let tables = std::iter::once(("mean".to_owned(), &one.mean)).chain(tail);
    html! { @for (name, whole) in tables { details open[name == "mean"] { summary { "Parts of the " (name) } (table(&name, whole)) } } }
}

fn table(name: &str, whole: &Decomposition) -> Markup {
    let total = whole.difference_ns.value;
    let shown = whole.largest(SMALL, MOST_PARTS);
    let rest = total - whole.residual_ns - shown.iter().map(|part| part.difference_ns.value).sum::<f64>();
    let share = |ns: f64| if total == 0.0 { "-".to_owned() } else { format!("{:.0} %", ns / total * 100.0) };
    html! { div class="wide" { table class="parts" data-of=(name) {
        thead { tr { th { "phase" } th { "cause" } th class="n" { "baseline" } th class="n" { "difference [95 %]" } th class="n" { "of it" } } }
        tbody {
            @for part in &shown { tr {
                td { (path(&part.path)) } td { (part.cause.name()) }
                (numbers::time(part.baseline_ns)) (numbers::more(part.difference_ns)) td class="n" { (share(part.difference_ns.value)) }
            } }
            tr { td { "rest" } td {} td {} (numbers::more(rest.into())) td class="n" { (share(rest)) } }
            tr class="all" { td { "all" } td {} (numbers::time(whole.baseline_ns)) (numbers::more(whole.difference_ns)) td class="n" { "residual " (format!("{:.0} ns", whole.residual_ns)) } }
        }
    } } }
}
