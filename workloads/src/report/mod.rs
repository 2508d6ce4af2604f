//! What a run leaves behind: an aligned text for people, one line of JSON for machines, and the description
//! of the workload for guestscope's manifest. Yields text; it computes no statistic beyond percentiles and
//! rates.

pub(crate) mod left_out;
mod verdict;

use std::{collections::BTreeMap, ffi::OsStr, fmt::Write as _, fs, path::Path};

use serde::Serialize;
use serde_json::{Map, Value};

pub use self::left_out::LeftOut;
use crate::{
    data::file_set::Skipped,
    digest::Digest,
    error::Error,
    load::{
        MOST_REQUESTS, Measured, PHASES, Plan,
        histogram::Latencies,
        peak::Peak,
        percentile,
        scenario::Scenario,
        summary::{Objection, Summary, percentile_of},
    },
    numbers::grouped,
    platform::Asked,
};

/// What was run, and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    pub name: &'static str,
    pub model: &'static str,
    pub parameters: u64,
    /// Scale relative to the study's model; none at full scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Speech recognition only: the most symbols taken from one step of 60 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_symbols: Option<u64>,
    pub batch: u64,
    pub threads: u32,
    pub seed: u64,
    pub precision: &'static str,
    pub requests: u64,
    pub warmup: u64,
    /// Busy loop only: rounds of one request. A given time becomes as many rounds as take that long when the
    /// run begins, which differs between machines and runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Equal for two runs that were asked for the same computation on the same inputs, on any machine with
    /// any threads.
    pub work_hash: Digest,
    /// Hash of the outputs to the bit: of all requests if the plan fixes their number, of the plan's first
    /// `requests` if speed decides it (a duration in a closed loop, the search for a peak). Differs between
    /// processors, whose libraries add in different orders.
    pub output_hash: Digest,
}

/// How the requests of a run arrived, and the criteria of the verdict.
#[derive(Clone, Debug, Serialize)]
struct Arrived {
    scenario: &'static str,
    workers: u32,
    /// Duration as asked for; the requests asked for are at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
    /// Whether `qps` was found instead of given: then compare the rates of two runs, not their latencies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    find_peak: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    qps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_latency_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentile: Option<f64>,
}

/// A finished run.
#[derive(Debug)]
pub struct Report {
    identity: Identity,
    arrived: Arrived,
    summary: Summary,
    measured: Measured,
    skipped: Skipped,
}

/// Percentiles, ns.
#[derive(Serialize)]
pub struct Percentiles {
    p50: u64,
    p90: u64,
    p99: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    identity: &'a Identity,
    #[serde(flatten)]
    arrived: &'a Arrived,
    /// None for Offline, which is judged by its rate alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    valid: Option<bool>,
    /// The run ended before its duration was over, because no more requests are kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ended_at_most_requests: bool,
    objections: &'a [Objection],
    latency_ns: Percentiles,
    /// Time from the scheduled arrival to the start of the request; open loop only.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_ns: Option<Percentiles>,
    phases_ns: BTreeMap<&'static str, Percentiles>,
    requests_per_s: f64,
    samples_per_s: f64,
    /// Number of the user's files that requests reached and could not use.
    skipped_files: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak: Option<&'a Peak>,
    loadgen: Map<String, Value>,
}

/// The description for guestscope's manifest, with latencies from the schedule, which the agent cannot
/// measure.
#[derive(Serialize)]
struct Description<'a> {
    #[serde(flatten)]
    identity: &'a Identity,
    #[serde(flatten)]
    arrived: &'a Arrived,
    #[serde(flatten)]
    asked: &'a Asked,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    histograms: BTreeMap<&'static str, String>,
}

impl Percentiles {
    /// Percentiles by nearest rank.
    pub fn of(values: &[u64]) -> Self {
        Self { p50: percentile(values, 50.0), p90: percentile(values, 90.0), p99: percentile(values, 99.0) }
    }

