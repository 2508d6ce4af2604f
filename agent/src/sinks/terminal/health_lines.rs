//! What the agent says of itself: hooks, losses with what they mean, its own cost, folder and export.
//!
//! Yields lines on a page, and the losses as a list that JSON shares. Every counter of [`Health`] is named here: a
//! new one does not compile until it has words.

use std::time::Duration;

use crate::{
    analyze::{LeftOut, Summary},
    health::{AgentCost, ExportHealth, Health, KernelLosses, Outcome, Verdict},
    phase::PairingLosses,
};

use super::{
    page::{Emphasis, Page, Piece, words},
    units::{bytes, counted, duration, percent, thousands},
};

/// Columns of the headings.
pub(super) const INDENT: usize = 14;

/// Something that was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    /// Key in JSON.
    pub(super) key: &'static str,
    pub(super) count: u64,
    /// One of them, and many.
    pub(super) what: [&'static str; 2],
    /// What it means for the numbers.
    pub(super) meaning: &'static str,
}

/// All losses, those that did not happen too.
pub(super) fn losses(health: &Health) -> Vec<Loss> {
    let Health { fidelity: _, hooks: _, kernel, pairing, cost: _, export, folder_error: _, rows_lost } =
        health;
    let mut losses = Vec::from(kernel_losses(*kernel));
    losses.extend(pairing_losses(*pairing));
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

const fn loss(key: &'static str, count: u64, what: [&'static str; 2], meaning: &'static str) -> Loss {
    Loss { key, count, what, meaning }
}

fn kernel_losses(losses: KernelLosses) -> [Loss; 11] {
    let KernelLosses {
        edges,
        task_events,
        tasks_missed,
        edges_torn,
        stale_slots,
        unknown_abi,
        waits,
        sums_torn,
        ends_unseen,
        ios,
        edges_unfinished,
    } = losses;
    let (edge, tasks) = (["edge", "edges"], ["fork, exec or exit", "forks, execs or exits"]);
    let no_room = "for which the ring had no room: phases may be missing";
    let torn = "that switches tore: times around them are uncertain";
    [
        loss("kernel_edges", edges, edge, no_room),
        loss("kernel_task_events", task_events, tasks, "for which the ring had no room"),
        loss("kernel_tasks_missed", tasks_missed, ["thread", "threads"], "not tracked: no slot was free"),
        loss("kernel_edges_torn", edges_torn, edge, torn),
        loss("kernel_stale_slots", stale_slots, ["thread", "threads"], "whose end was not seen"),
        loss("kernel_unknown_abi", unknown_abi, edge, "from a marker library that this agent does not know"),
        loss("kernel_waits", waits, ["long wait", "long waits"], "without a row: the ring had no room"),
        loss(
            "kernel_sums_torn",
            sums_torn,
            ["sum", "sums"],
            "over helper threads, torn as one of them ended or switched",
        ),
        loss(
            "kernel_ends_unseen",
            ends_unseen,
            ["thread", "threads"],
            "whose last switch reached no hook: without their last stay on a CPU",
        ),
        loss("kernel_ios", ios, ["I/O", "I/Os"], "whose time is not known: no room, or the end was missed"),
        loss(
            "kernel_edges_unfinished",
            edges_unfinished,
            edge,
            "that a thread began to write and did not finish",
        ),
    ]
}

fn pairing_losses(losses: PairingLosses) -> [Loss; 8] {
    let PairingLosses {
        edges_lost,
        edges_before,
        unmatched_ends,
        unended_phases,
        damaged_names,
        unknown_edges,
        torn_edges,
        late_ios,
    } = losses;
    let (edge, phase) = (["edge", "edges"], ["phase", "phases"]);
    [
        loss("pairing_edges_lost", edges_lost, edge, "that never arrived: phases may be missing or too long"),
        loss("pairing_edges_before", edges_before, edge, "from before the probe was in place"),
        loss("pairing_unmatched_ends", unmatched_ends, ["end", "ends"], "of phases whose begin was not seen"),
        loss("pairing_unended_phases", unended_phases, phase, "whose end was not seen"),
        loss("pairing_damaged_names", damaged_names, ["name", "names"], "cut, unreadable or no UTF-8"),
        loss("pairing_unknown_edges", unknown_edges, edge, "of a kind that this agent does not know"),
        loss("pairing_torn_edges", torn_edges, edge, "with a torn ledger: times around them are uncertain"),
        loss(
            "pairing_late_ios",
            late_ios,
            ["I/O", "I/Os"],
            "done after the request that began it was over: in no phase",
        ),
    ]
}

/// A heading and words behind it.
pub(super) fn fact(page: &mut Page, heading: &str, text: &str, emphasis: Emphasis) {
    page.wrapped(&[Piece::new(heading, Emphasis::Faint)], INDENT, words(text, emphasis));
}

/// `14 of 14 hooks`: those in place of those that were asked for.
pub(super) fn hooks(hooks: &[Verdict]) -> String {
    let asked = hooks.iter().filter(|hook| hook.outcome != Outcome::Off).count();
    let is_in_place = |hook: &&Verdict| matches!(hook.outcome, Outcome::Ok | Outcome::Fallback);
    let in_place = hooks.iter().filter(is_in_place).count();
    format!("{in_place} of {}", counted(asked as u64, "hook", "hooks"))
}

/// Hooks that should have been in place and are not, one a line. What goes without saying at this fidelity is said once.
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

/// How an outcome is shown; its word stands beside it.
pub(super) const fn emphasis(outcome: Outcome) -> Emphasis {
    match outcome {
        Outcome::Ok | Outcome::Fallback => Emphasis::Good,
        Outcome::Unsupported => Emphasis::Warning,
        Outcome::Broken => Emphasis::Bad,
        Outcome::Off => Emphasis::Faint,
    }
}

/// What the agent cost.
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

/// Each loss that happened, and what statistics leave out.
pub(super) fn lost(page: &mut Page, health: &Health, summary: &Summary) {
    let happened: Vec<Loss> = losses(health).into_iter().filter(|loss| loss.count > 0).collect();
    if happened.is_empty() {
        fact(page, "lost", "nothing", Emphasis::None);
    }
    for loss in happened {
        let what = counted(loss.count, loss.what[0], loss.what[1]);
        fact(page, "lost", &format!("{what} {}", loss.meaning), Emphasis::Warning);
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

/// What became of the traces.
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
