//! Measurements of a series of requests. Yields latencies, the times of phases and queue, rates, and the hash
//! of all outputs. `summary` judges them.

use super::{Plan, peak::Peak};
use crate::digest::Digest;

/// One request. Times are nanoseconds on the clock of the run.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub number: u64,
    /// Arrival time; in a closed loop the time when it began.
    pub scheduled_ns: u64,
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Durations of the phases, which cover the request from start to end without a gap.
    pub phase_ns: [u64; 3],
    pub outputs: Digest,
}

impl Record {
    /// Latency from arrival to end. Not from the start: waiting for a turn counts.
    pub fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.scheduled_ns)
    }

    pub fn queue_ns(&self) -> u64 {
        self.begin_ns.saturating_sub(self.scheduled_ns)
    }
}

/// Measurements of a finished series.
#[derive(Debug, Default)]
pub struct Measured {
    /// Records, by request number.
    pub records: Vec<Record>,
    pub start_ns: u64,
    /// Time from the start to the end of the last request.
    pub elapsed_ns: u64,
    /// Arrival rate, requests per second; none in a closed loop.
    pub qps: Option<f64>,
    /// Whether it ended early because too many requests were certain to be late.
    pub stopped: bool,
    /// Whether it ended early because no more requests are kept.
    pub full: bool,
    /// The search before it, if there was one.
    pub peak: Option<Peak>,
}

impl Measured {
    pub(super) fn new(mut records: Vec<Record>, start_ns: u64, qps: Option<f64>, stopped: bool) -> Self {
        records.sort_unstable_by_key(|record| record.number);
        let end_ns = records.iter().map(|record| record.end_ns).max().unwrap_or(start_ns);
        Self { records, start_ns, elapsed_ns: end_ns - start_ns, qps, stopped, full: false, peak: None }
    }

    /// Latency of each request, by number.
    pub fn latencies_ns(&self) -> Vec<u64> {
        self.records.iter().map(Record::latency_ns).collect()
    }

    /// Queue time of each request: from its arrival to its start.
    pub fn queues_ns(&self) -> Vec<u64> {
        self.records.iter().map(Record::queue_ns).collect()
    }

    /// Duration of phase `place` in each request.
    pub fn phases_ns(&self, place: usize) -> Vec<u64> {
        self.records.iter().map(|record| record.phase_ns[place]).collect()
    }

    /// Hash of outputs by request number, whichever worker ran them: of all if `plan` fixes their number. If
    /// speed decides it (a closed loop with a duration, a rate search), of the minimum that `plan` asks for.
    pub fn outputs(&self, plan: &Plan) -> Digest {
        let most = if plan.is_of_speed() { plan.requests } else { u64::MAX };
        let mut all = Digest::default();
        for record in self.records.iter().take_while(|record| record.number < most) {
            all.u64(record.outputs.value());
        }
        all
    }

    /// Requests per second of the whole series, its last answers included.
    pub fn requests_per_s(&self) -> f64 {
        let seconds = self.elapsed_ns as f64 / 1e9;
        if seconds > 0.0 { self.records.len() as f64 / seconds } else { 0.0 }
    }
}
