//! Hands out the requests of a run, one by one, to the worker that asks first. Yields numbers and scheduled
//! times. How long requests take does not matter: in an open loop the schedule decides arrivals.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use super::{MOST_REQUESTS, Plan, arrivals::Arrivals, clock::Clock, scenario::Scenario};

/// A request to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) number: u64,
    /// Arrival time on the clock of the run; none in a closed loop.
    pub(super) scheduled_ns: Option<u64>,
}

/// The requests that are left, and whether to go on.
#[derive(Debug)]
pub(super) struct Dispenser {
    requests: u64,
    duration_ns: u64,
    /// Upper limit of the number of requests.
    most: u64,
    full: AtomicBool,
    state: Mutex<State>,
    /// Number of late requests beyond which the result is settled: the rest need not run.
    late_at_most: Option<u64>,
    late: AtomicU64,
    stopped: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// Time when the first worker asked for its first request.
    start_ns: Option<u64>,
    number: u64,
    arrivals: Option<Arrivals>,
    /// Offset from the start to the last arrival handed out; in a closed loop to the time of handing out.
    last_ns: Option<u64>,
}

impl Dispenser {
    /// `qps` is the rate of arrivals; none for a closed loop.
    pub(super) fn new(plan: &Plan, qps: Option<f64>, late_at_most: Option<u64>) -> Self {
        let arrivals = qps.map(|qps| Arrivals::new(plan.seed, qps));
        let state = State { start_ns: None, number: 0, arrivals, last_ns: None };
        Self {
            requests: plan.requests,
            duration_ns: plan.duration_ns,
            most: MOST_REQUESTS,
            full: AtomicBool::new(false),
            state: Mutex::new(state),
            late_at_most,
            late: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// The next request, if there is one.
    pub(super) fn take(&self, clock: &dyn Clock) -> Option<Ticket> {
        if self.stopped.load(Relaxed) {
            return None;
        }
        // Nothing that holds the lock can panic half way.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = clock.now_ns();
        let start_ns = *state.start_ns.get_or_insert(now_ns);
        // LoadGen's rule: the last request is the first one that begins once the duration has passed.
        if state.number >= self.requests && state.last_ns.unwrap_or(0) >= self.duration_ns {
            return None;
        }
        let number = state.number;
        if number >= self.most {
            self.full.store(true, Relaxed);
            return None;
        }
        state.number += 1;
        let arrival_ns = state.arrivals.as_mut().and_then(Iterator::next);
        state.last_ns = arrival_ns.or(Some(now_ns - start_ns));
        let scheduled_ns = arrival_ns.map(|offset_ns| start_ns.saturating_add(offset_ns));
        Some(Ticket { number, scheduled_ns })
    }

    /// Hands out no more requests.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Counts one more request that exceeded its target latency.
    pub(super) fn late(&self) {
        let late = self.late.fetch_add(1, Relaxed) + 1;
        if self.late_at_most.is_some_and(|most| late > most) {
            self.stop();
        }
    }

    /// Whether it was stopped early.
    pub(super) fn was_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Whether it ended because more requests would exceed the number that is kept.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Time when the first request was asked for.
    pub(super) fn start_ns(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).start_ns.unwrap_or(0)
    }
}

/// Number of requests that `plan` makes at `qps` arrivals per second, as `take` counts them.
pub(super) fn arrivals_of(plan: &Plan, qps: f64) -> u64 {
    let before = Arrivals::new(plan.seed, qps).take_while(|offset_ns| *offset_ns < plan.duration_ns);
    let until_then = if plan.duration_ns == 0 { 0 } else { before.count() as u64 + 1 };
    plan.requests.max(until_then)
}

/// Approximate number of requests for a bar: in a closed loop the number that a duration makes is unknown,
/// and drawing all arrivals of a long one ahead would take seconds.
pub(super) fn expected(plan: &Plan, qps: Option<f64>) -> u64 {
    debug_assert!(qps.is_none() || plan.scenario == Scenario::Server);
    let until_then = qps.map_or(0.0, |qps| qps * plan.duration_ns as f64 / 1e9);
    plan.requests.max(until_then as u64)
}

#[cfg(test)]
mod tests {
    use super::Dispenser;
    use crate::load::{Plan, Target, clock::Monotonic, scenario::Scenario};

    #[test]
    fn a_run_that_lasts_ends_with_the_last_request_that_is_kept() {
        let plan = Plan {
            scenario: Scenario::SingleStream,
            requests: 1,
            duration_ns: u64::MAX,
            warmup: 0,
            workers: 1,
            qps: None,
            target: Target { percentile: 90.0, latency_ns: 1 },
            find_peak: false,
            seed: 1,
            progress: false,
        };
        let all = Dispenser { most: 3, ..Dispenser::new(&plan, None, None) };
        let numbers: Vec<u64> =
            (0..9).filter_map(|_| all.take(&Monotonic)).map(|ticket| ticket.number).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert!(all.is_full() && !all.was_stopped());
        let asked = Dispenser::new(&Plan { duration_ns: 0, ..plan }, None, None);
        while asked.take(&Monotonic).is_some() {}
        assert!(!asked.is_full(), "it was over");
    }
}
