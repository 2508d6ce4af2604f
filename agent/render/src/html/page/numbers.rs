//! Numbers as cells: for people in the text, exact for programs in the attribute `data-value`.

use maud::{Markup, html};

use crate::{
    analyze::compare::{Interval, Metric},
    terminal::units::{difference, mean_duration},
};

/// A duration.
pub(super) fn time(ns: f64) -> Markup {
    html! { td class="n" data-value=(ns) { (mean_duration(ns)) } }
}

/// A duration with its interval.
pub(super) fn time_between(of: Interval) -> Markup {
    html! { td class="n" data-value=(of.value) { (mean_duration(of.value)) (ends(of, mean_duration)) } }
}

/// A difference with its interval.
pub(super) fn more(of: Interval) -> Markup {
    let text = |ns: f64| difference(ns.round() as i64);
    html! { td class="n" data-value=(of.value) { (text(of.value)) (ends(of, text)) } }
}

/// A ratio with its interval.
pub(super) fn ratio(of: Interval) -> Markup {
    let text = |ratio: f64| format!("{ratio:.3}");
    html! { td class="n" data-value=(of.value) { (text(of.value)) (ends(of, text)) } }
}

/// Value of a metric, with its unit.
pub(super) fn metric(metric: Metric, value: f64) -> Markup {
    if metric.is_rate() {
        html! { td class="n" data-value=(value) { (format!("{value:.2}/s")) } }
    } else {
        time(value)
    }
}

fn ends(of: Interval, text: impl Fn(f64) -> String) -> Markup {
    html! { @if let Some((low, high)) = of.low.zip(of.high) { " " span class="ends" { "[" (text(low)) ", " (text(high)) "]" } } }
}
