//! What was found, in sentences: which rank comes last and why, or why none is named.

use crate::{
    analyze::ranks::{
        Arrival, Collective, Difference, Judged, LEAST_CALLS, LEAST_NS, MUCH, Mismatch, OFTEN, Straggler,
        Verdict,
    },
    looks,
    untrusted::{Shown, Untrusted},
};

use super::{
    super::{
        page::{Emphasis, Page},
        units::{counted, difference, duration, percent, thousands},
    },
    facts::{NAME, RanksFacts},
};

/// The first lines.
pub(super) fn answer(page: &mut Page, judged: &Judged, facts: &RanksFacts) {
    let named = judged.straggler.as_ref().and_then(|one| Some((one, late(page, judged, facts, one)?)));
    match &named {
        Some((straggler, text)) => {
            page.sentence(text, Emphasis::Warning);
            let why = why(page, straggler);
            page.sentence(&why, Emphasis::None);
        }
        None => page.sentence(nobody(judged), Emphasis::Strong),
    }
    let said = named.map(|(straggler, _)| straggler.collective);
    for (at, collective) in judged.collectives.iter().enumerate() {
        if said != Some(at) {
            page.sentence(&of_one(collective, facts), Emphasis::None);
        }
    }
}

/// What is said where nobody is named.
fn nobody(judged: &Judged) -> &'static str {
    let is_judged = |one: &Collective| matches!(one.verdict, Verdict::Even | Verdict::Little(_));
    if judged.collectives.is_empty() {
        "no rank is named: no collective was called by two ranks"
    } else if judged.collectives.iter().all(is_judged) {
        "no rank is late"
    } else {
        "no rank is named: it is not certain who came last"
    }
}

/// `rank 1 comes last`, with how often and by how much.
fn late(page: &Page, judged: &Judged, facts: &RanksFacts, straggler: &Straggler) -> Option<String> {
    let rank = judged.ranks.get(straggler.rank)?;
    let collective = judged.collectives.get(straggler.collective)?;
    let &Arrival { last, late_ns, margin_ns, .. } = collective.arrival(straggler.rank)?;
    let folder = facts.folders.get(rank.folder)?;
    let folder = folder.path.file_name().map_or_else(Untrusted::default, Shown::shown);
    let folder = page.name(folder, NAME * 3);
    let calls = counted(collective.calls, "call", "calls");
    Some(format!(
        "rank {} (process {} in {folder}) came last to {} of {calls} of {}: {} after all others in the \
         median, and {} the mean of the others in the mean, with {} from one call to the next",
        straggler.rank,
        rank.pid,
        thousands(last),
        collective.name,
        duration(margin_ns.unsigned_abs()),
        after(late_ns),
        duration(collective.between_ns),
    ))
}

/// `5.02 ms after`.
fn after(ns: i64) -> String {
    format!("{} {}", duration(ns.unsigned_abs()), if ns < 0 { "before" } else { "after" })
}

/// By what its steps differ.
fn why(page: &Page, straggler: &Straggler) -> String {
    let Some(steps) = &straggler.steps else {
        return "why is not known: no steps are marked in it and another rank (requests other than \
                collectives)"
            .to_owned();
    };
    let name = page.name(&steps.name, NAME * 2);
    let more = |all: &[Difference]| -> Vec<String> {
        let more = all.iter().filter(|one| one.ns() > 0);
        let text = |one: &Difference| {
            let verb = looks::of(one.account).verb;
            format!("{} of {} ({verb})", difference(one.ns()), one.account.name())
        };
        more.map(text).collect()
    };
    let (own, helpers) = (more(&steps.accounts), more(&steps.helpers));
    let steps = format!("beside the others' its step ({name}) has, outside collectives,");
    let of_helpers = format!("its other threads meanwhile have {}", helpers.join(", "));
    match (own.is_empty(), helpers.is_empty()) {
        (true, true) => {
            format!("{steps} no more of any account: it loses the time elsewhere, as between its steps")
        }
        (true, false) => format!("{steps} no more of any account; {of_helpers}"),
        (false, true) => format!("{steps} {}", own.join(", ")),
        (false, false) => format!("{steps} {}; {of_helpers}", own.join(", ")),
    }
}

/// What is concluded of one collective.
fn of_one(collective: &Collective, facts: &RanksFacts) -> String {
    let Collective { name, calls, between_ns, verdict, .. } = collective;
    let came = |rank: usize| {
        let &Arrival { last, margin_ns, .. } = collective.arrival(rank).unwrap_or(&NOBODY);
        let last = percent(last as f64 / (*calls).max(1) as f64);
        let calls = counted(*calls, "call", "calls");
        format!(
            "{name}: rank {rank} came last to {last} of {calls}, {} all others in the median",
            after(margin_ns)
        )
    };
    match *verdict {
        Verdict::Late(rank) => came(rank),
        Verdict::Even => even(collective),
        Verdict::Little(rank) => format!(
            "{}: too little to matter, less than {} of the {} between two calls or than {}",
            came(rank),
            percent(MUCH),
            duration(*between_ns),
            duration(LEAST_NS)
        ),
        Verdict::WithinClocks(rank) => format!(
            "{}: clocks of these guests may differ by as much, {} (--clocks)",
            came(rank),
            duration(facts.apart_ns)
        ),
        Verdict::Ambiguous(rank) => format!(
            "{}, if calls belong together as their times suggest: it may as well be early for the next call",
            came(rank)
        ),
        Verdict::TooFew => {
            format!("{name}: fewer than {LEAST_CALLS} calls were made by all ranks that call it")
        }
        Verdict::Unmatched(rank, mismatch) => format!("{name}: {}", unmatched(rank, mismatch)),
    }
}

const NOBODY: Arrival = Arrival { rank: 0, last: 0, late_ns: 0, margin_ns: 0 };

/// Nobody mostly came last: who did most often.
fn even(collective: &Collective) -> String {
    let Collective { name, calls, arrivals, .. } = collective;
    let most = arrivals.iter().max_by_key(|arrival| (arrival.last, std::cmp::Reverse(arrival.rank)));
    let Arrival { rank, last, late_ns, .. } = most.copied().unwrap_or(NOBODY);
    let part = percent(last as f64 / (*calls).max(1) as f64);
    let calls = counted(*calls, "call", "calls");
    format!(
        "{name}: rank {rank} came last most often, to {part} of {calls} (from {} on it is late), and {} the \
         mean of the others in the mean",
        percent(OFTEN),
        after(late_ns)
    )
}

fn unmatched(rank: usize, mismatch: Mismatch) -> String {
    match mismatch {
        Mismatch::OtherTimes => format!(
            "rank {rank} made its calls at other times than the others: its folder is of another run, or its \
             clock is wrong"
        ),
        Mismatch::Unclear => format!(
            "which calls of rank {rank} belong to which of the others is not clear: it was not seen from its \
             first call on, or calls are missing"
        ),
        Mismatch::Shifted => format!(
            "calls of rank {rank} fit those of the others in a part of the run only: calls are missing in \
             between, or ranks do not wait for each other"
        ),
    }
}
