//! Tables of phases and of processes: counts, durations, time by account.
//!
//! Yields lines on a page. Numbers are aligned; a bar shows the same as the numbers below it.

use crate::analyze::{Cause, Group, ProcessRow, Row, RowKind, Sums};

use super::{
    accounts::{columns, means},
    bar::{bar, legend},
    page::{Align, Emphasis, Page, Piece},
    text::width,
    units::{duration, duration_of_sum, percent, thousands},
};

/// Deepest nesting that is still indented.
const DEEPEST_INDENT: usize = 6;
/// Maximum width of a bar: a wider one shows no more.
const WIDEST_BAR: usize = 40;

/// Columns for names: as wide as the names, within bounds that leave room for numbers.
pub(super) fn name_columns(page: &Page, names: &[String]) -> usize {
    let most = match page.style().width {
        ..80 => 16,
        80..100 => 20,
        _ => 28,
    };
    names.iter().map(|name| width(name)).max().unwrap_or(0).clamp(1, most)
}

fn row_name(page: &Page, row: &Row) -> String {
    let name = row.path.last().cloned().unwrap_or_default();
    format!("{}{}", "  ".repeat(row.depth.min(DEEPEST_INDENT)), page.safe(name))
}

pub(super) fn heading(text: &str) -> Piece {
    Piece::new(text, Emphasis::Faint)
}

/// All rows; the row for time outside phases only if it has any.
fn shown_rows(group: &Group) -> impl Iterator<Item = &Row> + Clone {
    let is_alone = group.rows.len() == 1;
    group.rows.iter().filter(move |row| is_alone || row.kind != RowKind::Outside || row.duration.sum_ns > 0)
}

/// Phases: count, share, quantiles and a bar; then the mean of one, by account.
pub(super) fn phases(page: &mut Page, group: &Group) {
    let names: Vec<String> = shown_rows(group).map(|row| row_name(page, row)).collect();
    let columns = name_columns(page, &names);
    let names: Vec<String> = names.iter().map(|name| page.fit(name, columns)).collect();
    phase_numbers(page, group, &names);
    let legend = legend(shown_rows(group).map(|row| &row.sums), page.style().unicode);
    page.wrapped(&[heading("bar")], 5, legend);
    page.blank();
    phase_accounts(page, group, &names);
}

fn phase_numbers(page: &mut Page, group: &Group, names: &[String]) {
    let is_narrow = page.style().is_narrow();
    let has_p99 = group.latency.p99_ns.is_some();
    let last = if has_p99 { "p99" } else { "max" };
    let mut head = vec![heading("phase"), heading("count"), heading("share"), heading("p50")];
    if !is_narrow {
        head.push(heading("p90"));
    }
    head.push(heading(last));
    let mut rows = vec![head];
    for (row, name) in shown_rows(group).zip(names) {
        let quantiles = &row.duration;
        let or_none = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
        let mut cells: Vec<Piece> = vec![
            name.clone().into(),
            thousands(quantiles.count).into(),
            percent(row.share).into(),
            duration(quantiles.p50_ns).into(),
        ];
        if !is_narrow {
            cells.push(or_none(quantiles.p90_ns).into());
        }
        let largest = if has_p99 { or_none(quantiles.p99_ns) } else { duration(quantiles.max_ns) };
        cells.push(largest.into());
        rows.push(cells);
    }
    let aligns = numbers_after_a_name(rows[0].len());
    with_bars(page, rows, &aligns, shown_rows(group).map(|row| &row.sums));
}

/// Appends a bar to each row but the heading, as wide as the line allows, and prints the table.
pub(super) fn with_bars<'a>(
    page: &mut Page,
    mut rows: Vec<Vec<Piece>>,
    aligns: &[Align],
    sums: impl Iterator<Item = &'a Sums>,
) {
    let cells = rows[0].len();
    let widest = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let used: usize = (0..cells).map(|column| widest(column) + 2).sum();
    let columns = page.style().width.saturating_sub(used).min(WIDEST_BAR);
    rows[0].push(heading(match columns {
        20.. => "where the time went",
        4.. => "bar",
        _ => "",
    }));
    let unicode = page.style().unicode;
    for (row, sums) in rows.iter_mut().skip(1).zip(sums) {
        row.extend(bar(sums, columns, unicode));
    }
    page.table(aligns, &rows);
}

fn numbers_after_a_name(cells: usize) -> Vec<Align> {
    let mut aligns = vec![Align::Right; cells];
    aligns[0] = Align::Left;
    aligns
}

