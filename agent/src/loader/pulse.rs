//! The pulses of all CPUs: a clock on each one that is online, started again when CPUs come or go.
//!
//! Yields the beats that came late. A clock of a CPU that was taken away is gone for good, so all are started anew, and with
//! them what is known of the last beats: else the first one would seem to be late. It judges no beat.

use aya::{
    maps::{Array, MapData, RingBuf},
    programs::{
        PerfEvent,
        perf_event::{PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent},
    },
    util::online_cpus,
};
use guestscope_ebpf::pause::{BEAT_NS, GapRecord, Pulse};

use super::{LoadError, Loaded};
use crate::{
    failure,
    health::Outcome,
    probes::{Place, pause},
};

/// A pulse as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct PulseValue(Pulse);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl aya::Pod for PulseValue {}

/// What beats.
#[derive(Default)]
pub(super) struct Pulses {
    cpus: Vec<u32>,
    links: Vec<PerfEventLinkId>,
    gaps: Option<RingBuf<MapData>>,
}

impl Loaded {
    /// Starts the pulses of all CPUs, if others are online than the last time. Where that is refused the hook says so.
    pub fn keep_pulses(&mut self) {
        let is_ours =
            |hook: &str| pause::HOOKS.iter().any(|ours| ours.place == Place::EachCpu && ours.id == hook);
        let Some(at) = self.verdicts.iter().position(|verdict| is_ours(&verdict.hook)) else { return };
        if self.verdicts[at].outcome != Outcome::Ok {
            return;
        }
        if let Err(error) = self.try_to_keep_pulses() {
            let verdict = &mut self.verdicts[at];
            verdict.outcome = Outcome::Broken;
            let why = failure::chain(error.chain());
            verdict.consequence = format!("missing: {}: {why}", verdict.consequence);
        }
    }

    fn try_to_keep_pulses(&mut self) -> Result<(), anyhow::Error> {
        let cpus = online_cpus().map_err(|(what, error)| anyhow::Error::new(error).context(what))?;
        if cpus == self.pulses.cpus {
            return Ok(());
        }
        let program = self.ebpf.program_mut("pulse").ok_or(LoadError::Missing("pulse"))?;
        let program: &mut PerfEvent = program.try_into()?;
        for link in self.pulses.links.drain(..) {
            program.detach(link)?;
        }
        let map = self.ebpf.map_mut("PULSES").ok_or(LoadError::Missing("PULSES"))?;
        let mut states: Array<_, PulseValue> = Array::try_from(map)?;
        for &cpu in &cpus {
            states.set(cpu, PulseValue(Pulse { cpus: cpus.len() as u64, ..Pulse::default() }), 0)?;
        }
        let program = self.ebpf.program_mut("pulse").ok_or(LoadError::Missing("pulse"))?;
        let program: &mut PerfEvent = program.try_into()?;
        for &cpu in &cpus {
            let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
            let scope = PerfEventScope::AllProcessesOneCpu { cpu };
            let link = program.attach(clock, scope, SamplePolicy::Period(BEAT_NS), false)?;
            self.pulses.links.push(link);
        }
        self.pulses.cpus = cpus;
        Ok(())
    }

    /// The pulse of a CPU as it is now.
    pub fn pulse(&self, cpu: u32) -> Option<Pulse> {
        let states: Array<_, PulseValue> = Array::try_from(self.ebpf.map("PULSES")?).ok()?;
        states.get(&cpu, 0).ok().map(|value| value.0)
    }

    /// The next beat that came late, if one did.
    pub fn next_gap(&mut self) -> Option<GapRecord> {
        if self.pulses.gaps.is_none() {
            self.pulses.gaps = Some(RingBuf::try_from(self.ebpf.take_map("GAPS")?).ok()?);
        }
        let bytes = self.pulses.gaps.as_mut()?.next()?;
        if bytes.len() != size_of::<GapRecord>() {
            return None;
        }
        // SAFETY: the length was checked, the record is of integers only without padding, and the read needs no alignment.
        Some(unsafe { bytes.as_ptr().cast::<GapRecord>().read_unaligned() })
    }
}
