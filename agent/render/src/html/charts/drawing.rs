//! What all charts are drawn with: sizes, texts, planes and the axis of times.

use std::ops::Range;

use maud::{Markup, PreEscaped};
use plotters::{
    backend::SVGBackend,
    chart::{ChartBuilder, ChartContext, LabelAreaPosition},
    coord::{Shift, cartesian::Cartesian2d, types::RangedCoordf64},
    drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _},
    element::{PathElement, Text},
    style::{
        Color as _, IntoFont as _, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::ink::{self, Ink};

/// Width of all charts. Twice what a page shows, because plotters counts in whole units.
pub(super) const WIDTH: i32 = 2_000;

/// Height of text: on a page of A4, where a chart is half as wide as here in points, letters of 7 points.
pub(super) const TEXT: u32 = 32;

/// Height of the paper behind text in a bar, which goes on above and below it.
pub(super) const PLATE: i32 = 26;

/// Width of a character; few are wider.
pub(super) const CHARACTER: i32 = 16;

/// Bounds on the room for names at the left.
pub(super) const LEAST_NAMES: i32 = 200;

pub(super) const MOST_NAMES: i32 = 560;

/// Room at the right, for half of the last tick's label.
pub(super) const RIGHT: i32 = 70;

/// Room for the axis below bars.
pub(super) const AXIS: i32 = 54;

/// A chart could not be drawn. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw: {chart}: {reason}")]
pub struct ChartError {
    /// Name of the chart.
    chart: String,
    /// Reason.
    reason: String,
}

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(super) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

pub(super) type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws on a canvas of this size; `description` is its text alternative.
pub(super) fn draw(
    width: i32,
    height: i32,
    description: &str,
    paint: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<Markup, ChartError> {
    let failed = |reason: String| ChartError { chart: description.to_owned(), reason };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width.unsigned_abs(), height.unsigned_abs()))
            .into_drawing_area();
        paint(&area).map_err(|error| failed(error.to_string()))?;
        area.present().map_err(|error| failed(error.to_string()))?;
    }
    let begin = svg.find('>').map_or(0, |at| at + 1);
    let inked = ink::inked(&svg[begin..]);
    let label = maud::html! { (description) }.into_string();
    Ok(PreEscaped(format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">{inked}"
    )))
}

/// Text in the page's own colour.
pub(super) fn text() -> TextStyle<'static> {
    ("sans-serif", TEXT).into_font().color(&Ink::Text.color())
}

/// The text, cut to the width.
pub(super) fn fit(text: &str, width: i32) -> String {
    let room = usize::try_from(width / CHARACTER).unwrap_or(0);
    if text.chars().count() <= room {
        return text.to_owned();
    }
    match room {
        0..3 => String::new(),
        _ => text.chars().take(room - 1).chain(['\u{2026}']).collect(),
    }
}

/// A name cut in the middle, because names of platforms often differ in their ends alone.
pub(super) fn fit_ends(name: &str, width: i32) -> String {
    let (room, count) = (usize::try_from(width / CHARACTER).unwrap_or(0), name.chars().count());
    if count <= room || room < 5 {
        return fit(name, width);
    }
    let end = (room - 1) / 2;
    let begin = name.chars().take(room - 1 - end);
    begin.chain(['\u{2026}']).chain(name.chars().skip(count - end)).collect()
}

/// Width for the longest of these names, at most `MOST_NAMES`.
pub(super) fn room_for<'a>(names: impl Iterator<Item = &'a str>) -> i32 {
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
    (longest as i32 * CHARACTER + 20).clamp(LEAST_NAMES, MOST_NAMES)
}

/// Labels of an axis's ticks.
pub(super) type Names<'a> = &'a dyn Fn(&f64) -> String;

/// One of the two axes of a plane.
pub(super) struct Axis<'a> {
    pub(super) range: Range<f64>,
    pub(super) names: Names<'a>,
}

