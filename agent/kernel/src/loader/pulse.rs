//! The pulses of all CPUs: a clock on each one that is online, started again when CPUs come or go.
//!
//! Yields the beats that came late. The clock of a CPU that went offline does not come back, so all clocks
//! are restarted and the last beats forgotten: otherwise the first beat would seem late. `phase::pauses`
//! judges the beats.

use aya::{
    maps::{Array, RingBuf},
    programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent},
    util::online_cpus,
};
use guestscope_contract::pause::{BEAT_NS, GapRecord, Pulse};

use super::{clock_error::ClockError, loaded::Loaded};
use crate::{
    health::Outcome,
    probes::{Place, pause},
};

const PROGRAM: &str = "pulse";

/// A pulse as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct PulseValue(Pulse);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl aya::Pod for PulseValue {}

impl Loaded {
    /// Starts the pulses of all CPUs for the first time. No later attempt is sure to come, so this makes two.
    pub(super) fn start_pulses(&mut self) {
        self.keep_pulses();
        self.keep_pulses();
    }

    /// Restarts the pulses if the set of online CPUs has changed. A CPU may go offline between the check and
    /// the start: only a second failure in a row is reported by the hook, and is the last attempt.
    pub fn keep_pulses(&mut self) {
        let cpus = online_cpus().map_err(ClockError::of_cpus);
        self.try_to_keep_pulses(cpus);
    }

    /// The same for a given list of online CPUs.
    pub fn keep_pulses_on(&mut self, cpus: &[u32]) {
        self.try_to_keep_pulses(Ok(cpus.to_vec()));
    }

    fn try_to_keep_pulses(&mut self, cpus: Result<Vec<u32>, ClockError>) {
        let is_ours =
            |hook: &str| pause::HOOKS.iter().any(|ours| ours.place == Place::EachCpu && ours.id == hook);
        let Some(at) = self.verdicts.iter().position(|verdict| is_ours(&verdict.hook)) else { return };
        if self.verdicts[at].outcome != Outcome::Ok {
            return;
        }
        let kept = cpus.and_then(|cpus| self.pulses_on(cpus));
        let had_failed = std::mem::replace(&mut self.pulses.has_failed, kept.is_err());
        let Err(error) = kept else { return };
        // Clocks that cannot be stopped do not beat either.
        let _ = self.stop_pulses();
        if had_failed {
            self.verdicts[at].fail(&error.to_string());
        }
    }

    fn pulses_on(&mut self, cpus: Vec<u32>) -> Result<(), ClockError> {
        if cpus == self.pulses.cpus {
            return Ok(());
        }
        self.stop_pulses()?;
        for &cpu in &cpus {
            self.start_pulse(cpu, cpus.len())?;
        }
        self.pulses.cpus = cpus;
        Ok(())
    }

    /// Starts the pulse of one CPU out of `cpus`.
    fn start_pulse(&mut self, cpu: u32, cpus: usize) -> Result<(), ClockError> {
        let map = self.ebpf.map_mut("PULSES").ok_or(ClockError::Missing("PULSES"))?;
        let mut states: Array<_, PulseValue> = Array::try_from(map)?;
        states.set(cpu, PulseValue(Pulse { cpus: cpus as u64, ..Pulse::default() }), 0)?;
        let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
        let scope = PerfEventScope::AllProcessesOneCpu { cpu };
        let link = self.clock_program(PROGRAM)?.attach(clock, scope, SamplePolicy::Period(BEAT_NS), false)?;
        self.pulses.links.push(link);
        Ok(())
    }

    fn stop_pulses(&mut self) -> Result<(), ClockError> {
        self.pulses.cpus.clear();
        let links = std::mem::take(&mut self.pulses.links);
        self.stop_clocks(PROGRAM, links)
    }

    /// The current pulse of a CPU.
    pub fn pulse(&self, cpu: u32) -> Option<Pulse> {
        let states: Array<_, PulseValue> = Array::try_from(self.ebpf.map("PULSES")?).ok()?;
        states.get(&cpu, 0).ok().map(|value| value.0)
    }

    /// The next late beat, if there is one.
    pub fn next_gap(&mut self) -> Option<GapRecord> {
        if self.pulses.gaps.is_none() {
            self.pulses.gaps = Some(RingBuf::try_from(self.ebpf.take_map("GAPS")?).ok()?);
        }
        let bytes = self.pulses.gaps.as_mut()?.next()?;
        if bytes.len() != size_of::<GapRecord>() {
            return None;
        }
        // SAFETY: the length was checked, the record is of integers only without padding, and the read needs
        // no alignment.
        Some(unsafe { bytes.as_ptr().cast::<GapRecord>().read_unaligned() })
    }
}
