//! Bars of time by cause: for the whole request and for each of its phases one bar per platform, with the interval of the
//! bar's end.

use maud::Markup;
use plotters::{
    element::{PathElement, Rectangle, Text},
    style::{
        Color as _,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{AXIS, Area, ChartError, Drawn, NAMES, TEXT, Times, WIDTH, draw, fit, ink::Ink, text};
use crate::analyze::{Cause, compare::Interval};

/// A group of bars, one for each platform.
#[derive(Clone, Debug)]
pub(in crate::report) struct Group {
    /// The phase.
    pub(in crate::report) name: String,
    /// In the order of the platforms.
    pub(in crate::report) bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug)]
pub(in crate::report) struct Bar {
    /// Whose.
    pub(in crate::report) label: String,
    /// Its parts from the left, ns.
    pub(in crate::report) parts: Vec<(Cause, f64)>,
    /// Its end.
    pub(in crate::report) total_ns: Interval,
}

const BAR: i32 = 40;
const GAP: i32 = 10;
const HEAD: i32 = 44;

impl Group {
    fn height(&self) -> i32 {
        HEAD + self.bars.len() as i32 * (BAR + GAP) + GAP
    }
}

/// The chart.
pub(in crate::report) fn stacked(groups: &[Group]) -> Result<Markup, ChartError> {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let end = |bar: &Bar| bar.total_ns.high.unwrap_or(0.0).max(bar.total_ns.value);
    let times = Times::up_to(bars().map(end).fold(0.0, f64::max) * 1.02);
    let height = groups.iter().map(Group::height).sum::<i32>() + AXIS;
    draw(
        (WIDTH, height),
        "Bars of time by cause, phase and platform; the table below has the numbers",
        |area| {
            times.axis(area, height)?;
            let mut y = 0;
            for group in groups {
                area.draw(&Text::new(fit(&group.name, WIDTH), (0, y + 8), text()))?;
                for (index, bar) in group.bars.iter().enumerate() {
                    draw_bar(area, bar, y + HEAD + index as i32 * (BAR + GAP), times)?;
                }
                y += group.height();
            }
            Ok(())
        },
    )
}

fn draw_bar(area: &Area<'_>, bar: &Bar, y: i32, times: Times) -> Drawn {
    let middle = y + BAR / 2;
    let right = text().pos(Pos::new(HPos::Right, VPos::Center));
    area.draw(&Text::new(fit(&bar.label, NAMES - 20), (NAMES - 14, middle), right))?;
    let mut from_ns = 0.0;
    for (cause, ns) in &bar.parts {
        let (from, to) = (times.x(from_ns), times.x(from_ns + ns));
        from_ns += ns;
        if to <= from {
            continue;
        }
        area.draw(&Rectangle::new([(from, y), (to, y + BAR)], Ink::Cause(*cause).color().filled()))?;
        let name = cause.name();
        let room = name.chars().count() as i32 * super::CHARACTER + 16;
        if to - from > room {
            let (width, at) = (room - 8, i32::midpoint(from, to));
            let plate =
                [(at - width / 2, middle - TEXT as i32 / 2), (at + width / 2, middle + TEXT as i32 / 2)];
            area.draw(&Rectangle::new(plate, Ink::Paper.color().filled()))?;
            let style = text().pos(Pos::new(HPos::Center, VPos::Center));
            area.draw(&Text::new(name, (at, middle), style))?;
        }
    }
    let Some((low, high)) = bar.total_ns.low.zip(bar.total_ns.high) else { return Ok(()) };
    let (low, high) = (times.x(low), times.x(high));
    for line in [
        vec![(low, middle), (high, middle)],
        vec![(low, y + 8), (low, y + BAR - 8)],
        vec![(high, y + 8), (high, y + BAR - 8)],
    ] {
        area.draw(&PathElement::new(line, Ink::Text.color().stroke_width(3)))?;
    }
    Ok(())
}
