//! One request over time: its phases as nested bars, and below them a row for each thread with its long waits.

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

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Row {
    /// What it is of.
    pub(in crate::report) name: String,
    /// In any order.
    pub(in crate::report) pieces: Vec<Piece>,
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
    for piece in &row.pieces {
        let from = times.x(piece.start_ns as f64);
        // What is there can be seen.
        let to = times.x(piece.start_ns.saturating_add(piece.duration_ns) as f64).max(from + 2);
        let place = [(from, y), (to, y + BAR)];
        if let Some(cause) = piece.cause {
            area.draw(&Rectangle::new(place, Ink::Cause(cause).color().filled()))?;
        } else {
            area.draw(&Rectangle::new(place, Ink::Frame.color().mix(0.25).filled()))?;
            area.draw(&Rectangle::new(place, Ink::Frame.color().stroke_width(2)))?;
        }
        let name = fit(&piece.name, to - from - 12);
        if !name.is_empty() && (piece.cause.is_none() || name == piece.name) {
            if piece.cause.is_some() {
                let end = from + 6 + name.chars().count() as i32 * super::CHARACTER;
                area.draw(&Rectangle::new(
                    [(from + 4, y + 4), (end, y + BAR - 4)],
                    Ink::Paper.color().filled(),
                ))?;
            }
            let style = text().pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(name, (from + 6, middle), style))?;
        }
    }
    Ok(())
}
