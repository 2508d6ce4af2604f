//! The platform's latency as a multiple of the baseline's, quantile by quantile, with the band of its intervals.

use maud::Markup;
use plotters::{element::PathElement, style::Color as _};

use super::{
    ChartError, Names, WIDTH, draw,
    ink::Ink,
    lines::{band, line},
    plane,
};
use crate::analyze::compare::CurvePoint;

const HEIGHT: i32 = 600;

/// The chart of the platform at this place.
pub(in crate::report) fn ratio(
    curve: &[CurvePoint],
    index: usize,
    label: &str,
) -> Result<Markup, ChartError> {
    let low = |point: &CurvePoint| point.ratio.low.unwrap_or(point.ratio.value);
    let high = |point: &CurvePoint| point.ratio.high.unwrap_or(point.ratio.value);
    // An interval of three runs may be as wide as the world; the line is what counts.
    let (least, most) = curve.iter().fold((1.0_f64, 1.0_f64), |(least, most), point| {
        (least.min(point.ratio.value), most.max(point.ratio.value))
    });
    let spread = (most - least).max(0.02);
    let (bottom, top) = ((least - spread * 0.6).max(0.0), most + spread * 0.6);
    let description = format!("Latency of {label} as a multiple of the baseline's, by percentile");
    draw((WIDTH, HEIGHT), &description, |area| {
        let percents: (_, _, Names<'_>) = (0.0..100.0, 11, &|percent: &f64| format!("{percent:.0} %"));
        let mut plane = plane(area, percents, (bottom..top, &|ratio| format!("{ratio:.3}")))?;
        let place = |point: &CurvePoint, ratio: f64| (point.quantile * 100.0, ratio.clamp(bottom, top));
        let lows = curve.iter().map(|point| place(point, low(point)));
        let highs = curve.iter().map(|point| place(point, high(point)));
        band(&mut plane, index, lows, highs)?;
        let equal = PathElement::new(vec![(0.0, 1.0), (100.0, 1.0)], Ink::Text.color().stroke_width(3));
        plane.draw_series(std::iter::once(equal))?;
        let points: Vec<(f64, f64)> = curve.iter().map(|point| place(point, point.ratio.value)).collect();
        line(area, &mut plane, index, &points)
    })
}
