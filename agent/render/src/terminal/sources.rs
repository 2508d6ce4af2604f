//! Sources of phases, as a line for each that has something to report, and as JSON.

use serde::Serialize;

use crate::{phase::Made, sources::Report};

use super::{
    health_lines::fact,
    page::{Emphasis, Page},
    units::counted,
};

/// Most words shown of a source.
const SHOWN: usize = 6;

/// A line for each source that yielded something or failed at something; then one for those that waited in
/// vain.
pub(super) fn sources(page: &mut Page, reports: &[Report]) {
    let mut heading = "sources";
    let mut line = |page: &mut Page, text: &str, emphasis| {
        fact(page, std::mem::take(&mut heading), text, emphasis);
    };
    let has_come = |report: &&Report| report.made != Made::default() || !report.found.is_empty();
    for report in reports.iter().filter(has_come) {
        let found = page.safe(listed(&report.found));
        let found = if report.found.is_empty() { String::new() } else { format!(" ({found})") };
        line(page, &format!("{}: {}{found}", report.kind.name(), made(report.made)), Emphasis::None);
    }
    for report in reports.iter().filter(|report| !report.missed.is_empty()) {
        let missed = page.safe(listed(&report.missed));
        line(page, &format!("{} could not: {missed}", report.kind.name()), Emphasis::Warning);
    }
    let mut silent: Vec<(&str, Vec<&str>)> = Vec::new();
    for report in reports.iter().filter(|report| !has_come(report)) {
        let why = report.off.as_deref().unwrap_or("nothing came");
        match silent.iter_mut().find(|(known, _)| *known == why) {
            Some((_, kinds)) => kinds.push(report.kind.name()),
            None => silent.push((why, vec![report.kind.name()])),
        }
    }
    let silent: Vec<String> =
        silent.iter().map(|(why, kinds)| format!("{}: {why}", kinds.join(", "))).collect();
    if !silent.is_empty() {
        let silent = page.safe(silent.join("; "));
        line(page, &silent, Emphasis::Faint);
    }
}

/// Sources that a program can have, and why it cannot have the others.
pub(super) fn possible(page: &mut Page, reports: &[Report]) {
    let is_on = |report: &&Report| report.off.is_none();
    let on: Vec<&str> = reports.iter().filter(is_on).map(|report| report.kind.name()).collect();
    let text = format!("{}: phases of a program that `run` starts", on.join(", "));
    fact(page, "sources", &text, Emphasis::Good);
    for report in reports {
        if let Some(why) = &report.off {
            let text = format!("{} is off: {}", report.kind.name(), page.safe(why));
            fact(page, "", &text, Emphasis::Warning);
        }
    }
}

fn listed(texts: &[crate::untrusted::Untrusted]) -> String {
    let mut shown: Vec<String> = texts.iter().take(SHOWN).map(ToString::to_string).collect();
    if texts.len() > SHOWN {
        shown.push(format!("{} more", texts.len() - SHOWN));
    }
    shown.join(", ")
}

fn made(made: Made) -> String {
    let of = |count, one, many| (count > 0).then(|| counted(count, one, many));
    let alone = format!("{} outside all phases, left out", made.alone);
    let alone = (made.alone > 0).then_some(alone);
    let parts = [of(made.requests, "request", "requests"), of(made.phases, "phase", "phases"), alone];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing came".to_owned() } else { parts.join(", ") }
}

/// One source as JSON.
#[derive(Serialize)]
pub(super) struct SourceJson {
    source: &'static str,
    off: Option<String>,
    requests: u64,
    phases: u64,
    left_out: u64,
    found: Vec<String>,
    missed: Vec<String>,
}

/// All sources as JSON.
pub(super) fn json(reports: &[Report]) -> Vec<SourceJson> {
    let words = |texts: &[crate::untrusted::Untrusted]| texts.iter().map(ToString::to_string).collect();
    let one = |report: &Report| SourceJson {
        source: report.kind.name(),
        off: report.off.clone(),
        requests: report.made.requests,
        phases: report.made.phases,
        left_out: report.made.alone,
        found: words(&report.found),
        missed: words(&report.missed),
    };
    reports.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use guestscope_contract::Source as Kind;

    use super::*;
    use crate::terminal::Style;

    fn report(kind: Kind, (requests, phases): (u64, u64), found: &[&str], missed: &[&str]) -> Report {
        let words = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect();
        let made = Made { requests, phases, alone: 0 };
        Report { kind, off: None, made, found: words(found), missed: words(missed) }
    }

    #[test]
    fn what_came_what_could_not_and_what_waited_in_vain() {
        let off = |kind, why: &str| Report { off: Some(why.to_owned()), ..report(kind, (0, 0), &[], &[]) };
        let many: Vec<String> = (0..9).map(|number| format!("package-{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let reports = [
            report(Kind::Marker, (0, 0), &[], &[]),
            report(Kind::Python, (1, 1_204), &["starlette 0.47", "evil\u{1b}[2J"], &["torch 9.9: no call"]),
            off(Kind::Otel, "not asked for"),
            report(Kind::Nvtx, (0, 2), &many, &[]),
            off(Kind::Itt, "another tool holds INTEL_LIBITTNOTIFY64"),
            report(Kind::Socket, (0, 0), &[], &[]),
        ];
        let mut page = Page::new(Style { width: 80, color: false, unicode: true });
        sources(&mut page, &reports);
        insta::assert_snapshot!(page.finish(), @r"
        sources       python: 1 request, 1,204 phases (starlette 0.47, evil�[2J)
                      nvtx: 2 phases (package-0, package-1, package-2, package-3,
                      package-4, package-5, 3 more)
                      python could not: torch 9.9: no call
                      marker, socket: nothing came; otel: not asked for; itt: another
                      tool holds INTEL_LIBITTNOTIFY64
        ");
    }
}
