//! The agent's report on itself: hooks, losses with their consequences, its own cost, folder and export.
//!
//! Yields lines on a page, and the losses as a list that JSON shares. Every counter of [`Health`] has a text,
//! those of the observation in [`losses`]: a new one without text does not compile.

use std::time::Duration;

use crate::{
    analyze::{LeftOut, Summary},
    health::{
        AgentCost, ExportHealth, Health, Outcome, Verdict,
        losses::{self, Loss, loss},
    },
};

use super::{
    page::{Emphasis, Page, Piece, words},
    units::{bytes, counted, duration, percent, thousands},
};

/// Columns of the headings.
pub(super) const INDENT: usize = 14;

/// Advice behind a heading, and its source on the lines below.
pub(super) fn advice(page: &mut Page, heading: &str, text: &str, source: &str) {
    fact(page, heading, text, Emphasis::Strong);
    page.wrapped(&[], INDENT, words(source, Emphasis::Faint));
}

/// All losses, including those with a count of zero.
pub(super) fn losses(health: &Health) -> Vec<Loss> {
    let mut losses: Vec<Loss> = losses::of_observation(health).collect();
    let Health {
        fidelity: _,
        hooks: _,
        kernel: _,
        pairing: _,
        programs_unanswered: _,
        not_let_in: _,
        sources: _,
        cost: _,
        export,
        folder_error: _,
        rows_lost,
    } = health;
    let ExportHealth {
        endpoint: _,
        spans_sent: _,
        traces_sent: _,
        spans_spilled,
        spans_dropped,
        spans_rejected,
        waits_left_out,
        last_error: _,
    } = export;
    let spilled = "kept in the run folder: the collector was away";
    let dropped = "neither sent nor kept: the queue was full";
    losses.extend([
        loss("spans_spilled", *spans_spilled, ["span", "spans"], spilled),
        loss("spans_dropped", *spans_dropped, ["span", "spans"], dropped),
        loss("spans_rejected", *spans_rejected, ["span", "spans"], "refused by the collector"),
        loss("waits_left_out", *waits_left_out, ["wait", "waits"], "not in the traces: too many at once"),
        loss("rows_lost", *rows_lost, ["row", "rows"], "not written to the run folder"),
    ]);
    losses
}

/// A heading and words behind it.
pub(super) fn fact(page: &mut Page, heading: &str, text: &str, emphasis: Emphasis) {
    page.wrapped(&[Piece::new(heading, Emphasis::Faint)], INDENT, words(text, emphasis));
}

/// `14 of 14 hooks`: hooks in place of those requested.
pub(super) fn hooks(hooks: &[Verdict]) -> String {
    let asked = hooks.iter().filter(|hook| hook.outcome != Outcome::Off).count();
    let is_in_place = |hook: &&Verdict| matches!(hook.outcome, Outcome::Ok | Outcome::Fallback);
    let in_place = hooks.iter().filter(is_in_place).count();
    format!("{in_place} of {}", counted(asked as u64, "hook", "hooks"))
}

/// Hooks that should have been in place and are not, one a line. At a reduced fidelity its own line covers
/// unsupported hooks.
pub(super) fn missing_hooks(page: &mut Page, health: &Health) {
    let is_folded = !health.fidelity.is_whole();
    let missing = |hook: &&Verdict| match hook.outcome {
        Outcome::Unsupported => !is_folded,
        Outcome::Broken => true,
        Outcome::Ok | Outcome::Fallback | Outcome::Off => false,
    };
    for hook in health.hooks.iter().filter(missing) {
        let (name, consequence) = (page.safe(&hook.hook), page.safe(&hook.consequence));
        let remedy =
            hook.remedy.as_ref().map(|remedy| format!("; hint: {}", page.safe(remedy))).unwrap_or_default();
        let text = format!("{name} ({}): {consequence}{remedy}", hook.outcome.name());
        fact(page, "missing", &text, emphasis(hook.outcome));
    }
}

/// Emphasis of an outcome; its word is printed beside it.
pub(super) const fn emphasis(outcome: Outcome) -> Emphasis {
    match outcome {
        Outcome::Ok | Outcome::Fallback => Emphasis::Good,
        Outcome::Unsupported => Emphasis::Warning,
        Outcome::Broken => Emphasis::Bad,
        Outcome::Off => Emphasis::Faint,
    }
}

/// Line of the agent's cost.
pub(super) fn cost(page: &mut Page, cost: &AgentCost) {
    let AgentCost { cpu, wall, rss_peak_bytes, attach, bpf } = *cost;
    let share = |time: Duration| percent(time.as_secs_f64() / wall.as_secs_f64().max(1e-9));
    let bpf = bpf.map(|bpf| format!(", {} in BPF programs", share(bpf))).unwrap_or_default();
    let (cpu, attach) = (share(cpu), duration_of(attach));
    let text = format!("{cpu} of one CPU{bpf}, {} of memory, attached in {attach}", bytes(rss_peak_bytes));
    fact(page, "agent", &text, Emphasis::None);
}

pub(super) fn duration_of(duration_: Duration) -> String {
    duration(u64::try_from(duration_.as_nanos()).unwrap_or(u64::MAX))
}

/// Each loss that happened, and requests that the statistics leave out.
pub(super) fn lost(page: &mut Page, health: &Health, summary: &Summary) {
    let happened: Vec<Loss> = losses(health).into_iter().filter(|loss| loss.count > 0).collect();
    if happened.is_empty() {
        fact(page, "lost", "nothing", Emphasis::None);
    }
    for loss in happened {
        let what = counted(loss.count, loss.what[0], loss.what[1]);
        fact(page, "lost", &format!("{what} {}", loss.meaning), Emphasis::Warning);
    }
    if health.not_let_in > 0 {
        let came = counted(health.not_let_in, "connection", "connections");
        let text = format!("{came} of processes that are not observed, or that said nothing");
        fact(page, "not let in", &text, Emphasis::None);
    }
    let LeftOut { warmups, unfinished, damaged } = summary.left_out;
    let left_out = [
        (warmups, "warm-up", "warm-ups", ""),
        (unfinished, "unfinished request", "unfinished requests", ": without an end of their own"),
        (damaged, "damaged request", "damaged requests", ": their accounts do not add up"),
    ];
    for (count, one, many, why) in left_out.into_iter().filter(|(count, ..)| *count > 0) {
        let text = format!("{}{why}", counted(count, one, many));
        fact(page, "left out", &text, if why.is_empty() { Emphasis::None } else { Emphasis::Warning });
    }
}

/// Line of the export.
pub(super) fn export(page: &mut Page, export: &ExportHealth) {
    let Some(endpoint) = &export.endpoint else {
        return fact(page, "traces", "not sent: no collector was named", Emphasis::None);
    };
    let (traces, spans) = (thousands(export.traces_sent), counted(export.spans_sent, "span", "spans"));
    let text = format!("{traces} sent to {} ({spans})", page.safe(endpoint));
    fact(page, "traces", &text, Emphasis::None);
    if let Some(error) = &export.last_error {
        let error = page.name(error, 300);
        fact(page, "", &format!("last error: {error}"), Emphasis::Warning);
    }
}