    /// Percentiles as LoadGen counts them, so that they agree with the result.
    fn of_load(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let [p50, p90, p99] = [50.0, 90.0, 99.0].map(|percent| percentile_of(&values, percent));
        Self { p50, p90, p99 }
    }

    fn text(&self) -> String {
        let [p50, p90, p99] = [self.p50, self.p90, self.p99].map(|ns| ns as f64 / 1e6);
        format!("p50 {p50:>9.3} ms   p90 {p90:>9.3} ms   p99 {p99:>9.3} ms")
    }
}

impl Report {
    pub fn new(identity: Identity, plan: &Plan, measured: Measured) -> Self {
        let is_server = plan.scenario == Scenario::Server;
        let arrived = Arrived {
            scenario: plan.scenario.name(),
            workers: plan.workers,
            duration_ns: Some(plan.duration_ns).filter(|ns| *ns > 0),
            find_peak: plan.find_peak,
            qps: measured.qps,
            target_latency_ns: is_server.then_some(plan.target.latency_ns),
            percentile: (plan.scenario != Scenario::Offline).then_some(plan.target.percentile),
        };
        let summary = Summary::new(plan, identity.batch, &measured);
        Self { summary, identity, arrived, measured, skipped: Skipped::new() }
    }

    /// The report of a run that left out these files.
    #[must_use]
    pub fn without(self, skipped: Skipped) -> Self {
        Self { skipped, ..self }
    }

