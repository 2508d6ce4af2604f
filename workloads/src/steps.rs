//! The steps of a workload: each is a request with phases, marked for guestscope and measured here as well,
//! so that a run without guestscope has its own numbers. Phases leave no gap: the first begins with its step,
//! each ends where the next begins, and the last one with the step. Yields nanoseconds; it does not know what
//! a step computes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use guestscope_marker::Guard;
use serde::Serialize;

use crate::{
    beside,
    report::{Percentiles, milliseconds},
    started,
};

/// Nanoseconds of every step and of its phases, in order.
#[derive(Debug)]
pub struct Steps {
    /// Names of the phases, in their order in a step.
    names: &'static [&'static str],
    step_ns: Vec<u64>,
    phase_ns: Vec<Vec<u64>>,
    started: Option<Instant>,
    /// Time from the start of the first to the end of the last step, without calls of `outside`.
    pub elapsed_ns: u64,
}

/// The phases of the running step.
#[derive(Debug)]
pub struct Phases {
    names: &'static [&'static str],
    ns: Vec<u64>,
    start: Instant,
    /// The last phase, open until the next one begins. Before `request`, so that it is dropped first.
    last: Option<Last>,
    request: Guard,
}

/// The phase that runs or ran last.
#[derive(Debug)]
struct Last {
    guard: Guard,
    /// Index of its time.
    own: Option<usize>,
    since: Instant,
}

/// Times for the JSON.
#[derive(Serialize)]
pub struct Timing {
    steps: u64,
    elapsed_ns: u64,
    step_ns: Percentiles,
    phases_ns: BTreeMap<&'static str, Percentiles>,
}

impl Steps {
    /// No steps yet, with phases of these names.
    pub fn new(names: &'static [&'static str]) -> Self {
        let phase_ns = names.iter().map(|_| Vec::new()).collect();
        Self { names, step_ns: Vec::new(), phase_ns, started: None, elapsed_ns: 0 }
    }

    /// Steps for tests of reports.
    #[cfg(test)]
    pub(crate) fn of(names: &'static [&'static str], step_ns: Vec<u64>, phase_ns: Vec<Vec<u64>>) -> Self {
        Self { step_ns, phase_ns, ..Self::new(names) }
    }

    /// Runs one step.
    pub fn step<T>(&mut self, name: &str, number: u64, work: impl FnOnce(&mut Phases) -> T) -> T {
        let (name, ns) = (beside::name(name), vec![0; self.names.len()]);
        started::tell();
        let start = Instant::now();
        let begun = *self.started.get_or_insert(start);
        let request = guestscope_marker::request(&name, number);
        let mut phases = Phases { names: self.names, ns, start, last: None, request };
        let result = work(&mut phases);
        let (ns, end) = phases.end();
        self.step_ns.push((end - start).as_nanos() as u64);
        self.elapsed_ns = (end - begun).as_nanos() as u64;
        for (all, ns) in self.phase_ns.iter_mut().zip(ns) {
            all.push(ns);
        }
        result
    }

    /// Runs something between steps that is not part of the work: its time does not count as elapsed.
    pub fn outside<T>(&mut self, other: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = other();
        if let Some(started) = &mut self.started {
            *started += start.elapsed();
        }
        result
    }

    /// Number of steps.
    pub fn count(&self) -> u64 {
        self.step_ns.len() as u64
    }

    /// `elapsed_ns` in seconds.
    pub fn elapsed_s(&self) -> f64 {
        self.elapsed_ns as f64 / 1e9
    }

    /// `count` things in all steps, per second.
    pub fn rate(&self, count: u64) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { count as f64 / self.elapsed_s() }
    }

    /// Names of the phases, in order.
    pub fn names(&self) -> &'static [&'static str] {
        self.names
    }

    /// Nanoseconds of each step.
    pub fn step_ns(&self) -> &[u64] {
        &self.step_ns
    }

    /// Nanoseconds of each phase of each step.
    pub fn phase_ns(&self) -> &[Vec<u64>] {
        &self.phase_ns
    }

    /// Report lines: one for the step, called `step`, and one for each phase.
    pub fn lines(&self, step: &'static str) -> Vec<(&'static str, String)> {
        let phases = self.names.iter().zip(&self.phase_ns).map(|(name, ns)| (*name, milliseconds(ns)));
        std::iter::once((step, milliseconds(&self.step_ns))).chain(phases).collect()
    }

    /// Times for the JSON.
    pub fn timing(&self) -> Timing {
        let phases = self.names.iter().zip(&self.phase_ns);
        Timing {
            steps: self.count(),
            elapsed_ns: self.elapsed_ns,
            step_ns: Percentiles::of(&self.step_ns),
            phases_ns: phases.map(|(name, ns)| (*name, Percentiles::of(ns))).collect(),
        }
    }
}

