//! Stacked bars of time by cause: for a request or a phase one bar per platform, with its time in figures and
//! the interval of its end.

use maud::Markup;
use plotters::{
    element::{PathElement, Rectangle, Text},
    style::{
        Color as _,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{
    drawing::{AXIS, Area, ChartError, Drawn, PLATE, Times, WIDTH, draw, fit_ends, room_for, text},
    ink::Ink,
};
use crate::{
    analyze::{Cause, compare::Interval},
    terminal::units::mean_duration,
};

/// A group of bars, one for each platform.
#[derive(Clone, Debug)]
pub(in crate::html) struct Group {
    /// Name of the phase.
    pub(in crate::html) name: String,
    /// Bars, in the order of the platforms.
    pub(in crate::html) bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug)]
pub(in crate::html) struct Bar {
    /// Platform label.
    pub(in crate::html) label: String,
    /// Parts from the left, ns.
    pub(in crate::html) parts: Vec<(Cause, f64)>,
    /// Total with its interval, ns.
    pub(in crate::html) total_ns: Interval,
}

const BAR: i32 = 40;
const GAP: i32 = 10;
/// Room for a bar's time in figures: a bar may be too short to be seen, and on a phone its end is out of
/// sight.
const FIGURES: i32 = 160;

/// End of the longest bar of an axis, interval included, ns.
pub(in crate::html) fn longest_ns(groups: &[Group]) -> f64 {
    let end = |bar: &Bar| bar.total_ns.high.unwrap_or(0.0).max(bar.total_ns.value);
    groups.iter().flat_map(|group| &group.bars).map(end).fold(0.0, f64::max)
}

/// The chart of a group, on an axis up to that time.
pub(in crate::html) fn stacked(group: &Group, longest_ns: f64) -> Result<Markup, ChartError> {
    let names = room_for(group.bars.iter().map(|bar| bar.label.as_str()));
    let times = Times::up_to(longest_ns * 1.02, names + FIGURES);
    let height = GAP + group.bars.len() as i32 * (BAR + GAP) + AXIS;
    let description =
        format!("{}: bars of time by cause for each platform; the table below has the numbers", group.name);
    draw(WIDTH, height, &description, |area| {
        times.axis(area, height)?;
        for (index, bar) in group.bars.iter().enumerate() {
            draw_bar(area, bar, GAP + index as i32 * (BAR + GAP), times)?;
        }
        Ok(())
    })
}

fn draw_bar(area: &Area<'_>, bar: &Bar, y: i32, times: Times) -> Drawn {
    let (middle, names) = (y + BAR / 2, times.left - FIGURES);
    let right = || text().pos(Pos::new(HPos::Right, VPos::Center));
    area.draw(&Text::new(fit_ends(&bar.label, names - 14), (names - 14, middle), right()))?;
    area.draw(&Text::new(mean_duration(bar.total_ns.value), (times.left - 14, middle), right()))?;
    let mut from_ns = 0.0;
    for (cause, ns) in &bar.parts {
        let (from, to) = (times.x(from_ns), times.x(from_ns + ns));
        from_ns += ns;
        if to <= from {
            continue;
        }
        area.draw(&Rectangle::new([(from, y), (to, y + BAR)], Ink::Cause(*cause).color().filled()))?;
        let name = cause.name();
        let room = name.chars().count() as i32 * super::drawing::CHARACTER + 16;
        if to - from > room {
            let (width, at) = (room - 8, i32::midpoint(from, to));
            let plate = [(at - width / 2, middle - PLATE / 2), (at + width / 2, middle + PLATE / 2)];
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
