//! The steps of a workload: each is a request with phases, marked for guestscope and measured here as well, so that a
//! run without guestscope has numbers of its own. Yields nanoseconds; it does not know what a step computes.

use std::{collections::BTreeMap, time::Instant};

use guestscope_marker::Guard;
use serde::Serialize;

use crate::{
    beside,
    report::{self, Percentiles, milliseconds},
    started,
};

/// Nanoseconds of every step and of its phases, in order.
#[derive(Debug)]
pub struct Steps {
    /// In the order in which a step has them.
    names: &'static [&'static str],
    step_ns: Vec<u64>,
    phase_ns: Vec<Vec<u64>>,
    started: Option<Instant>,
    /// From the begin of the first to the end of the last step, without what was `outside`.
    pub elapsed_ns: u64,
}

/// The phases of the step that runs.
#[derive(Debug)]
pub struct Phases {
    names: &'static [&'static str],
    ns: Vec<u64>,
}

/// For machines.
#[derive(Serialize)]
pub struct Timing {
    steps: u64,
    elapsed_ns: u64,
    step_ns: Percentiles,
    phases_ns: BTreeMap<&'static str, Percentiles>,
    /// Of the step where the smallest part of its time lies inside its phases.
    least_phase_share: f64,
}

impl Steps {
    /// None yet; of phases with these names.
    pub fn new(names: &'static [&'static str]) -> Self {
        let phase_ns = names.iter().map(|_| Vec::new()).collect();
        Self { names, step_ns: Vec::new(), phase_ns, started: None, elapsed_ns: 0 }
    }

    /// Steps that tests of reports have.
    #[cfg(test)]
    pub(crate) fn of(names: &'static [&'static str], step_ns: Vec<u64>, phase_ns: Vec<Vec<u64>>) -> Self {
        Self { step_ns, phase_ns, ..Self::new(names) }
    }

    /// Runs one step.
    pub fn step<T>(&mut self, name: &str, number: u64, work: impl FnOnce(&mut Phases) -> T) -> T {
        let mut phases = Phases { names: self.names, ns: vec![0; self.names.len()] };
        started::tell();
        let start = Instant::now();
        let begun = *self.started.get_or_insert(start);
        let request = guestscope_marker::request(&beside::name(name), number);
        let result = work(&mut phases);
        drop(request);
        self.step_ns.push(start.elapsed().as_nanos() as u64);
        self.elapsed_ns = begun.elapsed().as_nanos() as u64;
        for (all, ns) in self.phase_ns.iter_mut().zip(phases.ns) {
            all.push(ns);
        }
        result
    }

    /// Runs what is no part of the work, between steps: its time does not count as elapsed.
    pub fn outside<T>(&mut self, other: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = other();
        if let Some(started) = &mut self.started {
            *started += start.elapsed();
        }
        result
    }

    /// How many were run.
    pub fn count(&self) -> u64 {
        self.step_ns.len() as u64
    }

    /// Seconds, as `elapsed_ns`.
    pub fn elapsed_s(&self) -> f64 {
        self.elapsed_ns as f64 / 1e9
    }

    /// So many of something in all steps, per second.
    pub fn rate(&self, count: u64) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { count as f64 / self.elapsed_s() }
    }

    /// What the phases are called, in order.
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

    /// The share of a step's time that lies inside its phases; of the step where it is smallest.
    pub fn least_phase_share(&self) -> f64 {
        report::least_phase_share(&self.step_ns, &self.phase_ns)
    }

    /// For people: what a step is called, and a line for it and for each phase.
    pub fn lines(&self, step: &'static str) -> Vec<(&'static str, String)> {
        let phases = self.names.iter().zip(&self.phase_ns).map(|(name, ns)| (*name, milliseconds(ns)));
        std::iter::once((step, milliseconds(&self.step_ns))).chain(phases).collect()
    }

    /// For machines.
    pub fn timing(&self) -> Timing {
        let phases = self.names.iter().zip(&self.phase_ns);
        Timing {
            steps: self.count(),
            elapsed_ns: self.elapsed_ns,
            step_ns: Percentiles::of(&self.step_ns),
            phases_ns: phases.map(|(name, ns)| (*name, Percentiles::of(ns))).collect(),
            least_phase_share: self.least_phase_share(),
        }
    }
}

impl Phases {
    /// Runs `work` as the phase `name`.
    pub fn run<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) -> T {
        self.run_guarded(name, |_| work())
    }

    /// As `run`; `work` is given the W3C `traceparent` header that makes what it calls elsewhere a part of this phase.
    pub fn run_traced<T>(&mut self, name: &'static str, work: impl FnOnce(&str) -> T) -> T {
        self.run_guarded(name, |guard| work(&guard.traceparent()))
    }

    fn run_guarded<T>(&mut self, name: &'static str, work: impl FnOnce(&Guard) -> T) -> T {
        let start = Instant::now();
        let guard = guestscope_marker::phase(name);
        let result = work(&guard);
        drop(guard);
        let own = self.names.iter().position(|known| *known == name);
        debug_assert!(own.is_some(), "a phase that no report shows: {name}");
        if let Some(ns) = own.and_then(|at| self.ns.get_mut(at)) {
            *ns += start.elapsed().as_nanos() as u64;
        }
        result
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
    fn the_least_share_is_that_of_the_worst_step() {
        let mut steps = Steps::new(&["read", "parse"]);
        steps.step_ns = vec![100, 200, 0];
        steps.phase_ns = vec![vec![50, 60, 0], vec![45, 120, 0]];
        assert!((steps.least_phase_share() - 0.9).abs() < 1e-12);
    }

    #[test]
    fn what_is_outside_does_not_count() {
        let start = Instant::now();
        let mut steps = Steps::new(&["read"]);
        let mut turn = |number| {
            steps.outside(|| thread::sleep(Duration::from_millis(30)));
            steps.step("chunk", number, |phases| phases.run("read", || ()));
        };
        (0..3).for_each(&mut turn);
        // Exact on the same clock: what lies outside took 90 ms at least.
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
        let inside: u64 = steps.phase_ns.iter().flatten().sum();
        assert!(
            inside <= steps.step_ns.iter().sum() && steps.step_ns.iter().sum::<u64>() <= steps.elapsed_ns
        );
    }
}