/// Axes for lines, with about `x_marks` ticks on the lower one.
pub(super) fn plane<'a, 'b>(
    area: &'a Area<'b>,
    x: Axis<'_>,
    x_marks: usize,
    y: Axis<'_>,
) -> Drawn<Plane<'a, 'b>> {
    let mut plane = ChartBuilder::on(area)
        .margin(10)
        .margin_top(20)
        .margin_right(RIGHT)
        .x_label_area_size(80)
        .y_label_area_size(150)
        .build_cartesian_2d(x.range, y.range)?;
    plane
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(Ink::Paper.color())
        .bold_line_style(Ink::Grid.color())
        .axis_style(Ink::Text.color())
        // Otherwise the first label below the axis touches the lowest one beside it.
        .set_tick_mark_size(LabelAreaPosition::Bottom, 18)
        .label_style(text())
        .x_labels(x_marks)
        .x_label_formatter(x.names)
        .y_label_formatter(y.names)
        .draw()?;
    Ok(plane)
}

/// A time scale from zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Left edge, right of the names.
    pub(super) left: i32,
    /// The largest value, ns.
    pub(super) end_ns: f64,
    /// Length of one unit, ns.
    pub(super) unit_ns: f64,
    /// Name of the unit.
    pub(super) unit: &'static str,
}

impl Times {
    /// A scale for values up to `ns`, from `left` on.
    pub(super) fn up_to(ns: f64, left: i32) -> Self {
        let (unit_ns, unit) = match ns {
            _ if ns >= 2e9 => (1e9, "s"),
            _ if ns >= 2e6 => (1e6, "ms"),
            _ if ns >= 2e3 => (1e3, "us"),
            _ => (1.0, "ns"),
        };
        Self { left, end_ns: ns.max(1.0), unit_ns, unit }
    }

    /// Ticks at 1, 2 or 5 times a power of ten, about five of them.
    fn marks(self) -> Vec<f64> {
        let rough = self.end_ns / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&step| step >= rough);
        let step = step.unwrap_or(rough);
        (0..100).map(|index| f64::from(index) * step).take_while(|&at| at <= self.end_ns).collect()
    }

    /// The x coordinate of a time.
    pub(super) fn x(self, ns: f64) -> i32 {
        let room = f64::from(WIDTH - self.left - RIGHT);
        self.left + (ns.clamp(0.0, self.end_ns) / self.end_ns * room).round() as i32
    }

    /// Draws ticks across a chart of this height, with their labels below.
    pub(super) fn axis(self, area: &Area<'_>, height: i32) -> Drawn {
        for mark in self.marks() {
            let at = self.x(mark);
            let across = vec![(at, 0), (at, height - AXIS)];
            area.draw(&PathElement::new(across, Ink::Grid.color().stroke_width(2)))?;
            let style = text().pos(Pos::new(HPos::Center, VPos::Top));
            area.draw(&Text::new(self.name(mark), (at, height - AXIS + 10), style))?;
        }
        Ok(())
    }

    pub(super) fn name(self, ns: f64) -> String {
        // A hundredth of a unit is 10 of the next smaller one: more digits would add nothing.
        let text = format!("{:.2}", ns / self.unit_ns);
        format!("{} {}", text.trim_end_matches('0').trim_end_matches('.'), self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHARACTER, LEAST_NAMES, MOST_NAMES, fit, fit_ends, room_for};

    #[test]
    fn names_that_differ_in_their_ends_still_differ_when_they_are_shortened() {
        let width = 12 * CHARACTER;
        assert_eq!(fit_ends("vm-1-pinned", width), "vm-1-pinned");
        assert_eq!(fit_ends("container-in-vm-1-pinned", width), "contai\u{2026}inned");
        assert_ne!(fit_ends("container-in-vm-1-free", width), fit_ends("container-in-vm-1-pinned", width));
        assert_eq!(fit("container-in-vm-1-free", width), "container-i\u{2026}");
        assert_eq!(
            (fit_ends("container", 4 * CHARACTER), fit("ab", CHARACTER)),
            ("con\u{2026}".to_owned(), String::new())
        );
    }

    #[test]
    fn names_have_the_room_they_need_within_limits() {
        let room = |names: &[&str]| room_for(names.iter().copied());
        assert_eq!((room(&[]), room(&["a"])), (LEAST_NAMES, LEAST_NAMES));
        assert_eq!(room(&["vm", "container-in-vm-1-pinned"]), 24 * CHARACTER + 20);
        assert_eq!(room(&["x".repeat(90).as_str()]), MOST_NAMES);
    }
}
