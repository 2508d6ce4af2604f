//! `guestscope explain` for people: what makes requests slow, the parts of the tail, then request by request
//! with the evidence behind each part, and advice.
//!
//! Yields text. Parts that are too small to be shown are summed up as `rest` and `elsewhere`, so that every
//! block adds up to the excess in its first line.

mod advised;
mod calls;
mod counted;
mod culprits;
mod evidence;
mod facts;
mod json;
mod json_waits;
mod limited;
mod shown;
pub(super) mod syscalls;
mod tail;
mod worked;

#[cfg(test)]
mod called_tests;
#[cfg(test)]
mod held_up_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod worked_tests;

use crate::untrusted::Shown as _;
use crate::{
    analyze::{
        Cause, Group, Headline, MostCalled, OUTSIDE, Overlay,
        explain::{Advised, Behind, Case, Explained, Explanation, Naming},
    },
    health::Fidelity,
};

use self::{
    advised::advised,
    culprits::Words,
    evidence::about,
    facts::ExplainedRun,
    shown::{ShownPart, ShownPhase, shown},
};
pub use self::{
    facts::{ExplainFacts, Shown},
    json::render_explanation_json,
};
use super::{
    findings::{headline_of, numbers, path_name},
    gpu_work,
    health_lines::{self, fact},
    hidden,
    page::{Emphasis, Page, Piece, words},
    starved,
    style::Style,
    text::{left, quoted, right, width},
    units::{counted, difference, duration, hex, thousands},
    unseen,
};

/// The whole explanation.
pub fn render_explanation(explanation: &Explanation, facts: &ExplainFacts, style: Style) -> String {
    let mut page = Page::new(style);
    hidden::lines(&mut page, &facts.hidden, facts.same_syscalls);
    let run = ExplainedRun { explanation, facts };
    let groups = explanation.summary.groups.iter().zip(&explanation.groups);
    let has_many = explanation.summary.groups.len() > 1;
    let mut is_first = true;
    for (group, explained) in groups {
        // A request chosen by its number is of one kind.
        if facts.shown.is_one() && explained.cases.is_empty() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            page.blank();
        }
        render_group(&mut page, group, explained, run, has_many);
    }
    page.blank();
    render_facts(&mut page, explanation, facts);
    page.finish()
}

fn render_group(
    page: &mut Page,
    group: &Group,
    explained: &Explained,
    run: ExplainedRun<'_>,
    has_many: bool,
) {
    let ExplainedRun { explanation, facts } = run;
    let unicode = page.style().unicode;
    let name = if has_many { format!("{}: ", page.name(&group.name, 64)) } else { String::new() };
    page.sentence(&format!("{name}{}", numbers(group)), Emphasis::Strong);
    let (advised, limits) = advised(group, explained, &explanation.circle, facts);
    if facts.shown.is_one() {
        for case in &explained.cases {
            page.blank();
            render_case(page, case, group, run);
        }
        page.blank();
        limited::render(page, &limits);
        render_advice(page, &advised);
        return;
    }
    let headline = explained.headline(group);
    let emphasis = match headline {
        Headline::Cause { .. } | Headline::Shared { .. } => Emphasis::Warning,
        Headline::Mixed { .. } | Headline::TooFew { .. } | Headline::Alike { .. } => Emphasis::None,
    };
    page.sentence(&headline_of(group, &headline, facts.cpu_quota.as_ref(), unicode), emphasis);
    tail::sentence(page, group, explained);
    let recorded = facts.gpu_work.as_ref();
    starved::line_and_advice(page, group, gpu_work::busy_percent(group, recorded, facts.gpu_serving_percent));
    gpu_work::line_and_advice(page, group, recorded);
    render_who(page, explained, &advised, run);
    limited::render(page, &limits);
    render_advice(page, &advised);
    let is_alike = matches!(group.headline, Headline::Alike { .. });
    if !explained.tails.is_empty() && !is_alike {
        page.blank();
        tail::table(page, explained);
    }
    for case in explained.cases.iter().take(facts.shown.most()) {
        if is_alike && case.excess_ns <= group.typical_ns as i64 / HARDLY {
            continue;
        }
        page.blank();
        render_case(page, case, group, run);
    }
}

