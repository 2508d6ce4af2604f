//! The screen of `top`: requests of the last seconds, where their time went, and why the slow ones were slow.
//!
//! Yields lines of pieces that fit the terminal; the caller draws them. Nothing is said by colour alone.

use guestscope_contract::Account;

use super::{
    bar::bar,
    page::{Emphasis, Piece},
    text::{fit, left, plain, right, width},
    units::{bytes, counted, duration, percent},
};
use crate::{
    analyze::{Cause, Sums},
    looks,
    untrusted::Untrusted,
};

/// Columns of the numbers, and the fewest of the bar and of the cause.
const NUMBER: usize = 8;
const BAR: usize = 16;
const CAUSE: usize = 17;
/// Lines of and below the table, beside its rows: its heading, the note and the keys.
const AROUND: usize = 3;

/// Requests of one name.
#[derive(Clone, Debug, Default)]
pub struct TopRow {
    /// The name.
    pub request: Untrusted,
    /// Requests per second.
    pub per_s: f64,
    /// Median duration, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// The longest, ns.
    pub slowest_ns: u64,
    /// Where their time went.
    pub time: Sums,
    /// Slow ones by cause, most first.
    pub slow: Vec<(Untrusted, u64)>,
}

/// What the first lines say.
#[derive(Clone, Debug, Default)]
pub struct TopFacts {
    /// Scenario of the guest.
    pub scenario: Untrusted,
    /// Observed processes.
    pub processes: u64,
    /// Requests per second, of all names.
    pub per_s: f64,
    /// Requests that are open for more than a second.
    pub open: u64,
    /// CPU time of the agent, part of one CPU.
    pub cpu: f64,
    /// Its memory, bytes.
    pub rss_bytes: u64,
    /// The agent looks at one of so many requests; up to 1: at all.
    pub one_of: u64,
    /// What was lost or not seen since the agent began, the most first.
    pub losses: Vec<(Untrusted, u64)>,
    /// Incidents that were kept.
    pub incidents: u64,
    /// Time of day.
    pub time: String,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopOrder {
    /// Time that they took together.
    #[default]
    Time,
    /// Requests per second.
    Rate,
    /// 99th percentile.
    P99,
    /// Name.
    Name,
}

/// The screen.
#[derive(Clone, Debug)]
pub struct TopView<'a> {
    /// The first lines.
    pub facts: &'a TopFacts,
    /// Rows, sorted.
    pub rows: &'a [TopRow],
    /// What by.
    pub order: TopOrder,
    /// The chosen row.
    pub chosen: usize,
    /// Whether the chosen row is shown in detail.
    pub is_detailed: bool,
    /// Whether the screen stands still.
    pub is_frozen: bool,
    /// Something to say, below the table.
    pub note: &'a str,
}

/// Emphasis of a piece of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopLook {
    /// None.
    Plain,
    /// The answer.
    Strong,
    /// Side notes.
    Faint,
    /// The chosen row.
    Chosen,
    /// A colour of xterm's 256.
    Color(u8),
}

/// A piece of a line, safe to print.
pub type TopPiece = (String, TopLook);

impl TopOrder {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            TopOrder::Time => TopOrder::Rate,
            TopOrder::Rate => TopOrder::P99,
            TopOrder::P99 => TopOrder::Name,
            TopOrder::Name => TopOrder::Time,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            TopOrder::Time => "time",
            TopOrder::Rate => "rate",
            TopOrder::P99 => "p99",
            TopOrder::Name => "name",
        }
    }

    /// Sorts rows.
    pub fn sort(self, rows: &mut [TopRow]) {
        match self {
            TopOrder::Time => rows.sort_by_key(|row| std::cmp::Reverse(row.time.total_ns())),
            TopOrder::Rate => rows.sort_by(|a, b| b.per_s.total_cmp(&a.per_s)),
            TopOrder::P99 => rows.sort_by_key(|row| std::cmp::Reverse(row.p99_ns)),
            TopOrder::Name => rows.sort_by(|a, b| a.request.cmp(&b.request)),
        }
    }
}

