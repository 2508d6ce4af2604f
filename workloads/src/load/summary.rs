//! LoadGen's verdict on a series: its percentiles, whether the result is valid and why not. Yields facts
//! under LoadGen's own names. `report` writes them for people.
//!
//! Rules: loadgen/results.cc of mlcommons/inference. A request is LoadGen's query; it has `batch` samples.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    Measured, Plan, Target,
    early_stopping::{self, Estimate},
    scenario::{LEAST_NS, Scenario},
};

/// The percentiles that LoadGen reports.
const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 97.0, 99.0, 99.9];
/// The percentile of a MultiStream result, which LoadGen estimates from a SingleStream one as well.
const MULTI_STREAM: f64 = 99.0;

/// Reason why a result is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Objection {
    /// The estimate needs `needed` requests.
    TooFew { needed: u64 },
    /// The percentile itself is above the bound.
    AboveTarget,
    /// `missing` more requests, all in time, would prove it.
    Unproved { missing: u64 },
    /// The series was ended early.
    Stopped,
}

/// The result of a series.
#[derive(Clone, Debug)]
pub struct Summary {
    pub scenario: Scenario,
    pub target: Target,
    pub requests: u64,
    pub batch: u64,
    /// Ascending, ns.
    latencies_ns: Vec<u64>,
    /// The percentile of the target, ns.
    pub percentile_ns: u64,
    /// The estimate of a stream.
    pub estimate: Option<Estimate>,
    /// The estimate of p99 for a single stream.
    multi_stream: Option<Estimate>,
    /// Number of requests above the target; only for Server.
    pub late: u64,
    /// Number of requests that may be late; none if there are too few to prove anything.
    pub may_be_late: Option<u64>,
    pub objections: Vec<Objection>,
    last_scheduled_ns: u64,
    elapsed_ns: u64,
}

impl Summary {
    /// Judges `measured` as LoadGen judges a run of this scenario.
    pub fn new(plan: &Plan, batch: u64, measured: &Measured) -> Self {
        let mut latencies_ns = measured.latencies_ns();
        latencies_ns.sort_unstable();
        let Target { percentile, latency_ns } = plan.target;
        let is_server = plan.scenario == Scenario::Server;
        let late = latencies_ns.iter().filter(|latency| is_server && **latency > latency_ns).count() as u64;
        let requests = latencies_ns.len() as u64;
        let estimate = |percent| early_stopping::estimate(&latencies_ns, percent);
        let last = measured.records.last().map_or(0, |record| record.scheduled_ns);
        let mut summary = Self {
            scenario: plan.scenario,
            target: plan.target,
            requests,
            batch,
            percentile_ns: percentile_of(&latencies_ns, percentile),
            estimate: estimate(percentile).filter(|_| plan.scenario.is_stream()),
            multi_stream: estimate(MULTI_STREAM).filter(|_| plan.scenario == Scenario::SingleStream),
            late,
            may_be_late: early_stopping::most_late(requests, percentile),
            objections: Vec::new(),
            last_scheduled_ns: last.saturating_sub(measured.start_ns),
            elapsed_ns: measured.elapsed_ns,
            latencies_ns,
        };
        summary.objections = summary.objections(measured.stopped);
        summary
    }

    /// Whether it holds by the percentile and LoadGen's early stopping, whatever the length of the run; none
    /// for Offline, which has neither.
    pub fn verdict(&self) -> Option<bool> {
        (self.scenario != Scenario::Offline).then_some(self.objections.is_empty())
    }

    /// Whether it lasted LoadGen's default minimum: to the last answer for Offline, else to the last arrival.
    pub fn is_long(&self) -> bool {
        let is_offline = self.scenario == Scenario::Offline;
        let lasted_ns = if is_offline { self.elapsed_ns } else { self.last_scheduled_ns };
        lasted_ns >= LEAST_NS
    }

    /// Whether it has LoadGen's default minimum of queries (Offline: samples).
    pub fn is_many(&self) -> bool {
        let is_offline = self.scenario == Scenario::Offline;
        let count = if is_offline { self.requests * self.batch } else { self.requests };
        count >= self.scenario.least_queries().0
    }

    /// Whether early stopping has the confidence it asks for.
    pub fn is_proved(&self) -> bool {
        let lacks = |one: &Objection| matches!(one, Objection::TooFew { .. } | Objection::Unproved { .. });
        !self.objections.iter().any(lacks)
    }

    /// Whether the result is valid with LoadGen's default minima.
    pub fn is_valid(&self) -> bool {
        self.objections.is_empty() && self.is_long() && self.is_many()
    }