impl Phases {
    /// Runs `work` as the phase `name`, which lasts until the next one begins or the step ends.
    pub fn run<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) -> T {
        self.run_guarded(name, |_| work())
    }

    /// As `run`; `work` gets the W3C `traceparent` header that makes its calls elsewhere part of this phase.
    pub fn run_traced<T>(&mut self, name: &'static str, work: impl FnOnce(&str) -> T) -> T {
        self.run_guarded(name, |guard| work(&guard.traceparent()))
    }

    fn run_guarded<T>(&mut self, name: &'static str, work: impl FnOnce(&Guard) -> T) -> T {
        let own = self.names.iter().position(|known| *known == name);
        debug_assert!(own.is_some(), "a phase that no report shows: {name}");
        let (guard, since) = match self.last.take() {
            Some(last) => {
                let now = Instant::now();
                add(&mut self.ns, last.own, now - last.since);
                (last.guard.next(name), now)
            }
            None => (self.request.first(name), self.start),
        };
        let result = work(&guard);
        self.last = Some(Last { guard, own, since });
        result
    }

    /// Ends the step and its last phase. Gives the nanoseconds of each phase, and the time of the end.
    fn end(self) -> (Vec<u64>, Instant) {
        let Self { mut ns, last, request, .. } = self;
        let Some(Last { guard, own, since }) = last else {
            drop(request);
            return (ns, Instant::now());
        };
        guard.end_with(request);
        let end = Instant::now();
        add(&mut ns, own, end - since);
        (ns, end)
    }
}

fn add(all: &mut [u64], own: Option<usize>, time: Duration) {
    if let Some(ns) = own.and_then(|at| all.get_mut(at)) {
        *ns += time.as_nanos() as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        thread,
        time::{Duration, Instant},
    };

    use super::Steps;

    #[test]
    fn what_is_outside_does_not_count() {
        let start = Instant::now();
        let mut steps = Steps::new(&["read"]);
        let mut turn = |number| {
            steps.outside(|| thread::sleep(Duration::from_millis(30)));
            steps.step("chunk", number, |phases| phases.run("read", || ()));
        };
        (0..3).for_each(&mut turn);
        // Exact on the same clock: the part outside took 90 ms at least.
        assert!(steps.elapsed_ns + 90_000_000 <= start.elapsed().as_nanos() as u64, "{}", steps.elapsed_ns);
    }

    #[test]
    fn every_phase_of_every_step_is_kept() {
        let mut steps = Steps::new(&["read", "parse"]);
        for number in 0..3 {
            let result = steps.step("chunk", number, |phases| {
                phases.run("parse", || ());
                phases.run("read", || number * 2)
            });
            assert_eq!(result, number * 2);
        }
        assert_eq!(steps.count(), 3);
        assert_eq!(steps.phase_ns.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
        for (step, step_ns) in steps.step_ns.iter().enumerate() {
            assert_eq!(steps.phase_ns.iter().map(|phase| phase[step]).sum::<u64>(), *step_ns);
        }
        assert!(steps.step_ns.iter().sum::<u64>() <= steps.elapsed_ns);
    }
}