/// The screen as so many lines, none longer than so many columns.
pub fn render_top(view: &TopView<'_>, columns: usize, lines: usize, unicode: bool) -> Vec<Vec<TopPiece>> {
    let columns = columns.max(40);
    let mut screen = head(view.facts, columns, unicode);
    let room = lines.saturating_sub(screen.len() + AROUND);
    if view.rows.is_empty() {
        let none = "no request ended in the last ten seconds";
        screen.push(vec![(fit(none, columns, unicode), TopLook::Faint)]);
    } else if view.is_detailed
        && let Some(row) = view.rows.get(view.chosen)
    {
        screen.extend(details(row, columns, unicode).into_iter().take(room));
    } else {
        screen.extend(table(view, columns, room, unicode));
    }
    screen.resize(lines.saturating_sub(2).max(1), Vec::new());
    screen.push(vec![(fit(view.note, columns, unicode), TopLook::Strong)]);
    let frozen = if view.is_frozen { "frozen" } else { "f freeze" };
    let keys =
        format!("q quit  s sort: {}  {frozen}  up/down enter details  t keep an incident", view.order.name());
    screen.push(vec![(fit(&keys, columns, unicode), TopLook::Faint)]);
    screen.truncate(lines);
    screen.into_iter().map(|line| cut(line, columns)).collect()
}

/// The first columns of a line.
fn cut(line: Vec<TopPiece>, columns: usize) -> Vec<TopPiece> {
    let mut left = columns;
    let pieces = line.into_iter().map(|(text, look)| {
        let mut kept = String::new();
        for c in text.chars() {
            let wide = width(c.encode_utf8(&mut [0; 4]));
            if wide > left {
                left = 0;
                break;
            }
            left -= wide;
            kept.push(c);
        }
        (kept, look)
    });
    pieces.collect()
}

fn head(facts: &TopFacts, columns: usize, unicode: bool) -> Vec<Vec<TopPiece>> {
    let TopFacts { scenario, processes, per_s, open, cpu, rss_bytes, incidents, time, .. } = facts;
    let first = format!("{scenario}  {}, {per_s:.1} requests/s", counted(*processes, "process", "processes"));
    let first = fit(&plain(&first, unicode), columns.saturating_sub(width(time) + 2), unicode);
    let first = format!("{}{time}", left(&first, columns.saturating_sub(width(time))));
    let open = if *open == 0 { String::new() } else { format!("{open} open for more than 1 s  ") };
    let lost = not_seen(facts, columns, unicode);
    let nothing = if lost.is_none() { "lost nothing  " } else { "" };
    let second = format!(
        "{open}agent {} of one CPU, {}  {nothing}{}",
        percent(*cpu),
        bytes(*rss_bytes),
        counted(*incidents, "incident", "incidents")
    );
    let mut lines =
        vec![vec![(first, TopLook::Strong)], vec![(fit(&second, columns, unicode), TopLook::Plain)]];
    lines.extend(lost.map(|lost| vec![(lost, TopLook::Strong)]));
    lines
}

/// What the numbers below do not have, if anything: as many losses as fit, the largest ones.
fn not_seen(facts: &TopFacts, columns: usize, unicode: bool) -> Option<String> {
    let TopFacts { one_of, losses, .. } = facts;
    let looks = if *one_of > 1 { format!("looks at 1 of {one_of} requests  ") } else { String::new() };
    if losses.is_empty() {
        return (!looks.is_empty()).then(|| fit(looks.trim_end(), columns, unicode));
    }
    let all = losses.len();
    let told = |shown: usize| {
        let named = losses.iter().take(shown);
        let mut parts: Vec<String> =
            named.map(|(what, count)| format!("{} {count}", plain(what.stored(), unicode))).collect();
        if shown < all {
            parts.push(format!("{} more", counted((all - shown) as u64, "kind", "kinds")));
        }
        format!("{looks}lost: {}", parts.join(", "))
    };
    let fitting = (1..=all).rev().map(told).find(|text| width(text) <= columns);
    Some(fitting.unwrap_or_else(|| fit(&told(1), columns, unicode)))
}

/// Columns of the name and of the bar.
fn widths(columns: usize) -> (usize, usize) {
    let fixed = 3 * (NUMBER + 1) + 1 + CAUSE + 1;
    let left = columns.saturating_sub(fixed);
    let bar = (left / 2).clamp(BAR.min(left / 2), 60);
    (left.saturating_sub(bar + 1).max(8), bar)
}