    fn objections(&self, stopped: bool) -> Vec<Objection> {
        let percent = self.target.percentile;
        let mut objections = Vec::new();
        match self.scenario {
            Scenario::SingleStream | Scenario::MultiStream if self.estimate.is_none() => {
                objections.push(Objection::TooFew { needed: early_stopping::needed(1, percent) });
            }
            Scenario::Server => {
                if self.percentile_ns > self.target.latency_ns {
                    objections.push(Objection::AboveTarget);
                }
                if self.may_be_late.is_none_or(|most| self.late > most) {
                    let needed = early_stopping::needed(self.late, percent);
                    objections.push(Objection::Unproved { missing: needed.saturating_sub(self.requests) });
                }
            }
            Scenario::SingleStream | Scenario::MultiStream | Scenario::Offline => {}
        }
        if stopped {
            objections.push(Objection::Stopped);
        }
        objections
    }

    /// LoadGen's percentile of the latencies, ns.
    pub fn percentile(&self, percent: f64) -> u64 {
        percentile_of(&self.latencies_ns, percent)
    }

    /// Smallest, mean and largest latency, ns. Zeros where there is none.
    pub fn range(&self) -> (u64, u64, u64) {
        let sum: u128 = self.latencies_ns.iter().map(|ns| u128::from(*ns)).sum();
        let mean = sum / u128::from(self.requests.max(1));
        let ends = (self.latencies_ns.first(), self.latencies_ns.last());
        (ends.0.copied().unwrap_or(0), mean as u64, ends.1.copied().unwrap_or(0))
    }

    /// Arrivals per second as scheduled, the last one not counted: it opens the interval that comes next.
    pub fn scheduled_per_s(&self) -> f64 {
        per_second(self.requests.saturating_sub(1), self.last_scheduled_ns)
    }

    /// The same rate, over the time until the last answer.
    pub fn completed_per_s(&self) -> f64 {
        per_second(self.requests.saturating_sub(1), self.elapsed_ns)
    }

    /// Requests per second if one began at each answer: the inverse of the mean latency.
    pub fn answered_per_s(&self) -> f64 {
        per_second(1, self.range().1)
    }

    pub fn samples_per_s(&self) -> f64 {
        per_second(self.requests * self.batch, self.elapsed_ns)
    }

    /// Facts under the names of LoadGen's detail log; minima are LoadGen's defaults, and a valid result meets
    /// them. A search for a peak that was stopped early has no field there.
    pub fn loadgen(&self) -> Map<String, Value> {
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
        put("result_validity", json!(if self.is_valid() { "VALID" } else { "INVALID" }));
        put("result_min_duration_met", json!(self.is_long()));
        put("result_min_queries_met", json!(self.is_many()));
        put("early_stopping_met", json!(self.is_proved()));
        put("result_query_count", json!(self.requests));
        match self.scenario {
            Scenario::SingleStream => {
                put("result_qps_with_loadgen_overhead", json!(self.scheduled_per_s()));
                put("result_qps_without_loadgen_overhead", json!(self.answered_per_s()));
                put("early_stopping_latency_ss", json!(self.estimate.map(|one| one.latency_ns)));
                put("early_stopping_latency_ms", json!(self.multi_stream.map(|one| one.latency_ns)));
            }
            Scenario::MultiStream => {
                put("early_stopping_latency_ms", json!(self.estimate.map(|one| one.latency_ns)));
            }
            Scenario::Server => {
                let is_in_time = !self.objections.contains(&Objection::AboveTarget);
                put("result_perf_constraints_met", json!(is_in_time));
                put("result_overlatency_query_count", json!(self.late));
                put("result_scheduled_samples_per_sec", json!(self.scheduled_per_s() * self.batch as f64));
                put("result_completed_samples_per_sec", json!(self.completed_per_s() * self.batch as f64));
            }
            // LoadGen's Offline latencies count from the one arrival of everything; ours are a batch's.
            Scenario::Offline => {
                put("result_samples_per_second", json!(self.samples_per_s()));
                return all;
            }
        }
        let is_multi = self.scenario == Scenario::MultiStream;
        let query = if is_multi { "query_" } else { "" };
        let (least, mean, most) = self.range();
        put(&format!("result_min_{query}latency_ns"), json!(least));
        put(&format!("result_max_{query}latency_ns"), json!(most));
        put(&format!("result_mean_{query}latency_ns"), json!(mean));
        let per_query = if is_multi { "per_query_" } else { "" };
        for percent in PERCENTILES {
            let name = format!("result_{percent:.2}_percentile_{per_query}latency_ns");
            put(&name, json!(self.percentile(percent)));
        }
        all
    }
}

/// LoadGen's percentile: the value at index n x p, from 0, rounded down. One above the nearest rank where n x
/// p is whole. Zero without values.
pub(crate) fn percentile_of(ascending: &[u64], percent: f64) -> u64 {
    let place = (ascending.len() as f64 * (percent / 100.0)) as usize;
    ascending.get(place.min(ascending.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}
