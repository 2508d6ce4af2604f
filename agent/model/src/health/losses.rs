//! Table: everything that was not seen, with its name and its meaning for the numbers. A new counter does not
//! compile until it has both.

use super::{Health, KernelLosses};
use crate::phase::PairingLosses;

/// A kind of data that was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Key in JSON.
    pub key: &'static str,
    /// Number of losses.
    pub count: u64,
    /// Noun, singular and plural.
    pub what: [&'static str; 2],
    /// Effect on the numbers.
    pub meaning: &'static str,
}

impl Loss {
    /// Key in a run folder: `kernel.edges`.
    pub fn stored_key(&self) -> String {
        self.key.replacen('_', ".", 1)
    }
}

/// Losses on the way from the programs to the phases, zero counts included.
pub fn of_observation(health: &Health) -> impl Iterator<Item = Loss> {
    let unanswered = loss(
        "programs_unanswered",
        health.programs_unanswered,
        ["program", "programs"],
        "that went on before the agent was ready: what they marked first (without BPF, all of it) was not seen",
    );
    let of_kernel = of_kernel(health.kernel).into_iter().chain(of_untracked(health.kernel));
    of_kernel.chain(of_pairing(health.pairing)).chain([unanswered])
}

/// Makes one loss.
pub const fn loss(key: &'static str, count: u64, what: [&'static str; 2], meaning: &'static str) -> Loss {
    Loss { key, count, what, meaning }
}

fn of_kernel(losses: KernelLosses) -> [Loss; 12] {
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
        marks_untracked: _,
        requests_untracked: _,
        runs_left_out,
    } = losses;
    let (edge, tasks) =
        (["edge", "edges"], ["fork, exec, exit or new name", "forks, execs, exits or new names"]);
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
        loss(
            "kernel_runs_left_out",
            runs_left_out,
            ["run of a probe", "runs of probes"],
            "that the kernel left out, for any task: so many events at most were not seen",
        ),
    ]
}

/// Marks that no thread with a ledger made.
fn of_untracked(losses: KernelLosses) -> [Loss; 2] {
    let KernelLosses { marks_untracked, requests_untracked, .. } = losses;
    [
        loss(
            "kernel_marks_untracked",
            marks_untracked,
            ["mark", "marks"],
            "of threads that were not tracked: in no phase",
        ),
        loss(
            "kernel_requests_untracked",
            requests_untracked,
            ["request", "requests"],
            "that began on threads that were not tracked: in no number",
        ),
    ]
}

fn of_pairing(losses: PairingLosses) -> [Loss; 12] {
    let PairingLosses {
        edges_lost,
        edges_before,
        unmatched_ends,
        unended_phases,
        damaged_names,
        unknown_edges,
        torn_edges,
        late_ios,
        phases_left_out,
        requests_cut,
        waits_unplaced,
        names_left_out,
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
        loss(
            "pairing_phases_left_out",
            phases_left_out,
            phase,
            "beyond the limits of one request (--max-phases-per-request, and 1,000 within each other), or of all open \
             ones together (20,480, or twice --max-open-requests or --max-phases-per-request), were added up in the \
             phases around them, not kept",
        ),
        loss(
            "pairing_requests_cut",
            requests_cut,
            ["request", "requests"],
            "cut off as the oldest of too many open ones (--max-open-requests), or of open ones with too many phases \
             together",
        ),
        loss(
            "pairing_waits_unplaced",
            waits_unplaced,
            ["long wait", "long waits"],
            "before edges that had not come, too many to keep: perhaps in a wrong phase",
        ),
        loss(
            "pairing_names_left_out",
            names_left_out,
            phase,
            "whose name is beyond the 1,000 that are kept of each source: they are called (other names)",
        ),
    ]
}