fn table(view: &TopView<'_>, columns: usize, room: usize, unicode: bool) -> Vec<Vec<TopPiece>> {
    let (name, bars) = widths(columns);
    let heading = format!(
        "{} {} {} {} {} {}",
        left("request", name),
        right("rate", NUMBER),
        right("p50", NUMBER),
        right("p99", NUMBER),
        left(&fit("last 10 s", bars, unicode), bars),
        "slow because"
    );
    let mut lines = vec![vec![(fit(&heading, columns, unicode), TopLook::Faint)]];
    // The chosen row stays in sight.
    let first = (view.chosen + 1).saturating_sub(room.max(1));
    for (index, row) in view.rows.iter().enumerate().skip(first).take(room) {
        let look = if index == view.chosen { TopLook::Chosen } else { TopLook::Plain };
        let rate = format!("{:.1}/s", row.per_s);
        let text = format!(
            "{} {} {} {} ",
            left(&fit(&plain(row.request.stored(), unicode), name, unicode), name),
            right(&rate, NUMBER),
            right(&duration(row.p50_ns), NUMBER),
            right(&duration(row.p99_ns), NUMBER)
        );
        let mut line = vec![(text, look)];
        let pieces = bar(&row.time, bars, unicode);
        let used: usize = pieces.iter().map(Piece::width).sum();
        line.extend(pieces.iter().map(piece));
        let because = because(row, unicode);
        line.push((format!("{} {because}", " ".repeat(bars.saturating_sub(used))), TopLook::Plain));
        lines.push(line);
    }
    lines
}

fn piece(piece: &Piece) -> TopPiece {
    let look = match piece.emphasis() {
        Emphasis::Color(color) => TopLook::Color(color),
        Emphasis::None
        | Emphasis::Strong
        | Emphasis::Faint
        | Emphasis::Good
        | Emphasis::Warning
        | Emphasis::Bad => TopLook::Plain,
    };
    (piece.text().to_owned(), look)
}

/// The most frequent cause of slow requests.
fn because(row: &TopRow, unicode: bool) -> String {
    let all: u64 = row.slow.iter().map(|(_, count)| count).sum();
    let Some((cause, count)) = row.slow.first() else { return "-".to_owned() };
    let share = percent(*count as f64 / all.max(1) as f64);
    let cause = plain(cause.stored(), unicode);
    let cause = fit(&cause, CAUSE.saturating_sub(share.len() + 1), unicode);
    format!("{cause} {share}")
}

/// All of one row.
fn details(row: &TopRow, columns: usize, unicode: bool) -> Vec<Vec<TopPiece>> {
    let TopRow { per_s, p50_ns, p99_ns, slowest_ns, .. } = row;
    let name = fit(&plain(row.request.stored(), unicode), columns, unicode);
    let numbers = format!(
        "{per_s:.1}/s  p50 {}  p99 {}  slowest {}",
        duration(*p50_ns),
        duration(*p99_ns),
        duration(*slowest_ns)
    );
    let mut lines = vec![vec![(name, TopLook::Strong)], vec![(numbers, TopLook::Plain)], Vec::new()];
    let total = row.time.total_ns().max(1);
    let mut time: Vec<(Cause, u128)> = row.time.time().filter(|(_, ns)| *ns > 0).collect();
    time.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    for (cause, ns) in time {
        let share = percent(ns as f64 / total as f64);
        let verb = if let Cause::Account(account) = cause {
            if account == Account::Cpu { "ran on a CPU" } else { looks::of(account).verb }
        } else {
            ""
        };
        let text = format!("  {} {}  {verb}", left(cause.name(), 10), right(&share, NUMBER));
        lines.push(vec![(fit(&text, columns, unicode), TopLook::Plain)]);
    }
    lines.push(Vec::new());
    for (cause, count) in &row.slow {
        let text =
            format!("  {} slow because of {}", right(&count.to_string(), 6), plain(cause.stored(), unicode));
        lines.push(vec![(fit(&text, columns, unicode), TopLook::Plain)]);
    }
    lines
}

#[cfg(test)]
#[path = "top_tests.rs"]
mod tests;
