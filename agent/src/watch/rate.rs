//! Rates over the last ten seconds: requests, and the agent's own CPU time.

use std::collections::VecDeque;

use crate::folder::Sample;

/// Samples, one a second, over which a rate is taken.
pub(super) const SAMPLES: usize = 10;

/// Counts and the last samples.
#[derive(Debug, Default)]
pub(super) struct Rates {
    requests: u64,
    /// Samples with the number of requests by then.
    last: VecDeque<Counted>,
}

/// A sample, and the number of requests by then.
type Counted = (Sample, u64);

impl Rates {
    /// So many requests have begun that are not looked at.
    pub(super) fn unseen(&mut self, requests: u64) {
        self.requests += requests;
    }

    /// A request has ended.
    pub(super) fn ended(&mut self) {
        self.requests += 1;
    }

    /// Takes a sample; rows of graphics processors do not count.
    pub(super) fn sample(&mut self, sample: &Sample) {
        if sample.gpu.is_some() {
            return;
        }
        self.last.push_back((*sample, self.requests));
        if self.last.len() > SAMPLES + 1 {
            self.last.pop_front();
        }
    }

    fn over_s(&self) -> Option<(f64, &Counted, &Counted)> {
        let (first, last) = (self.last.front()?, self.last.back()?);
        let ns = last.0.time_ns.saturating_sub(first.0.time_ns);
        (ns > 0).then_some((ns as f64 / 1e9, first, last))
    }

    /// Requests so far, and per second.
    pub(super) fn requests(&self) -> (u64, f64) {
        let rate = self.over_s().map_or(0.0, |(s, first, last)| (last.1 - first.1) as f64 / s);
        (self.requests, rate)
    }

    /// The part of one CPU that the agent took in the usual one of these seconds: making an incident takes
    /// some of them, and is over then.
    pub(super) fn usual_cpu(&self) -> f64 {
        let pairs = self.last.iter().zip(self.last.iter().skip(1));
        let mut parts: Vec<f64> = pairs
            .map(|((before, _), (after, _))| {
                let ns = after.time_ns.saturating_sub(before.time_ns).max(1);
                after.agent_cpu_ns.saturating_sub(before.agent_cpu_ns) as f64 / ns as f64
            })
            .collect();
        parts.sort_by(f64::total_cmp);
        parts.get(parts.len() / 2).copied().unwrap_or(0.0)
    }

    /// The agent's CPU time, ns, the same as part of one CPU, and its memory, bytes.
    pub(super) fn cost(&self) -> (u64, f64, u64) {
        let used = |(s, first, last): (f64, &Counted, &Counted)| {
            last.0.agent_cpu_ns.saturating_sub(first.0.agent_cpu_ns) as f64 / 1e9 / s
        };
        let (last, _) = self.last.back().copied().unwrap_or_default();
        (last.agent_cpu_ns, self.over_s().map_or(0.0, used), last.agent_rss_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_busy_seconds_are_not_usual() {
        let (mut rates, mut agent_cpu_ns) = (Rates::default(), 0);
        assert!(rates.usual_cpu().abs() < f64::EPSILON);
        for second in 0..11_u64 {
            agent_cpu_ns += if second % 3 == 0 { 500_000_000 } else { 10_000_000 };
            rates.sample(&Sample { time_ns: second * 1_000_000_000, agent_cpu_ns, ..Sample::default() });
        }
        assert!((rates.usual_cpu() - 0.01).abs() < 1e-9, "{}", rates.usual_cpu());
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut rates = Rates::default();
        for second in 0..100_u64 {
            (0..second).for_each(|_| rates.ended());
            let time_ns = second * 1_000_000_000;
            let agent_cpu_ns = second * 10_000_000;
            rates.sample(&Sample { time_ns, agent_cpu_ns, agent_rss_bytes: 7, ..Sample::default() });
        }
        let (all, per_s) = rates.requests();
        assert_eq!((all, per_s.round() as u64), (4_950, 95), "90 to 99 a second");
        let (cpu_ns, cpu, rss) = rates.cost();
        assert_eq!((cpu_ns, (cpu * 1e4).round() as u64, rss), (990_000_000, 100, 7));
    }
}
