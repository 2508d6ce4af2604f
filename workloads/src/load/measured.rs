//! What a series of requests measured. Yields latencies, the times of phases and queue, rates, and the hash of all outputs.
//! It judges nothing: that is `summary`'s.

use super::{Plan, peak::Peak};
use crate::digest::Digest;

/// One request. Times are nanoseconds of the clock of the run.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub number: u64,
    /// When it arrived; in a closed loop when it began.
    pub scheduled_ns: u64,
    pub begin_ns: u64,
    pub end_ns: u64,
    /// They follow each other from begin to end without a gap.
    pub phase_ns: [u64; 3],
    pub outputs: Digest,
}

impl Record {
    /// From its arrival to its end. Not from its begin: what waited for its turn was late.
    pub fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.scheduled_ns)
    }

    pub fn queue_ns(&self) -> u64 {
        self.begin_ns.saturating_sub(self.scheduled_ns)
    }
}

/// A finished series.
#[derive(Debug, Default)]
pub struct Measured {
    /// By number.
    pub records: Vec<Record>,
    pub start_ns: u64,
    /// From the start to the end of the last request.
    pub elapsed_ns: u64,
    /// The rate of its arrivals; none in a closed loop.
    pub qps: Option<f64>,
    /// Whether it ended early, because it was plain that too many requests are late.
    pub stopped: bool,
    /// Whether it ended early, because no more requests are kept.
    pub full: bool,
    /// The search that came before, if there was one.
    pub peak: Option<Peak>,
}

impl Measured {
    pub(super) fn new(mut records: Vec<Record>, start_ns: u64, qps: Option<f64>, stopped: bool) -> Self {
        records.sort_unstable_by_key(|record| record.number);
        let end_ns = records.iter().map(|record| record.end_ns).max().unwrap_or(start_ns);
        Self { records, start_ns, elapsed_ns: end_ns - start_ns, qps, stopped, full: false, peak: None }
    }

    /// Of each request, by number.
    pub fn latencies_ns(&self) -> Vec<u64> {
        self.records.iter().map(Record::latency_ns).collect()
    }

    /// From the arrival of each request to its begin.
    pub fn queues_ns(&self) -> Vec<u64> {
        self.records.iter().map(Record::queue_ns).collect()
    }

    /// Of each request in the phase of this place.
    pub fn phases_ns(&self, place: usize) -> Vec<u64> {
        self.records.iter().map(|record| record.phase_ns[place]).collect()
    }

    /// Of requests in the order of their numbers, whichever worker ran them: of all where `plan` says how many there are. Where
    /// speed decides that (a closed loop that lasts, a rate that is looked for), of as many as it asks for at least.
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
