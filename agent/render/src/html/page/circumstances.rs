//! Section on the work, the runs, each run's fidelity and what observing cost.

use maud::{Markup, html};

use super::super::report::{Member, Report, View};
use crate::terminal::units::{bytes, duration, percent, thousands};

/// The section.
pub(super) fn circumstances(report: &Report) -> Markup {
    let notes = report.views.iter().flat_map(|view| &view.looked.notes);
    html! {
        @for sentence in &report.sentences.circumstances { p { (sentence) } }
        @for note in notes { p { "note: " (note) } }
        div class="wide" { table id="runs-table" {
            thead { tr { th { "platform" } th { "run" } th { "began (UTC)" } th { "kernel" } th { "CPU" } th { "fidelity" } th class="n" { "lost" } th class="n" { "agent's CPU time" } th class="n" { "its memory" } th class="n" { "attached in" } } }
            tbody { @for view in &report.views { @for member in &view.members { (row(view, member)) } } }
        } }
    }
}

fn row(view: &View, member: &Member) -> Markup {
    let manifest = &member.manifest;
    let cost = &manifest.health.cost;
    let lost: Vec<String> = manifest
        .health
        .losses
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{name} {}", thousands(*count)))
        .collect();
    let share = if cost.wall_ns > 0 {
        format!(" ({} of one CPU)", percent(cost.cpu_ns as f64 / cost.wall_ns as f64))
    } else {
        String::new()
    };
    let failed = manifest
        .health
        .hooks
        .iter()
        .filter(|hook| hook.outcome == "broken" || hook.outcome == "unsupported")
        .count();
    html! { tr {
        td { (view.breakdown.label) } td { (member.name) }
        td { (to_the_second(&manifest.start)) } td { (manifest.kernel) } td { (manifest.cpu_model) }
        td { (manifest.fidelity) @if failed > 0 { ", " (failed) " hooks missing" } }
        td class="n" { @if lost.is_empty() { "nothing" } @else { (lost.join(", ")) } }
        td class="n" { (duration(cost.cpu_ns)) (share) } td class="n" { (bytes(cost.rss_peak_bytes)) } td class="n" { (duration(cost.attach_ns)) }
    } }
}

/// A manifest's time cut to the second: tables are wide enough.
fn to_the_second(time: &str) -> String {
    let seconds = time.split(['.', 'Z']).next().unwrap_or(time);
    seconds.replacen('T', " ", 1)
}

#[cfg(test)]
mod tests {
    use super::to_the_second;

    #[test]
    fn times_are_short_in_tables() {
        assert_eq!(to_the_second("2026-11-21T08:30:21.000000001Z"), "2026-11-21 08:30:21");
        assert_eq!(to_the_second("2026-11-21T08:30:21Z"), "2026-11-21 08:30:21");
        assert_eq!(to_the_second("never"), "never");
    }
}
