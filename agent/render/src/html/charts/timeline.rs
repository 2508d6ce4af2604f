//! One request over time: its phases as nested bars, and below them a row for each thread with its long
//! waits.
//!
//! Pieces that overlap or touch in one colour are drawn once: a request may have thousands of waits, a chart
//! has a thousand pixels.

use guestscope_contract::Account;
use maud::Markup;
use plotters::{
    element::{Rectangle, Text},
    style::{
        Color as _,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{
    drawing::{AXIS, Area, ChartError, Drawn, PLATE, Times, WIDTH, draw, fit, room_for, text},
    ink::Ink,
};
use crate::analyze::Cause;

/// A bar of a row, ns after the request's arrival.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::html) struct Piece {
    /// Start, ns.
    pub(in crate::html) start_ns: u64,
    /// Length, ns.
    pub(in crate::html) duration_ns: u64,
    /// Label, shown if there is room.
    pub(in crate::html) name: String,
    /// Cause of lost time; none for a phase.
    pub(in crate::html) cause: Option<Cause>,
}

/// A level over an interval, relative to the request's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::html) struct Level {
    /// Start, ns.
    pub(in crate::html) start_ns: u64,
    /// Length, ns.
    pub(in crate::html) duration_ns: u64,
    /// Level in per cent of the row's height.
    pub(in crate::html) percent: u8,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::html) struct Row {
    /// Label.
    pub(in crate::html) name: String,
    /// Pieces, in any order.
    pub(in crate::html) pieces: Vec<Piece>,
    /// Levels, in any order.
    pub(in crate::html) levels: Vec<Level>,
}

const ROW: i32 = 50;
const BAR: i32 = 42;

/// The chart of a request of this duration.
pub(in crate::html) fn timeline(
    rows: &[Row],
    latency_ns: u64,
    description: &str,
) -> Result<Markup, ChartError> {
    let height = rows.len() as i32 * ROW + AXIS;
    let names = room_for(rows.iter().map(|row| row.name.as_str()));
    let times = Times::up_to(latency_ns as f64, names);
    draw(WIDTH, height, description, |area| {
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
    area.draw(&Text::new(fit(&row.name, times.left - 20), (times.left - 14, middle), right))?;
    for level in &row.levels {
        let (from, to) = ends(times, level.start_ns, level.duration_ns);
        // An idle device is a line, so that it differs from an unknown one.
        let height = (BAR * i32::from(level.percent) / 100).max(2);
        let place = [(from, y + BAR - height), (to, y + BAR)];
        let cause = Cause::Account(Account::Gpu);
        area.draw(&Rectangle::new(place, Ink::Cause(cause).color().filled()))?;
        label(area, &Shape { name: &format!("{} %", level.percent), cause: Some(cause), from, to }, y)?;
    }
    for shape in shapes(&row.pieces, times) {
        let place = [(shape.from, y), (shape.to, y + BAR)];
        if let Some(cause) = shape.cause {
            area.draw(&Rectangle::new(place, Ink::Cause(cause).color().filled()))?;
        } else {
            area.draw(&Rectangle::new(place, Ink::Frame.color().mix(0.25).filled()))?;
            area.draw(&Rectangle::new(place, Ink::Frame.color().stroke_width(2)))?;
        }
        label(area, &shape, y)?;
    }
    Ok(())
}

/// A merged piece, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape<'a> {
    name: &'a str,
    cause: Option<Cause>,
    from: i32,
    to: i32,
}

/// Merges pieces of one cause without a pixel between them; phases keep their frames.
fn shapes(pieces: &[Piece], times: Times) -> Vec<Shape<'_>> {
    let mut shapes: Vec<Shape<'_>> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let (from, to) = ends(times, piece.start_ns, piece.duration_ns);
        match shapes.last_mut() {
            Some(last)
                if piece.cause.is_some()
                    && (last.cause, last.name) == (piece.cause, piece.name.as_str())
                    && (last.from..=last.to).contains(&from) =>
            {
                last.to = last.to.max(to);
            }
            _ => shapes.push(Shape { name: &piece.name, cause: piece.cause, from, to }),
        }
    }
    shapes
}

/// Pixel range of a piece, at least two pixels wide.
fn ends(times: Times, start_ns: u64, duration_ns: u64) -> (i32, i32) {
    let from = times.x(start_ns as f64);
    (from, times.x(start_ns.saturating_add(duration_ns) as f64).max(from + 2))
}

/// Draws a name if there is room; over a colour on a plate of paper, and only if it fits whole.
fn label(area: &Area<'_>, shape: &Shape<'_>, y: i32) -> Drawn {
    let Shape { name, cause, from, to } = *shape;
    let is_coloured = cause.is_some();
    let short = fit(name, to - from - 16);
    if short.is_empty() || (is_coloured && short != name) {
        return Ok(());
    }
    let middle = y + BAR / 2;
    if is_coloured {
        let (width, at) =
            (short.chars().count() as i32 * super::drawing::CHARACTER + 8, i32::midpoint(from, to));
        let plate = [(at - width / 2, middle - PLATE / 2), (at + width / 2, middle + PLATE / 2)];
        area.draw(&Rectangle::new(plate, Ink::Paper.color().filled()))?;
        return area.draw(&Text::new(short, (at, middle), text().pos(Pos::new(HPos::Center, VPos::Center))));
    }
    let style = text().pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(short, (from + 8, middle), style))
}

#[cfg(test)]
mod tests {
    use guestscope_contract::Account;

    use super::{Piece, Times, shapes};
    use crate::analyze::Cause;

    fn piece(start_ns: u64, duration_ns: u64, account: Option<Account>) -> Piece {
        let name = account.map_or("phase", |account| account.name()).to_owned();
        Piece { start_ns, duration_ns, name, cause: account.map(Cause::Account) }
    }

    /// Pixel ranges of the shapes, on a chart with one pixel per ns.
    fn ends(pieces: &[Piece]) -> Vec<(i32, i32)> {
        let times = Times {
            left: 0,
            end_ns: f64::from(super::WIDTH - super::super::drawing::RIGHT),
            unit_ns: 1.0,
            unit: "ns",
        };
        shapes(pieces, times).iter().map(|shape| (shape.from, shape.to)).collect()
    }

    #[test]
    fn what_touches_in_one_colour_is_drawn_once() {
        let runq = |start_ns: u64, duration_ns: u64| piece(start_ns, duration_ns, Some(Account::Runq));
        assert_eq!(ends(&[runq(10, 5), runq(15, 5), runq(18, 1), runq(21, 4)]), [(10, 20), (21, 25)]);
        let lock = piece(15, 5, Some(Account::Lock));
        assert_eq!(ends(&[runq(10, 5), lock, runq(20, 5)]), [(10, 15), (15, 20), (20, 25)]);
        // A piece shorter than a pixel is still seen.
        assert_eq!(ends(&[runq(10, 0), runq(13, 0)]), [(10, 12), (13, 15)]);
    }

    #[test]
    fn phases_side_by_side_stay_apart() {
        assert_eq!(ends(&[piece(0, 5, None), piece(5, 5, None)]), [(0, 5), (5, 10)]);
    }

    /// Pieces out of order are drawn in the given order.
    #[test]
    fn pieces_out_of_order_are_not_joined_over_a_gap() {
        let runq = |start_ns: u64| piece(start_ns, 5, Some(Account::Runq));
        assert_eq!(ends(&[runq(50), runq(10)]), [(50, 55), (10, 15)]);
    }
}