/// Culprits of the main cause, over all of the slowest requests, shown or not.
fn render_who(page: &mut Page, explained: &Explained, advised: &[Advised], run: ExplainedRun<'_>) {
    let ExplainedRun { explanation, facts } = run;
    let leading = advised.iter().find(|one| one.naming != Naming::Limit);
    let leading = leading.and_then(|first| Cause::all().find(|cause| cause.name() == first.cause));
    let (Some(cause), Some(case)) = (leading, explained.cases.first()) else { return };
    let of = counted(explained.cases.len() as u64, "slowest request", "slowest requests");
    let is_of_calls = cause == Cause::Overlay(Overlay::Syscall);
    if let Some(text) = is_of_calls.then(|| most_called(explained, run, &of)).flatten() {
        return fact(page, "who", &page.safe(&text), Emphasis::None);
    }
    let Behind { by, total_ns, waits } = explained.behind(cause, &explanation.circle);
    let words_of = Words { case, threads: &explanation.threads, circle: &explanation.circle, facts };
    let culprits = words_of.culprits(&by, total_ns);
    if culprits.is_empty() {
        return;
    }
    let waits = counted(waits, "wait", "waits");
    let text = if cause == Cause::Suspended {
        format!("suspended: the threads of the {of} were taken for {} by {culprits}", duration(total_ns))
    } else {
        format!("{}: {} in {waits} of the {of}, {culprits}", cause.name(), duration(total_ns))
    };
    let text = page.safe(&text);
    fact(page, "who", &text, Emphasis::None);
}

/// The call that took the slowest requests longer; else the one that most samples of the run were in.
fn most_called(explained: &Explained, run: ExplainedRun<'_>, requests: &str) -> Option<String> {
    let circle = &run.explanation.circle;
    let text = |MostCalled { syscall, at_least, of }| {
        let (call, number) = (calls::name(syscall, run.facts), thousands(at_least));
        (call, number, counted(of, "sample", "samples"))
    };
    let proven = explained.most_called(circle).map(text).map(|(call, number, of)| {
        format!("cpu.syscall: {call} in at least {number} of {of} in system calls of the {requests}")
    });
    let of_all = || {
        let (call, number, of) = text(circle.called.most()?);
        Some(format!("cpu.syscall: over the whole run {call} had {number} of {of} in system calls"))
    };
    proven.or_else(of_all)
}

fn render_advice(page: &mut Page, advised: &[Advised]) {
    for (index, Advised { cause, group: _, naming, advice }) in advised.iter().enumerate() {
        let heading = if index == 0 { "advice" } else { "" };
        let because = match *naming {
            Naming::Counts { moves, at_most_ns } => {
                let (moves, at_most) = (counted(moves, "move", "moves"), duration(at_most_ns));
                format!(" ({moves} more than usual while CPU time grew, at a price of at most {at_most})")
            }
            Naming::Slowest | Naming::Tail | Naming::Case | Naming::Limit => String::new(),
        };
        let text = page.safe(format!("{cause}{because}: {}", advice.text));
        health_lines::advice(page, heading, &text, &advice.source);
    }
}

/// Renders one request: its numbers, its phases, their parts with evidence.
fn render_case(page: &mut Page, case: &Case, group: &Group, run: ExplainedRun<'_>) {
    let ExplainedRun { explanation, facts } = run;
    let over = match case.excess_ns {
        0.. => format!("{} over", difference(case.excess_ns)),
        _ => format!("{} under", duration(case.excess_ns.unsigned_abs())),
    };
    let mut trace = hex(&case.trace_id);
    trace.truncate(TRACE_DIGITS);
    let text = format!(
        "request #{}: {}, {over} the typical {} (trace {trace}, {} into the run)",
        case.request,
        duration(case.latency_ns),
        duration(group.typical_ns),
        duration(case.start_ns.saturating_sub(facts.start_ns)),
    );
    page.sentence(&text, Emphasis::Strong);
    let shown = shown(case);
    let names = shown.iter().flat_map(|phase| &phase.parts).map(|part| width(part_name(part)));
    let phases = shown.iter().map(|phase| width(&phase_name(page, phase)).saturating_sub(2));
    let columns = names.chain(phases).max().unwrap_or(0).max(8);
    let context = Words { case, threads: &explanation.threads, circle: &explanation.circle, facts };
    for phase in &shown {
        let is_visible = phase.excess_ns.unsigned_abs() >= case.excess_ns.unsigned_abs() / VISIBLE;
        if phase.phase.is_none() && !is_visible {
            continue;
        }
        render_phase(page, phase, columns, &context);
    }
    worked::line(page, case, group, facts, columns);
}

