//! The platform's latency as a multiple of the baseline's, quantile by quantile, with the band of its
//! intervals.

use maud::Markup;
use plotters::{element::PathElement, style::Color as _};

use super::{
    drawing::{Axis, ChartError, WIDTH, draw, plane},
    ink::Ink,
    lines::{band, line},
};
use crate::analyze::compare::CurvePoint;

const HEIGHT: i32 = 600;
/// Least span of the axis, so that noise does not look like a mountain.
const LEAST_SPREAD: f64 = 0.02;
/// Bands are clipped beyond this multiple of the line's span: intervals of three runs may be very wide, and
/// the line is what counts.
const WIDEST_BAND: f64 = 3.0;

/// Ratio chart of the platform with this index.
pub(in crate::html) fn ratio(curve: &[CurvePoint], index: usize, label: &str) -> Result<Markup, ChartError> {
    let (bottom, top) = ends(curve);
    let digits = (-((top - bottom) / 8.0).log10()).ceil().clamp(0.0, 3.0) as usize;
    let description = format!("Latency of {label} as a multiple of the baseline's, by percentile");
    draw(WIDTH, HEIGHT, &description, |area| {
        let x = Axis { range: 0.0..100.0, names: &|percent| format!("{percent:.0} %") };
        let y = Axis { range: bottom..top, names: &|ratio| format!("{ratio:.digits$}") };
        let mut plane = plane(area, x, 11, y)?;
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

fn low(point: &CurvePoint) -> f64 {
    point.ratio.low.unwrap_or(point.ratio.value)
}

fn high(point: &CurvePoint) -> f64 {
    point.ratio.high.unwrap_or(point.ratio.value)
}

/// Ends of the axis: it holds the line and 1, and the band as far as [`WIDEST_BAND`] allows.
fn ends(curve: &[CurvePoint]) -> (f64, f64) {
    let (least, most) = curve.iter().fold((1.0_f64, 1.0_f64), |(least, most), point| {
        (least.min(point.ratio.value), most.max(point.ratio.value))
    });
    let spread = (most - least).max(LEAST_SPREAD);
    let lowest = curve.iter().map(low).fold(least, f64::min).max(least - spread * WIDEST_BAND);
    let highest = curve.iter().map(high).fold(most, f64::max).min(most + spread * WIDEST_BAND);
    ((lowest - spread * 0.15).max(0.0), highest + spread * 0.15)
}

#[cfg(test)]
mod tests {
    use super::ends;
    use crate::analyze::compare::{CurvePoint, Interval};

    fn curve(ratios: &[[f64; 3]]) -> Vec<CurvePoint> {
        let point = |(index, &[low, value, high]): (usize, &[f64; 3])| CurvePoint {
            quantile: index as f64 / 100.0,
            baseline_ns: 1e6,
            ratio: Interval { value, low: Some(low), high: Some(high) },
        };
        ratios.iter().enumerate().map(point).collect()
    }

    #[test]
    fn a_band_is_whole_unless_the_line_would_lose_its_shape() {
        let (bottom, top) = ends(&curve(&[[0.93, 0.96, 1.03], [0.95, 0.99, 1.04]]));
        assert!(bottom < 0.93 && bottom > 0.9 && top > 1.04 && top < 1.07, "{bottom} {top}");
        let (bottom, top) = ends(&curve(&[[0.01, 1.1, 900.0], [0.02, 1.2, 800.0]]));
        assert!((0.3..0.5).contains(&bottom) && (1.7..1.9).contains(&top), "{bottom} {top}");
    }

    #[test]
    fn equal_is_always_on_the_axis() {
        for ratio in [0.01, 1.0, 99.0] {
            let (bottom, top) = ends(&curve(&[[ratio, ratio, ratio]]));
            assert!((0.0..1.0).contains(&bottom) && top > 1.0 && top > ratio, "{bottom} {top}");
        }
    }
}
