//! Latencies of all platforms by quantile: a line each, in the band of its interval, over a
//! scale on which each further nine is as wide as the one before.

use maud::Markup;

use super::{
    ChartError, Names, Times, WIDTH, draw,
    lines::{End, band, ends, line},
    plane,
};
use crate::analyze::compare::Quantile;

const HEIGHT: i32 = 900;

/// A platform's line.
#[derive(Clone, Debug)]
pub(in crate::report) struct Line {
    /// Whose.
    pub(in crate::report) label: String,
    /// From the fastest request up.
    pub(in crate::report) quantiles: Vec<Quantile>,
}

/// The chart.
pub(in crate::report) fn latencies(lines: &[Line]) -> Result<Markup, ChartError> {
    let points = || lines.iter().flat_map(|line| &line.quantiles);
    let largest = points().map(|one| one.latency_ns.high.unwrap_or(0.0).max(one.latency_ns.value));
    let times = Times::up_to(largest.fold(0.0, f64::max) * 1.05);
    let nines = |quantile: f64| -(1.0 - quantile).log10();
    let end = points().map(|one| nines(one.quantile)).fold(1.0, f64::max);
    let room_for_names = end * 0.33;
    draw((WIDTH, HEIGHT), "Latency by quantile for each platform; the table below has the numbers", |area| {
        let across: (_, _, Names<'_>) =
            (0.0..end + room_for_names, end.ceil() as usize + 1, &|nines: &f64| quantile_name(*nines));
        let mut plane = plane(area, across, (0.0..times.end_ns, &|ns| times.name(*ns)))?;
        let place = |one: &Quantile, ns: f64| (nines(one.quantile), ns.clamp(0.0, times.end_ns));
        let low = |one: &Quantile| place(one, one.latency_ns.low.unwrap_or(one.latency_ns.value));
        let high = |one: &Quantile| place(one, one.latency_ns.high.unwrap_or(one.latency_ns.value));
        for (index, Line { quantiles, .. }) in lines.iter().enumerate() {
            band(&mut plane, index, quantiles.iter().map(low), quantiles.iter().map(high))?;
        }
        let mut named = Vec::with_capacity(lines.len());
        for (index, Line { label, quantiles }) in lines.iter().enumerate() {
            let points: Vec<(f64, f64)> =
                quantiles.iter().map(|one| place(one, one.latency_ns.value)).collect();
            line(area, &mut plane, index, &points)?;
            named.extend(points.last().map(|last| End { index, at: plane.backend_coord(last), label }));
        }
        ends(area, &mut named, plane.backend_coord(&(end, 0.0)), plane.backend_coord(&(end, times.end_ns)).1)
    })
}

/// `99 %` for two nines.
fn quantile_name(nines: f64) -> String {
    let percent = 100.0 - 10_f64.powf(2.0 - nines);
    let digits = (nines - 2.0).ceil().clamp(0.0, 6.0) as usize;
    format!("{percent:.digits$} %")
}
