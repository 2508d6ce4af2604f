//! Numbers with their intervals, for people and as JSON.

use serde::Serialize;

use super::super::units::{difference, thousands};
use crate::analyze::compare::Interval;

/// A signed duration, rounded to ns.
pub(super) fn signed(ns: f64) -> String {
    difference(ns.round() as i64)
}

/// `+2.30 ms [2.01, 2.59]`: the ends in the unit of the value.
pub(super) fn interval(interval: Interval) -> String {
    let Some((low, high)) = interval.low.zip(interval.high) else { return signed(interval.value) };
    format!("{} [{}, {}]", signed(interval.value), signed(low), signed(high))
}

/// A mean number of events.
pub(super) fn number(value: f64) -> String {
    match value {
        _ if value == 0.0 => "0".to_owned(),
        _ if value < 0.01 => "<0.01".to_owned(),
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => thousands(value.round() as u64),
    }
}

#[derive(Serialize)]
pub(super) struct IntervalJson {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

impl From<Interval> for IntervalJson {
    fn from(Interval { value, low, high }: Interval) -> Self {
        Self { value, low, high }
    }
}
