//! Latencies of all platforms by quantile: a line each, in the band of its interval, over a
//! scale on which each further nine is as wide as the one before.

use maud::Markup;

use super::{
    drawing::{Axis, ChartError, Times, WIDTH, draw, plane},
    lines::{Edges, End, band, ends, line, room_for_ends, room_for_lines},
};
use crate::analyze::compare::Quantile;

const HEIGHT: i32 = 900;
/// Left end of the scale, in nines: 0.3 is the median.
const LEAST_NINES: f64 = 0.3;

/// A platform's line.
#[derive(Clone, Debug)]
pub(in crate::html) struct Line {
    /// Platform label.
    pub(in crate::html) label: String,
    /// Index of the platform, which gives it the same look in all charts.
    pub(in crate::html) place: usize,
    /// Quantiles, from the fastest request up.
    pub(in crate::html) quantiles: Vec<Quantile>,
}

/// The largest value of these lines, intervals included, ns.
pub(in crate::html) fn largest_ns(lines: &[Line]) -> f64 {
    let points = lines.iter().flat_map(|line| &line.quantiles);
    points.map(|one| one.latency_ns.high.unwrap_or(0.0).max(one.latency_ns.value)).fold(0.0, f64::max)
}

/// The chart.
pub(in crate::html) fn latencies(lines: &[Line]) -> Result<Markup, ChartError> {
    let times = Times::up_to(largest_ns(lines) * 1.05, 0);
    let nines = |quantile: f64| -(1.0 - quantile).log10();
    let quantiles = lines.iter().flat_map(|line| &line.quantiles);
    let end = quantiles.map(|one| nines(one.quantile)).fold(LEAST_NINES, f64::max);
    let names = room_for_ends(lines.iter().map(|line| line.label.as_str()));
    let room_for_names = end * names / (1.0 - names);
    let marks = if end < 1.0 { 8 } else { end.ceil() as usize + 1 };
    let description = match lines {
        [one] => format!("Latency of {} by quantile; the table below has the numbers", one.label),
        _ => "Latency by quantile for each platform; the table below has the numbers".to_owned(),
    };
    draw(WIDTH, HEIGHT.max(room_for_lines(lines.len())), &description, |area| {
        let x = Axis { range: 0.0..end + room_for_names, names: &|nines| quantile_name(*nines, end) };
        let y = Axis { range: 0.0..times.end_ns, names: &|ns| times.name(*ns) };
        let mut plane = plane(area, x, marks, y)?;
        let at = |one: &Quantile, ns: f64| (nines(one.quantile), ns.clamp(0.0, times.end_ns));
        let low = |one: &Quantile| at(one, one.latency_ns.low.unwrap_or(one.latency_ns.value));
        let high = |one: &Quantile| at(one, one.latency_ns.high.unwrap_or(one.latency_ns.value));
        for Line { place, quantiles, .. } in lines {
            band(&mut plane, *place, quantiles.iter().map(low), quantiles.iter().map(high))?;
        }
        let mut named = Vec::with_capacity(lines.len());
        for Line { label, place, quantiles } in lines {
            let points: Vec<(f64, f64)> = quantiles.iter().map(|one| at(one, one.latency_ns.value)).collect();
            line(area, &mut plane, *place, &points)?;
            named.extend(points.last().map(|last| {
                let (x, y) = plane.backend_coord(last);
                End { index: *place, x, y, label }
            }));
        }
        let (right, bottom) = plane.backend_coord(&(end, 0.0));
        let (_, top) = plane.backend_coord(&(end, times.end_ns));
        ends(area, &mut named, Edges { right, top, bottom })
    })
}

/// `99 %` for two nines; empty where the names of lines stand.
fn quantile_name(nines: f64, end: f64) -> String {
    if nines > end + 1e-9 {
        return String::new();
    }
    let percent = 100.0 - 10_f64.powf(2.0 - nines);
    let digits = (nines - 2.0).ceil().clamp(0.0, 6.0) as usize;
    format!("{percent:.digits$} %")
}