/// Digits of a trace ID that identify it among the others, as in Jaeger's list of traces.
const TRACE_DIGITS: usize = 7;
/// A rest below 1 / `VISIBLE` of the whole changes no digit of the sum.
const VISIBLE: u64 = 1_000;
/// Where all requests are alike, an excess below 1 / `HARDLY` of the typical request is not explained.
const HARDLY: i64 = 100;
/// Columns of a phase's names: the text behind them needs room.
const PHASE: usize = 24;

fn render_phase(page: &mut Page, phase: &ShownPhase<'_>, columns: usize, context: &Words<'_>) {
    let name = left(&phase_name(page, phase), columns + 2);
    let excess = right(&difference(phase.excess_ns), worked::DIFFERENCE);
    let is_unusual = phase.phase.is_some_and(|phase| !phase.is_usual && phase.path != [OUTSIDE]);
    let unusual = if is_unusual { "a phase that the typical request does not have" } else { "" };
    let indent = columns + worked::DIFFERENCE + 8;
    page.wrapped(&[Piece::from(format!("  {name}  {excess}"))], indent, words(unusual, Emphasis::None));
    for part in &phase.parts {
        let is_visible = part.excess_ns.unsigned_abs() >= phase.excess_ns.unsigned_abs() / VISIBLE;
        if part.part.is_none() && !is_visible {
            continue;
        }
        let heading = format!(
            "    {}  {}",
            left(part_name(part), columns),
            right(&difference(part.excess_ns), worked::DIFFERENCE)
        );
        let text = part.part.map(|part| about(part, context, is_unusual)).unwrap_or_default();
        let indent = columns + worked::DIFFERENCE + 8;
        let text = words(&page.safe(&text), Emphasis::None);
        page.wrapped(&[Piece::from(heading)], indent, text);
    }
}

fn phase_name(page: &Page, phase: &ShownPhase<'_>) -> String {
    match phase.phase {
        Some(phase) => page.fit(&path_name(&phase.path, page.style().unicode), PHASE),
        None => "elsewhere".to_owned(),
    }
}

fn part_name(part: &ShownPart<'_>) -> &'static str {
    part.part.map_or("rest", |part| part.cause.name())
}

fn render_facts(page: &mut Page, explanation: &Explanation, facts: &ExplainFacts) {
    let folder = page.safe(facts.folder.shown());
    let (name, scenario) = (page.name(&facts.name, 48), page.name(&facts.scenario, 48));
    let fidelity = facts.fidelity.map_or("unknown", Fidelity::name);
    fact(page, "run", &format!("{name}, {scenario}, fidelity {fidelity}"), Emphasis::None);
    fact(page, "folder", &folder, Emphasis::None);
    for group in &explanation.summary.groups {
        let name = match explanation.summary.groups.len() {
            1 => String::new(),
            _ => format!(" {}", page.name(&group.name, 48)),
        };
        let (typical, of) = (duration(group.typical_ns), thousands(group.typical_of));
        let text = format!(
            "{typical}: the mean of the middle half of the requests{name} (p25 to p75, {of} of them)"
        );
        fact(page, "typical", &text, Emphasis::None);
    }
    if facts.is_open {
        let text = "the run is still being written, or was cut off: this is what is there so far";
        fact(page, "open", text, Emphasis::Warning);
    }
    if let Some(unseen) = facts.fidelity.and_then(unseen::words) {
        fact(page, "not seen", &unseen, Emphasis::Warning);
    }
    for note in &facts.notes {
        let note = page.name(note, 400);
        fact(page, "note", &note, Emphasis::Warning);
    }
    left_out(page, explanation);
    let most = explanation.groups.iter().map(|group| group.cases.len()).max().unwrap_or(0);
    if !facts.shown.is_one() && facts.shown.most() < most {
        let folder = quoted(&folder);
        fact(page, "next", &format!("guestscope explain {folder} --slowest {most}"), Emphasis::Strong);
    }
}

fn left_out(page: &mut Page, explanation: &Explanation) {
    let left_out = explanation.summary.left_out;
    let items = [
        (left_out.warmups, "warm-up", "warm-ups"),
        (left_out.unfinished, "unfinished request", "unfinished requests"),
        (left_out.damaged, "damaged request", "damaged requests"),
    ];
    let texts: Vec<String> =
        items.iter().filter(|item| item.0 > 0).map(|&(count, one, many)| counted(count, one, many)).collect();
    if !texts.is_empty() {
        fact(page, "left out", &texts.join(", "), Emphasis::None);
    }
}
