//! Judges what was told: cause, culprit, advice, false statements, and whether all outputs agree.

use guestscope::analyze::advice;
use serde_json::Value;

use super::{
    kinds::{Expect, Kind},
    told::Told,
};

/// What no situation of the table gives a reason to say; the first [`OF_OWN_WORK`] only where its own work
/// took longer.
const NEVER: [&str; 4] =
    ["virtual PMU", "nothing that was seen says why", "no request was marked", "overlapped in time"];
/// Number of those that are right where the program's own work took longer.
const OF_OWN_WORK: usize = 2;

/// Beginning of the advice that refers to a system call.
const CALL_ABOVE: &str = "The system call of the waits above";

/// What is right in the outputs of one run.
pub(super) struct Verdict {
    pub(super) has_cause: bool,
    pub(super) has_culprit: bool,
    pub(super) has_advice: bool,
    /// Which output tells another story than the headline.
    pub(super) differs: Option<String>,
    /// How much longer the requests above the 90th percentile took, ns each.
    excess_ns: i64,
    /// Words that are there and must not be.
    pub(super) lies: Vec<String>,
    /// The beginning of what was said, for people.
    pub(super) said: String,
}

impl Verdict {
    pub(super) fn of(kind: &Kind, told: &Told) -> Self {
        let group = told.group();
        let headline = text(&group["headline"]["cause"]).to_owned();
        let outputs = [&told.summary, &told.explain];
        let says = |pattern: &&str| outputs.iter().any(|output| has(output, &told.filled(pattern)));
        let (has_cause, has_culprit, has_advice, differs) = match kind.expect {
            Expect::Cause { causes, culprits, advice } => (
                causes.contains(&&*headline),
                culprits.iter().any(|pattern| has(&told.blamed, &told.filled(pattern))),
                advised(&group["advice"][0], advice),
                disagreement(told, &headline),
            ),
            Expect::Said { summary, explain } => {
                let all = |output: &str, patterns: &[&str]| {
                    patterns.iter().all(|pattern| has(output, &told.filled(pattern)))
                };
                let (first, second) = (all(&told.summary, summary), all(&told.explain, explain));
                let differs = (first != second).then(|| "one of summary and explain says it".to_owned());
                (first, first, second, differs)
            }
        };
        let is_own = kind.has_own_work
            || matches!(kind.expect, Expect::Cause { causes, .. } if causes.contains(&"cpu"));
        let never = NEVER.iter().skip(if is_own { OF_OWN_WORK } else { 0 }).chain(kind.never);
        let mut lies: Vec<String> =
            never.filter(|pattern| says(pattern)).map(|&one| one.to_owned()).collect();
        if has(&told.explain, CALL_ABOVE) && !names_a_call(&told.blamed) {
            lies.push(format!("{CALL_ABOVE} (none is named)"));
        }
        let said = said(told, differs.as_deref().unwrap_or_default());
        let tail = |key: &str| group["tails"][0][key].as_i64();
        let excess_ns = tail("excess_ns").zip(tail("requests")).map_or(0, |(ns, count)| ns / count.max(1));
        Self { has_cause, has_culprit, has_advice, differs, excess_ns, lies, said }
    }

    /// Whether the sentence of the fault is there.
    pub(super) fn is_named(&self) -> bool {
        self.has_cause && self.has_culprit
    }

    /// Whether this run without the fault says nothing of it. What took less than a quarter of the fault's
    /// time may have its name: other load makes a thread wait for the same partner a little longer.
    pub(super) fn is_silent_beside(&self, fault: &Self) -> bool {
        !self.is_named() || self.excess_ns < fault.excess_ns / 4
    }

    pub(super) fn holds(&self) -> bool {
        self.is_named() && self.has_advice && self.differs.is_none() && self.lies.is_empty()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether the parts between asterisks stand in the text in this order.
fn has(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Whether a system call is named: `in read`, and not `in 6 waits`.
fn names_a_call(blamed: &str) -> bool {
    let after = blamed.split(" in ").skip(1);
    after.filter_map(|rest| rest.split([' ', ',', ';']).next()).any(|word| {
        !["waits", "queues", "the", "a"].contains(&word)
            && word.starts_with(|first: char| first.is_ascii_lowercase())
    })
}

/// Whether this is one of the wanted pieces of advice: those on limits name a place, or a file of one version
/// of control groups in brackets.
fn advised(first: &Value, wanted: &[&str]) -> bool {
    wanted.iter().any(|key| {
        let advice = advice::for_cause(key).unwrap_or_else(|| panic!("no such advice: {key}"));
        let begin = advice.text.split(['{', '(']).next().unwrap_or_default();
        text(&first["text"]).starts_with(begin)
    })
}

/// Which output names another first cause than the headline; the headline's own words are compared, too.
fn disagreement(told: &Told, headline: &str) -> Option<String> {
    let group = told.group();
    let words = text(&group["headline"]["text"]);
    let tail = &group["tails"][0];
    let parts = &group["explained"][0]["phases"][0]["parts"][0];
    let others = [
        ("advice", text(&group["advice"][0]["cause"])),
        ("tail", text(&tail["causes"][0]["cause"])),
        ("row", text(&tail["parts"][0]["cause"])),
        ("slowest", text(&parts["cause"])),
    ];
    // "7 of the 10 slowest": the slowest one may be of the other three. Of several causes it may have another
    // one than the first.
    let is_of_some = words.split(' ').nth(1) == Some("of");
    let is_named = |cause: &str| words.contains(&format!(" {cause} +"));
    let may_differ = |what: &str, cause: &str| what == "slowest" && (is_of_some || is_named(cause));
    let other = others.iter().find(|(what, cause)| *cause != headline && !may_differ(what, cause));
    let other = other.map(|(what, cause)| format!("{what} says {cause}"));
    let in_text = || {
        let outputs = [("summary", &told.summary), ("explain", &told.explain)];
        let begin = words.split("; the quota").next().unwrap_or_default();
        let other = outputs.iter().find(|(_, output)| !output.contains(begin));
        let other = other.map(|(what, _)| format!("the headline of {what} differs"));
        let table = || {
            let is_there = told.first_row.split(' ').any(|word| word == headline);
            (!is_there).then(|| format!("the table begins with {}", told.first_row))
        };
        let advice = || {
            let is_there = told.explain.contains(&format!(" advice {headline}: "));
            (!is_there).then(|| "the text advises on something else".to_owned())
        };
        other.or_else(table).or_else(advice)
    };
    other.or_else(in_text)
}

/// For people: the headline, the culprits, the first advice, and what does not agree.
fn said(told: &Told, disagreement: &str) -> String {
    let group = told.group();
    let advice = &group["advice"][0];
    format!(
        "  headline: {}\n  blamed: {:.600}\n  advice: {}: {}\n  differs: {disagreement}",
        text(&group["headline"]["text"]),
        told.blamed,
        text(&advice["cause"]),
        text(&advice["text"]),
    )
}
