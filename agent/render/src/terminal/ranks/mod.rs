//! `guestscope ranks` for people: which rank comes last, why, and how all of them came to the collectives.
//!
//! Yields text. The first sentences say what was found or why nothing can be said; tables show the numbers
//! behind it.

mod facts;
mod json;
mod sentences;

#[cfg(test)]
mod tests;

use crate::{
    analyze::ranks::{Collective, Difference, Judged, Rank, Steps},
    untrusted::Shown as _,
};

use self::facts::NAME;
pub use self::{
    facts::{RankFolder, RanksFacts},
    json::render_ranks_json,
};
use super::{
    health_lines::fact,
    page::{Align, Emphasis, Page, Piece},
    style::Style,
    units::{counted, difference, duration, percent, thousands},
};
use crate::looks;

/// Ranks that a table shows, the latest; JSON has all.
const SHOWN: usize = 12;

/// The whole answer.
pub fn render_ranks(judged: &Judged, facts: &RanksFacts, style: Style) -> String {
    let mut page = Page::new(style);
    sentences::answer(&mut page, judged, facts);
    for collective in judged.collectives.iter().filter(|one| !one.arrivals.is_empty()) {
        page.blank();
        arrivals(&mut page, judged, collective);
    }
    let steps = judged.straggler.as_ref().and_then(|one| Some((one.rank, one.steps.as_ref()?)));
    if let Some((rank, steps)) = steps.filter(|(_, steps)| steps.has_differences()) {
        page.blank();
        differences(&mut page, rank, steps);
    }
    page.blank();
    circumstances(&mut page, judged, facts);
    page.finish()
}

/// How ranks came to a collective.
fn arrivals(page: &mut Page, judged: &Judged, collective: &Collective) {
    let Collective { name, calls, between_ns, arrivals, .. } = collective;
    let ranks = counted(arrivals.len() as u64, "rank", "ranks");
    let calls_of = counted(*calls, "call", "calls");
    let text = format!("{name}: {calls_of} of {ranks}, one each {}", duration(*between_ns));
    page.sentence(&text, Emphasis::Strong);
    let heading = ["rank", "came last to", "after the mean", "after the latest", "process"];
    let mut rows = vec![heading.map(|text| Piece::new(text, Emphasis::Faint)).to_vec()];
    for one in arrivals.iter().take(SHOWN) {
        let part = percent(one.last as f64 / (*calls).max(1) as f64);
        let process = judged.ranks.get(one.rank).map(|rank| process(page, rank)).unwrap_or_default();
        let cells = [
            one.rank.to_string(),
            format!("{} ({part})", thousands(one.last)),
            difference(one.late_ns),
            difference(one.margin_ns),
            process,
        ];
        rows.push(cells.map(Piece::from).to_vec());
    }
    let aligns = [Align::Right, Align::Right, Align::Right, Align::Right, Align::Left];
    page.table(&aligns, &rows);
    if let Some(more) = arrivals.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        page.sentence(
            &format!("and {} that came earlier: --json has all", counted(more as u64, "rank", "ranks")),
            Emphasis::Faint,
        );
    }
}

/// `4711 python3`.
fn process(page: &Page, rank: &Rank) -> String {
    format!("{} {}", rank.pid, page.name(&rank.comm, NAME))
}

/// By what the steps differ.
fn differences(page: &mut Page, rank: usize, steps: &Steps) {
    let (own, others) = (thousands(steps.own), thousands(steps.others));
    let name = page.name(&steps.name, NAME * 2);
    let text = format!(
        "{name}: the mean of {own} of rank {rank} and of {others} of the others, without collectives"
    );
    page.sentence(&text, Emphasis::Strong);
    let own = format!("rank {rank}");
    let heading = ["account", &own, "others", "difference"];
    let mut rows = vec![heading.map(|text| Piece::new(text, Emphasis::Faint)).to_vec()];
    let row = |(prefix, one): (&str, &Difference)| {
        let verb = if one.ns() > 0 { looks::of(one.account).verb } else { "" };
        let account = format!("{prefix}{}", one.account.name());
        let cells =
            [account, duration(one.own_ns), duration(one.others_ns), difference(one.ns()), verb.to_owned()];
        cells.map(Piece::from).to_vec()
    };
    let all = steps.accounts.iter().map(|one| ("", one));
    rows.extend(all.chain(steps.helpers.iter().map(|one| ("helper.", one))).map(row));
    page.table(&[Align::Left, Align::Right, Align::Right, Align::Right], &rows);
}

/// Clocks, folders, and what was left out.
fn circumstances(page: &mut Page, judged: &Judged, facts: &RanksFacts) {
    folders(page, judged, facts);
    fact(page, "clock", &clock(judged, facts), Emphasis::None);
    let text = "a call asks for a collective: what the device did then is not known from it; ranks are \
                numbered by folder and process, NCCL's own numbers are not known";
    fact(page, "calls", text, Emphasis::None);
    for text in left_out(judged) {
        fact(page, "left out", &text, Emphasis::None);
    }
    if judged.is_coarse {
        let text = "some folders know cpu, runq and other only: steps are compared by these";
        fact(page, "not seen", text, Emphasis::Warning);
    }
    for note in &facts.notes {
        let note = page.name(note, 400);
        fact(page, "note", &note, Emphasis::Warning);
    }
}

/// The folders of the ranks that are shown.
fn folders(page: &mut Page, judged: &Judged, facts: &RanksFacts) {
    let latest =
        judged.collectives.iter().flat_map(|one| one.arrivals.iter().take(SHOWN)).map(|one| one.rank);
    let mut shown: Vec<usize> = latest.collect();
    let has_tables = !shown.is_empty();
    if !has_tables {
        shown.extend(0..judged.ranks.len().min(SHOWN));
    }
    shown.sort_unstable();
    shown.dedup();
    let mut places: Vec<usize> = judged.ranks.iter().map(|rank| rank.folder).collect();
    places.dedup();
    if let ([one], true) = (places.as_slice(), has_tables) {
        let path = facts.folders.get(*one).map(|folder| page.safe(folder.path.shown()));
        return fact(page, "folder", &path.unwrap_or_default(), Emphasis::None);
    }
    for at in shown {
        let Some(rank) = judged.ranks.get(at) else { continue };
        let Some(folder) = facts.folders.get(rank.folder) else { continue };
        let text = format!("process {}: {}", process(page, rank), page.safe(folder.path.shown()));
        fact(page, &format!("rank {at}"), &text, Emphasis::None);
    }
}

fn clock(judged: &Judged, facts: &RanksFacts) -> String {
    match judged.clocks {
        0 | 1 => "one: all ranks ran in one boot of one guest".to_owned(),
        clocks => format!(
            "{clocks} guests or boots: their wall clocks are taken to be at most {} apart (--clocks)",
            duration(facts.apart_ns)
        ),
    }
}

/// Calls that are in no number.
fn left_out(judged: &Judged) -> Vec<String> {
    let unmatched = |one: &Collective| {
        let calls = counted(one.unmatched, "call", "calls");
        format!("{calls} of {} that have no partner in all other ranks", one.name)
    };
    let mut all: Vec<String> =
        judged.collectives.iter().filter(|one| one.unmatched > 0).map(unmatched).collect();
    if judged.left_out > 0 {
        let calls = counted(judged.left_out, "call", "calls");
        all.push(format!("{calls} for want of room: the first ones of each rank are judged"));
    }
    all
}