    /// Text for people: one fact per line, names aligned, no line longer than 80 columns.
    pub fn text(&self) -> String {
        let Identity { name, model, parameters, precision, batch, threads, seed, .. } = &self.identity;
        let Identity { scale, requests, warmup, rounds, .. } = &self.identity;
        let threads = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        let mut text = format!("{name}: {model}, {precision}, batch {batch}, {threads}, seed {seed}\n");
        let mut line = |what: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {what:<12} {value}");
        };
        if let Some(scale) = scale {
            line("scale", format!("{scale} of the study's model: {} parameters", grouped(*parameters)));
        }
        line("scenario", self.arrivals());
        line("requests", format!("{requests} after {warmup} for warm-up"));
        if self.measured.full {
            line("", format!("ended before --duration: {} are kept at most", grouped(MOST_REQUESTS)));
        }
        if let Some(rounds) = rounds {
            line("work", format!("{} rounds per request", grouped(*rounds)));
        }
        if let Some(Peak { qps, fails_at_qps, trials }) = &self.measured.peak {
            let tried = trials.len();
            line(
                "peak",
                format!("{qps:.2} requests/s hold the bound, {fails_at_qps:.2} do not ({tried} tried)"),
            );
        }
        for (what, value) in verdict::lines(&self.summary) {
            line(what, value);
        }
        line("latency", Percentiles::of_load(self.measured.latencies_ns()).text());
        line("", self.far_percentiles());
        let (least, mean, most) = self.summary.range();
        let [least, mean, most] = [least, mean, most].map(|ns| ns as f64 / 1e6);
        line("", format!("min {least:>9.3} ms   mean{mean:>9.3} ms   max {most:>9.3} ms"));
        if self.measured.qps.is_some() {
            line("queue", Percentiles::of_load(self.measured.queues_ns()).text());
        }
        for (place, phase) in PHASES.into_iter().enumerate() {
            line(phase, Percentiles::of_load(self.measured.phases_ns(place)).text());
        }
        let rate = self.measured.requests_per_s();
        line("throughput", format!("{rate:.1} requests/s, {:.1} samples/s", rate * *batch as f64));
        line("output hash", self.identity.output_hash.to_string());
        line("work hash", self.identity.work_hash.to_string());
        if let Some((what, value)) = left_out::line(&self.skipped) {
            line(what, value);
        }
        text
    }

    /// A warning that names the first of the files left out, if there are any.
    pub fn warning(&self) -> Option<String> {
        left_out::warning(&self.skipped)
    }

    /// The further percentiles that LoadGen prints.
    fn far_percentiles(&self) -> String {
        let mut latencies_ns = self.measured.latencies_ns();
        latencies_ns.sort_unstable();
        let [p95, p97, p999] =
            [95.0, 97.0, 99.9].map(|percent| percentile_of(&latencies_ns, percent) as f64 / 1e6);
        format!("p95 {p95:>9.3} ms   p97 {p97:>9.3} ms   p99.9{p999:>8.3} ms")
    }

    /// `Server, 1 worker, 20.00/s asked for, 19.87/s arrived`; `found` if the rate was searched for.
    fn arrivals(&self) -> String {
        let Arrived { scenario, workers, qps, find_peak, .. } = &self.arrived;
        let workers = if *workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
        let arrived = self.summary.scheduled_per_s();
        let origin = if *find_peak { "found" } else { "asked for" };
        let rate = qps.map(|qps| format!(", {qps:.2}/s {origin}, {arrived:.2}/s arrived"));
        format!("{scenario}, {workers}{}", rate.unwrap_or_default())
    }

    /// JSON: one line, times in nanoseconds.
    pub fn json(&self) -> String {
        let Self { identity, arrived, summary, measured, skipped } = self;
        let rate = measured.requests_per_s();
        let phases = PHASES
            .into_iter()
            .enumerate()
            .map(|(place, name)| (name, Percentiles::of_load(measured.phases_ns(place))));
        to_json(&Line {
            identity,
            arrived,
            valid: summary.verdict(),
            ended_at_most_requests: measured.full,
            objections: &summary.objections,
            latency_ns: Percentiles::of_load(measured.latencies_ns()),
            queue_ns: measured.qps.map(|_| Percentiles::of_load(measured.queues_ns())),
            phases_ns: phases.collect(),
            requests_per_s: rate,
            samples_per_s: rate * identity.batch as f64,
            skipped_files: skipped.len(),
            left_out: left_out::listed(skipped),
            peak: measured.peak.as_ref(),
            loadgen: summary.loadgen(),
        })
    }

    /// The latencies of all requests.
    pub fn latencies(&self) -> Latencies {
        Latencies::of(&self.measured.latencies_ns())
    }

    /// Writes the description to the file that guestscope asked for, if it did.
    pub fn write_workload_file(&self, path: Option<&OsStr>, asked: &Asked) -> Result<(), Error> {
        if path.is_none() {
            return Ok(());
        }
        let mut histograms = BTreeMap::from([("latency", self.latencies().base64())]);
        if self.measured.qps.is_some() {
            histograms.insert("queue", Latencies::of(&self.measured.queues_ns()).base64());
        }
        let Self { identity, arrived, summary, .. } = self;
        let valid = summary.verdict();
        write_workload_file(path, &Description { identity, arrived, asked, valid, histograms })
    }
}

/// Writes the description of a workload to `path`, if there is one, in place: under `sudo guestscope run` the
/// file belongs to the user and its folder to the agent. The agent reads it after the program has ended, and
/// rejects half a file.
pub fn write_workload_file(path: Option<&OsStr>, identity: &impl Serialize) -> Result<(), Error> {
    let Some(path) = path.map(Path::new) else { return Ok(()) };
    fs::write(path, to_json(identity) + "\n")
        .map_err(|source| Error::WriteResult { path: path.to_owned(), source })
}

/// A table or description as one line of JSON.
pub fn to_json(value: &impl Serialize) -> String {
    // Serialising fails only for maps with keys that are not strings, and for failing writers; neither occurs
    // here.
    serde_json::to_string(value).unwrap_or_default()
}

/// The percentiles of nanoseconds by nearest rank, for people.
pub fn milliseconds(values: &[u64]) -> String {
    Percentiles::of(values).text()
}

#[cfg(test)]
mod tests;
