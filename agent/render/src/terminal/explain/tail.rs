//! The tail above the percentiles, as a sentence and as a table whose columns add up.
//!
//! Yields lines on a page. Numbers are means per request of the tail, so that tails of different sizes are
//! comparable.

use crate::analyze::{
    Cause, Group, Headline,
    explain::{Explained, Tail, TailCause},
};
use crate::untrusted::Untrusted;

use super::super::{
    findings::path_name,
    page::{Align, Emphasis, Page, Piece},
    text,
    units::{counted, difference, duration, percent},
};

/// Share of every tail below which parts are summed up.
const SHOWN: f64 = 0.02;
/// Least and most columns of names.
const LEAST_NAME: usize = 4;
const MOST_NAME: usize = 32;
/// Most rows of the table.
const ROWS: usize = 8;

/// How much of the tail the leading cause explains: `throttled is 81 % of what the 20 requests above p90 took
/// longer`.
pub(super) fn sentence(page: &mut Page, group: &Group, explained: &Explained) {
    if matches!(group.headline, Headline::Alike { .. }) {
        return;
    }
    let Some((tail, leading)) = explained.leading() else { return };
    let TailCause { cause, share, requests, .. } = leading;
    let much = much(*share);
    let words = format!(
        "{} is {much} of what the {} above {} ({}) took longer than typical, and the main cause of {}",
        cause.name(),
        counted(tail.requests, "request", "requests"),
        tail.band.name(),
        duration(tail.above_ns),
        of(*requests, tail.requests),
    );
    page.sentence(&words, Emphasis::None);
}

/// A share of the tail. It is above 1 where the other parts of these requests were shorter than usual.
fn much(share: f64) -> String {
    match share {
        over if over > 1.0005 => format!("more than all ({})", percent(over)),
        share => percent(share),
    }
}

fn of(part: u64, all: u64) -> String {
    match part {
        0 => "none of them alone".to_owned(),
        _ if part == all && all == 1 => "it".to_owned(),
        _ if part == all => "all of them".to_owned(),
        _ => format!("{part} of them"),
    }
}

/// A row per part that matters in any tail, then the rest, then the sum. Names get the room that numbers
/// leave.
pub(super) fn table(page: &mut Page, explained: &Explained) {
    let width = page.style().width;
    let shown = if page.style().is_narrow() { 1 } else { explained.tails.len() };
    let tails = &explained.tails[..shown];
    let unicode = page.style().unicode;
    let room = |rows: &[(String, Vec<Piece>)]| {
        let columns = rows[0].1.len();
        let widest = |at: usize| rows.iter().map(|row| row.1[at].width()).max().unwrap_or(0) + 2;
        width.saturating_sub((0..columns).map(widest).sum())
    };
    let mut rows = lines(tails, true, unicode);
    let wanted = rows.iter().map(|row| text::width(&row.0)).max().unwrap_or(0);
    if room(&rows) < wanted {
        rows = lines(tails, false, unicode);
    }
    let columns = room(&rows).clamp(LEAST_NAME, MOST_NAME);
    let mut table: Vec<Vec<Piece>> = Vec::with_capacity(rows.len());
    for (name, cells) in rows {
        let emphasis = if table.is_empty() { Emphasis::Faint } else { Emphasis::None };
        let name = Piece::new(page.fit(&name, columns), emphasis);
        table.push(std::iter::once(name).chain(cells).collect());
    }
    let mut aligns = vec![Align::Left, Align::Left];
    aligns.extend(std::iter::repeat_n(Align::Right, tails.len() * 2));
    page.table(&aligns, &table);
}

/// Each line's name and cells; with how many requests lie above, if there is room for it.
fn lines(tails: &[Tail], is_long: bool, unicode: bool) -> Vec<(String, Vec<Piece>)> {
    let rows = rows(tails);
    let heading = |text: String| Piece::new(text, Emphasis::Faint);
    let mut head = vec![heading("on".to_owned())];
    for tail in tails {
        let requests = counted(tail.requests, "request", "requests");
        let above = format!("above {}", tail.band.name());
        head.extend([
            heading(if is_long { format!("{above}: {requests}") } else { above }),
            heading(String::new()),
        ]);
    }
    let mut lines = vec![("over typical, mean".to_owned(), head)];
    for (path, cause) in &rows {
        let mut line = vec![Piece::from(cause.name())];
        line.extend(tails.iter().flat_map(|tail| cells(tail, part_ns(tail, path, *cause))));
        lines.push((path_name(path, unicode), line));
    }
    let rest: Vec<i128> = tails
        .iter()
        .map(|tail| {
            tail.excess_ns - rows.iter().map(|(path, cause)| part_ns(tail, path, *cause)).sum::<i128>()
        })
        .collect();
    if rest.iter().any(|ns| *ns != 0) {
        let mut line = vec![Piece::from("")];
        line.extend(tails.iter().zip(&rest).flat_map(|(tail, ns)| cells(tail, *ns)));
        lines.push(("rest".to_owned(), line));
    }
    let mut line = vec![Piece::from("")];
    line.extend(tails.iter().flat_map(|tail| cells(tail, tail.excess_ns)));
    lines.push(("all of it".to_owned(), line));
    lines
}

type PartKey = (Vec<Untrusted>, Cause);

/// The parts to show: causes by their shares of the first tail, phases of each by theirs.
fn rows(tails: &[Tail]) -> Vec<PartKey> {
    let mut rows: Vec<PartKey> = Vec::new();
    for part in tails.iter().flat_map(|tail| &tail.parts).filter(|part| part.share.abs() >= SHOWN) {
        let key = (part.path.clone(), part.cause);
        if !rows.contains(&key) {
            rows.push(key);
        }
    }
    rows.truncate(ROWS);
    let causes = tails.first().map_or(&[][..], |tail| &tail.causes);
    let rank = |cause: Cause| causes.iter().position(|one| one.cause == cause).unwrap_or(usize::MAX);
    rows.sort_by_key(|(_, cause)| rank(*cause));
    rows
}

fn part_ns(tail: &Tail, path: &[Untrusted], cause: Cause) -> i128 {
    let found = tail.parts.iter().find(|part| part.cause == cause && part.path == path);
    found.map_or(0, |part| part.excess_ns)
}

/// Cells with the mean per request of the tail, and the share.
fn cells(tail: &Tail, ns: i128) -> [Piece; 2] {
    let mean = ns / i128::from(tail.requests.max(1));
    let part = if tail.excess_ns == 0 { 0.0 } else { ns as f64 / tail.excess_ns as f64 };
    let mean = i64::try_from(mean).unwrap_or(if mean < 0 { i64::MIN } else { i64::MAX });
    [difference(mean).into(), share(part).into()]
}

/// `81.1 %` of a tail.
pub(super) fn share(share: f64) -> String {
    if share <= -0.000_5 { format!("-{}", percent(-share)) } else { percent(share.abs()) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::most(0.81, "81.0 %")]
    #[case::all_rounded(1.0004, "100 %")]
    #[case::a_little_more(1.004, "more than all (100.4 %)")]
    #[case::more(1.1, "more than all (110.0 %)")]
    fn a_share(#[case] share: f64, #[case] words: &str) {
        assert_eq!(much(share), words);
    }

    #[rstest]
    #[case(0, 9, "none of them alone")]
    #[case(1, 1, "it")]
    #[case(9, 9, "all of them")]
    #[case(5, 9, "5 of them")]
    fn a_part_of_the_requests(#[case] part: u64, #[case] all: u64, #[case] words: &str) {
        assert_eq!(of(part, all), words);
    }
}
