//! Bars of a mean request by phase, cause and platform, and their numbers.

use maud::{Markup, html};

use super::{
    super::{
        charts::{Bar, ChartError, Group, longest_ns, stacked},
        report::{Report, View},
    },
    numbers,
    parts::{legend, path},
    sizes,
};
use crate::analyze::{
    Cause,
    compare::{Breakdown, Interval, Path},
};

/// Most phases with bars of their own.
const MOST_PHASES: usize = 8;
/// Least share of all time for a line of the table.
const LEAST_SHARE: f64 = 0.000_5;
/// Least share for a bar: it would be three pixels long beside the longest.
const LEAST_BAR: f64 = 0.005;

/// The section.
pub(super) fn time(report: &Report) -> Result<Markup, ChartError> {
    let paths = paths(&report.views);
    let axes = report.axes();
    let groups: Vec<(Vec<Group>, Vec<Group>)> =
        axes.iter().map(|places| groups(report, places, &paths)).collect();
    let ends: Vec<f64> = groups.iter().map(|(groups, _)| longest_ns(groups)).collect();
    let mut parts = Vec::new();
    for ((places, (groups, short)), end) in axes.iter().zip(&groups).zip(&ends) {
        let mut charts = Vec::new();
        for group in groups {
            charts
                .push(html! { figure { figcaption class="name" { (group.name) } (stacked(group, *end)?) } });
        }
        let short: Vec<&str> = short.iter().map(|group| group.name.as_str()).collect();
        parts.push(html! {
            @if axes.len() > 1 { h3 { (sizes::title(report, places)) } }
            @for chart in &charts { (chart) }
            @if !short.is_empty() { p { "Less than half a per cent of a request each, too short for bars: " (short.join(", ")) "." } }
        });
    }
    let is_used = |cause: Cause| {
        let mut bars = groups.iter().flat_map(|(groups, _)| groups).flat_map(|group| &group.bars);
        bars.any(|bar| bar.parts.iter().any(|(known, _)| *known == cause))
    };
    Ok(html! {
        p { "A mean request: time by cause, in the whole and in the own time of its phases. The line at a bar's end is its interval." }
        @if let Some(sentence) = sizes::sentence(&ends) { p class="axes" { (sentence) } }
        (legend(is_used))
        @for part in &parts { (part) }
        details { summary { "Numbers" } (table(&report.views)) }
    })
}

/// The bars of those platforms, of whole requests and of each phase; then those of phases that are too short
/// on all of them.
fn groups(report: &Report, places: &[usize], paths: &[Path]) -> (Vec<Group>, Vec<Group>) {
    let views: Vec<&View> = places.iter().map(|place| &report.views[*place]).collect();
    let whole = group("whole request", &views, |_| true);
    if paths.len() < 2 {
        return (vec![whole], Vec::new());
    }
    let is_long = |group: &Group| {
        let mut bars = group.bars.iter().zip(&views);
        bars.any(|(bar, view)| bar.total_ns.value >= view.breakdown.mean_ns.value * LEAST_BAR)
    };
    let phases = paths.iter().map(|of| group(&path(of).to_string(), &views, |other| other == of));
    let (long, short): (Vec<Group>, Vec<Group>) = phases.partition(is_long);
    (std::iter::once(whole).chain(long).collect(), short)
}

/// The phases with most time, in order of occurrence. Ranked by share, so that a slow platform does not count
/// for more.
fn paths(views: &[View]) -> Vec<Path> {
    let mut known: Vec<(Path, f64)> = Vec::new();
    for Breakdown { mean_ns, shares, .. } in views.iter().map(|view| &view.breakdown) {
        for share in shares {
            let part = share.mean_ns.value / mean_ns.value.max(1.0);
            match known.iter_mut().find(|(path, _)| *path == share.path) {
                Some((_, sum)) => *sum += part,
                None => known.push((share.path.clone(), part)),
            }
        }
    }
    let mut sums: Vec<f64> = known.iter().map(|(_, sum)| *sum).collect();
    sums.sort_by(|a, b| b.total_cmp(a));
    let least = sums.get(MOST_PHASES - 1).copied().unwrap_or(0.0);
    known.into_iter().filter(|(_, sum)| *sum >= least).map(|(path, _)| path).take(MOST_PHASES).collect()
}

fn group(name: &str, views: &[&View], is_in: impl Fn(&Path) -> bool) -> Group {
    let bar = |view: &&View| {
        let Breakdown { label, mean_ns, shares } = &view.breakdown;
        let shares: Vec<_> = shares.iter().filter(|share| is_in(&share.path)).collect();
        let of = |cause: Cause| {
            let ns: f64 =
                shares.iter().filter(|share| share.cause == cause).map(|share| share.mean_ns.value).sum();
            (ns > 0.0).then_some((cause, ns))
        };
        let parts: Vec<(Cause, f64)> = Cause::all().filter_map(of).collect();
        let sum: f64 = parts.iter().map(|(_, ns)| ns).sum();
        let is_whole = shares.len() == view.breakdown.shares.len();
        Bar { label: label.clone(), parts, total_ns: if is_whole { *mean_ns } else { Interval::from(sum) } }
    };
    Group { name: name.to_owned(), bars: views.iter().map(bar).collect() }
}

fn table(views: &[View]) -> Markup {
    let mut rows: Vec<(&Path, Cause)> = Vec::new();
    for view in views {
        let least = view.breakdown.mean_ns.value * LEAST_SHARE;
        for share in view.breakdown.shares.iter().filter(|share| share.mean_ns.value.abs() >= least) {
            if !rows.contains(&(&share.path, share.cause)) {
                rows.push((&share.path, share.cause));
            }
        }
    }
    let order: Vec<&Path> =
        views.iter().flat_map(|view| &view.breakdown.shares).map(|share| &share.path).collect();
    rows.sort_by_key(|(path, cause)| (order.iter().position(|known| known == path), *cause));
    let cell = |view: &View, path: &Path, cause: Cause| {
        let found = view.breakdown.shares.iter().find(|share| share.path == *path && share.cause == cause);
        numbers::time_between(found.map_or_else(|| 0.0.into(), |share| share.mean_ns))
    };
    html! { div class="wide" { table id="shares" {
        thead { tr { th { "phase" } th { "cause" } @for view in views { th class="n" { (view.breakdown.label) } } } }
        tbody {
            @for (of, cause) in &rows { tr { td { (path(of)) } td { (cause.name()) } @for view in views { (cell(view, of, *cause)) } } }
            tr class="all" { td { "all" } td {} @for view in views { (numbers::time_between(view.breakdown.mean_ns)) } }
        }
    } } }
}

impl View {
    /// The wait account with most of a mean request, in words; none where it hardly waits.
    pub(super) fn largest_wait(&self) -> Option<String> {
        let Breakdown { mean_ns, shares, .. } = &self.breakdown;
        let is_wait = |cause: Cause| {
            cause != Cause::Account(guestscope_contract::Account::Cpu) && !matches!(cause, Cause::Overlay(_))
        };
        let largest = shares
            .iter()
            .filter(|share| is_wait(share.cause))
            .max_by(|a, b| a.mean_ns.value.total_cmp(&b.mean_ns.value))?;
        let share = largest.mean_ns.value / mean_ns.value.max(1.0);
        (share >= 0.01).then(|| {
            format!(
                "{} in {} ({})",
                largest.cause.name(),
                path(&largest.path),
                crate::terminal::units::percent(share)
            )
        })
    }
}
