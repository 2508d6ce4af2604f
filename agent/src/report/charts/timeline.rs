//! One request over time: its phases as nested bars, and below them a row for each thread with its long waits.

use guestscope_ebpf::Account;
use maud::Markup;
use plotters::{
    element::{Rectangle, Text},
    style::{
        Color as _,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{AXIS, Area, ChartError, Drawn, NAMES, Times, WIDTH, draw, fit, ink::Ink, text};
use crate::analyze::Cause;

/// A bar of a row, ns after the request's arrival.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Piece {
    /// Its begin.
    pub(in crate::report) start_ns: u64,
    /// Its length.
    pub(in crate::report) duration_ns: u64,
    /// What stands in it, if it has room.
    pub(in crate::report) name: String,
    /// Why time was lost; a phase has none.
    pub(in crate::report) cause: Option<Cause>,
}

/// How much of something there was for a while, after the request's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) struct Level {
    /// Its begin, ns.
    pub(in crate::report) start_ns: u64,
    /// Its length, ns.
    pub(in crate::report) duration_ns: u64,
    /// Of the row's height.
    pub(in crate::report) percent: u8,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::report) struct Row {
    /// What it is of.
    pub(in crate::report) name: String,
    /// In any order.
    pub(in crate::report) pieces: Vec<Piece>,
    /// The same.
    pub(in crate::report) levels: Vec<Level>,
}

const ROW: i32 = 46;
const BAR: i32 = 36;

/// The chart of a request that took so long.
pub(in crate::report) fn timeline(
    rows: &[Row],
    latency_ns: u64,
    description: &str,
) -> Result<Markup, ChartError> {
    let height = rows.len() as i32 * ROW + AXIS;
    let times = Times::up_to(latency_ns as f64);
    draw((WIDTH, height), description, |area| {
        times.axis(area, height)?;
        for (index, row) in rows.iter().enumerate() {
            draw_row(area, row, index as i32 * ROW, times)?;
        }
        Ok(())
    })
}

fn draw_row(area: &Area<'_>, row: &Row, y: i32, times: Times) -> Drawn {
    let middle = y + BAR / 2;
    let right = text().pos(Pos::new(HPos::Right, VPos::Center));
    area.draw(&Text::new(fit(&row.name, NAMES - 20), (NAMES - 14, middle), right))?;
    for level in &row.levels {
        let (from, to) = ends(times, level.start_ns, level.duration_ns);
        // An idle device is a line, so that it differs from one of which nothing is known.
        let height = (BAR * i32::from(level.percent) / 100).max(2);
        let place = [(from, y + BAR - height), (to, y + BAR)];
        area.draw(&Rectangle::new(place, Ink::Cause(Cause::Account(Account::Gpu)).color().filled()))?;
        label(area, (&format!("{} %", level.percent), true), (from, to, y))?;
    }
    for piece in &row.pieces {
        let (from, to) = ends(times, piece.start_ns, piece.duration_ns);
        let place = [(from, y), (to, y + BAR)];
        if let Some(cause) = piece.cause {
            area.draw(&Rectangle::new(place, Ink::Cause(cause).color().filled()))?;
        } else {
            area.draw(&Rectangle::new(place, Ink::Frame.color().mix(0.25).filled()))?;
            area.draw(&Rectangle::new(place, Ink::Frame.color().stroke_width(2)))?;
        }
        label(area, (&piece.name, piece.cause.is_some()), (from, to, y))?;
    }
    Ok(())
}

/// Where it lies; what is there can be seen.
fn ends(times: Times, start_ns: u64, duration_ns: u64) -> (i32, i32) {
    let from = times.x(start_ns as f64);
    (from, times.x(start_ns.saturating_add(duration_ns) as f64).max(from + 2))
}

/// Its name, if there is room; over a colour on a piece of paper, and whole or not at all.
fn label(area: &Area<'_>, (name, is_coloured): (&str, bool), (from, to, y): (i32, i32, i32)) -> Drawn {
    let short = fit(name, to - from - 12);
    if short.is_empty() || (is_coloured && short != name) {
        return Ok(());
    }
    if is_coloured {
        let end = from + 6 + short.chars().count() as i32 * super::CHARACTER;
        area.draw(&Rectangle::new([(from + 4, y + 4), (end, y + BAR - 4)], Ink::Paper.color().filled()))?;
    }
    let style = text().pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(short, (from + 6, y + BAR / 2), style))
}
