//! Charts of the report as SVG, by plotters; colours, hatches and dashes come from the page's style sheet.
//!
//! Yields markup that stands in a page. A table beside bars and lines says the same in numbers, the cells of moves hold
//! theirs, and single requests list their longest waits.

mod ink;
mod latencies;
mod lines;
mod matrix;
mod ratio;
mod stacked;
mod timeline;

use maud::{Markup, PreEscaped};
use plotters::{
    backend::SVGBackend,
    chart::{ChartBuilder, ChartContext},
    coord::{Shift, cartesian::Cartesian2d, types::RangedCoordf64},
    drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _},
    element::{PathElement, Text},
    style::{
        Color as _, IntoFont as _, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

pub(super) use ink::{definitions, swatch};
pub(super) use latencies::{Line, latencies};
pub(super) use matrix::{MOST_CPUS, matrix};
pub(super) use ratio::ratio;
pub(super) use stacked::{Bar, Group, stacked};
pub(super) use timeline::{Level, Piece, Row, timeline};

use ink::Ink;

/// Width of all charts. Twice what a page shows, because plotters counts in whole units.
const WIDTH: i32 = 2_000;
/// Height of text.
const TEXT: u32 = 26;
/// Room for names at the left.
const NAMES: i32 = 330;
/// About so wide is a character.
const CHARACTER: i32 = 14;
/// Room for the marks below bars.
const AXIS: i32 = 60;

/// A chart could not be drawn. `Display` gives `what: value`.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw: {chart}: {reason}")]
pub struct ChartError {
    /// Which.
    chart: String,
    /// Why.
    reason: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws on a canvas of this size; `description` is what those hear or read who do not see it.
fn draw(
    (width, height): (i32, i32),
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
fn text() -> TextStyle<'static> {
    ("sans-serif", TEXT).into_font().color(&Ink::Text.color())
}

/// As much of a text as has room.
fn fit(text: &str, width: i32) -> String {
    let room = usize::try_from(width / CHARACTER).unwrap_or(0);
    if text.chars().count() <= room {
        return text.to_owned();
    }
    match room {
        0..3 => String::new(),
        _ => text.chars().take(room - 1).chain(['\u{2026}']).collect(),
    }
}

/// What the marks at an axis are called.
type Names<'a> = &'a dyn Fn(&f64) -> String;

/// Axes for lines, with about so many marks on the lower one.
fn plane<'a, 'b>(
    area: &'a Area<'b>,
    (x, x_marks, x_names): (std::ops::Range<f64>, usize, Names<'_>),
    (y, y_names): (std::ops::Range<f64>, Names<'_>),
) -> Drawn<Plane<'a, 'b>> {
    let mut plane = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(70)
        .y_label_area_size(150)
        .build_cartesian_2d(x, y)?;
    plane
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(Ink::Paper.color())
        .bold_line_style(Ink::Grid.color())
        .axis_style(Ink::Text.color())
        .label_style(text())
        .x_labels(x_marks)
        .x_label_formatter(x_names)
        .y_label_formatter(y_names)
        .draw()?;
    Ok(plane)
}

/// A scale of times from zero: its end, the steps of its marks, and the unit.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// The largest value, ns.
    end_ns: f64,
    /// ns in a unit.
    unit_ns: f64,
    /// Its name.
    unit: &'static str,
}

impl Times {
    /// For values up to this one.
    fn up_to(ns: f64) -> Self {
        let (unit_ns, unit) = match ns {
            _ if ns >= 2e9 => (1e9, "s"),
            _ if ns >= 2e6 => (1e6, "ms"),
            _ if ns >= 2e3 => (1e3, "us"),
            _ => (1.0, "ns"),
        };
        Self { end_ns: ns.max(1.0), unit_ns, unit }
    }

    /// Marks at 1, 2 or 5 times a power of ten, about five of them.
    fn marks(self) -> Vec<f64> {
        let rough = self.end_ns / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&step| step >= rough);
        let step = step.unwrap_or(rough);
        (0..100).map(|index| f64::from(index) * step).take_while(|&at| at <= self.end_ns).collect()
    }

    /// Where a bar stands at this time, right of the names.
    fn x(self, ns: f64) -> i32 {
        let room = f64::from(WIDTH - NAMES - 40);
        NAMES + (ns.clamp(0.0, self.end_ns) / self.end_ns * room).round() as i32
    }

    /// Marks across a chart of this height, with their names below.
    fn axis(self, area: &Area<'_>, height: i32) -> Drawn {
        for mark in self.marks() {
            let at = self.x(mark);
            let across = vec![(at, 0), (at, height - AXIS)];
            area.draw(&PathElement::new(across, Ink::Grid.color().stroke_width(2)))?;
            let style = text().pos(Pos::new(HPos::Center, VPos::Top));
            area.draw(&Text::new(self.name(mark), (at, height - AXIS + 10), style))?;
        }
        Ok(())
    }

    fn name(self, ns: f64) -> String {
        // Two hundredths of a unit are 10 of the next smaller one: more digits say nothing here.
        let text = format!("{:.2}", ns / self.unit_ns);
        format!("{} {}", text.trim_end_matches('0').trim_end_matches('.'), self.unit)
    }
}