fn phase_accounts(page: &mut Page, group: &Group, names: &[String]) {
    let rows: Vec<AccountRow<'_>> = shown_rows(group)
        .zip(names)
        .map(|(row, name)| AccountRow {
            cells: vec![name.clone().into(), duration(row.duration.mean_ns()).into()],
            sums: &row.sums,
            count: row.duration.count,
        })
        .collect();
    let causes = columns(rows.iter().map(|row| row.sums));
    accounts_table(page, &[("mean of one", Align::Left), ("time", Align::Right)], &rows, &causes);
}

/// A row of a table of accounts: its first cells, and the sums that it shows as a mean.
pub(super) struct AccountRow<'a> {
    pub(super) cells: Vec<Piece>,
    pub(super) sums: &'a Sums,
    pub(super) count: u64,
}

/// A table of as many accounts as fit, in this order, the rest summed up.
pub(super) fn accounts_table(
    page: &mut Page,
    first: &[(&str, Align)],
    rows: &[AccountRow<'_>],
    causes: &[Cause],
) {
    let width_of = |rows: &[Vec<Piece>]| {
        let widest = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        (0..rows[0].len()).map(|column| widest(column) + 2).sum::<usize>() - 2
    };
    let mut shown = causes.len();
    let mut table = account_rows(first, rows, causes);
    while shown > 1 && width_of(&table) > page.style().width {
        shown -= 1;
        table = account_rows(first, rows, &causes[..shown]);
    }
    let mut aligns: Vec<Align> = first.iter().map(|(_, align)| *align).collect();
    aligns.resize(table[0].len(), Align::Right);
    page.table(&aligns, &table);
}

fn account_rows(first: &[(&str, Align)], rows: &[AccountRow<'_>], shown: &[Cause]) -> Vec<Vec<Piece>> {
    let shown_of = |sums: &Sums| shown.iter().map(|&cause| sums.get(cause)).sum::<u128>();
    let has_rest = rows.iter().any(|row| shown_of(row.sums) < row.sums.total_ns());
    let mut head: Vec<Piece> = first.iter().map(|(text, _)| heading(text)).collect();
    head.extend(shown.iter().map(|cause| heading(cause.name())));
    head.extend(has_rest.then(|| heading("rest")));
    let mut table = vec![head];
    for AccountRow { cells, sums, count } in rows {
        let count = u128::from((*count).max(1));
        let cell = |ns: u128| if ns == 0 { "-".to_owned() } else { duration_of_sum(ns / count) };
        let mut cells = cells.clone();
        cells.extend(shown.iter().map(|&cause| Piece::from(cell(sums.get(cause)))));
        cells.extend(has_rest.then(|| cell(sums.total_ns() - shown_of(sums)).into()));
        table.push(cells);
    }
    table
}

/// Processes by their main threads, of so many `seen`; with a table of accounts, unless groups of threads
/// have one.
pub(super) fn processes(page: &mut Page, processes: &[ProcessRow], seen: u64, with_accounts: bool) {
    let names: Vec<String> = processes.iter().map(|process| page.safe(&process.name)).collect();
    let columns = name_columns(page, &names);
    let sums: Vec<Sums> = processes.iter().map(sums_of).collect();
    let mut rows = vec![vec![heading("process"), heading("pid"), heading("wall")]];
    for (process, name) in processes.iter().zip(&names) {
        let wall = duration(process.wall_ns);
        rows.push(vec![page.fit(name, columns).into(), process.pid.to_string().into(), wall.into()]);
    }
    let aligns = numbers_after_a_name(rows[0].len());
    with_bars(page, rows, &aligns, sums.iter());
    let legend = legend(sums.iter(), page.style().unicode);
    page.wrapped(&[heading("bar")], 5, legend);
    if with_accounts {
        page.blank();
    }
    for ((name, sums), process) in names.iter().zip(&sums).zip(processes).filter(|_| with_accounts) {
        let name = page.fit(name, columns);
        let means = means(sums, process.counts.poll_net_ns.into(), 1);
        page.wrapped(&[Piece::from(name)], columns + 2, listed(means));
    }
    let left_out = seen.saturating_sub(processes.len() as u64);
    if left_out > 0 {
        page.line(&[heading(&format!("and {} shorter ones", thousands(left_out)))]);
    }
}

pub(super) fn sums_of(process: &ProcessRow) -> Sums {
    let mut sums = Sums::default();
    sums.add(&process.split);
    sums
}

/// Items with commas between them; no item is broken across lines.
pub(super) fn listed(items: Vec<String>) -> Vec<Piece> {
    let last = items.len().saturating_sub(1);
    let comma = |(index, item): (usize, String)| if index < last { format!("{item},") } else { item };
    items.into_iter().enumerate().map(comma).map(Piece::from).collect()
}
