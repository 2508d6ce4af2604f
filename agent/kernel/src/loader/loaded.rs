//! Programs in the kernel, and what can be asked of them.

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    sync::Arc,
};

use aya::{
    Ebpf,
    maps::{Array, MapData, PerCpuArray, PerCpuValues, RingBuf},
    programs::Program,
};
use guestscope_contract::{Counter, ledger::Ledger};

use super::{
    clocks::{Pulses, Sampler},
    driver::DriverProbes,
    error::LoadError,
    functions::FunctionProbes,
    marks::Marks,
    rings,
};
use crate::{
    health::{Fidelity, Outcome, Verdict},
    probes::phase,
    pump::Rings,
};

/// A ledger as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct LedgerValue(Ledger);

// SAFETY: a transparent wrapper of integers without padding.
unsafe impl aya::Pod for LedgerValue {}

/// Counters of the kernel side, as they were at one look.
pub(super) struct Counts(PerCpuValues<[u64; Counter::COUNT]>);

impl Counts {
    /// A counter, over all CPUs.
    pub(super) fn of(&self, counter: Counter) -> u64 {
        self.by_cpu(counter).sum()
    }

    /// A counter of each CPU.
    pub(super) fn by_cpu(&self, counter: Counter) -> impl Iterator<Item = u64> {
        self.0.iter().map(move |counts| counts[counter as usize])
    }
}

/// Programs in the kernel. Dropping it removes them.
pub struct Loaded {
    pub(super) ebpf: Ebpf,
    /// Fidelity of the observation.
    pub fidelity: Fidelity,
    /// The outcome of each hook.
    pub verdicts: Vec<Verdict>,
    pub(super) pulses: Box<Pulses>,
    pub(super) sampler: Box<Sampler>,
    pub(super) starts: Option<Box<RingBuf<MapData>>>,
    /// The marker's probe.
    pub marks: Arc<Marks>,
    /// Probes for functions, if requested, until they are taken.
    pub functions: Option<Box<FunctionProbes>>,
    /// Probes for functions of graphics processors' drivers, if requested, until they are taken.
    pub driver: Option<Box<DriverProbes>>,
}

impl Loaded {
    /// Keeps the clocks: of CPUs that came since the last look, and of threads when theirs cost too much.
    pub fn keep_clocks(&mut self) {
        self.keep_pulses();
        self.keep_sampling();
    }

    /// Reads the kernel side's messages; they go to `logger` whenever it is flushed.
    pub fn logger<L: log::Log>(&mut self, logger: L) -> Result<aya_log::EbpfLogger<L>, aya_log::Error> {
        aya_log::EbpfLogger::init_with_logger(&mut self.ebpf, logger)
    }

    /// Counters of the kernel side, by CPU.
    pub(super) fn counters(&self) -> Result<Counts, LoadError> {
        let map = self.ebpf.map("COUNTERS").ok_or(LoadError::Missing("COUNTERS"))?;
        let counters: PerCpuArray<_, [u64; Counter::COUNT]> = PerCpuArray::try_from(map)?;
        Ok(Counts(counters.get(&0, 0)?))
    }

    /// The rings; to be taken once. Each page of them is in the page table once.
    pub fn take_rings(&mut self) -> Result<Rings, LoadError> {
        let mut ring = |name| {
            let map = self.ebpf.take_map(name).ok_or(LoadError::Missing(name))?;
            RingBuf::try_from(map).map_err(LoadError::from)
        };
        let rings = Rings { edges: ring("EDGES")?, events: ring("EVENTS")?, waits: ring("WAITS")? };
        // Without it they are read as well.
        let _ = rings::trim();
        Ok(rings)
    }

    /// The program that a task runs on itself to become tracked.
    pub fn adopt_program(&self) -> Result<BorrowedFd<'_>, LoadError> {
        let program = self.ebpf.program("adopt").ok_or(LoadError::Missing("adopt"))?;
        let failed = |source| LoadError::Program { hook: "raw_tp/adopt", source };
        let Program::RawTracePoint(program) = program else { return Err(LoadError::Missing("adopt")) };
        Ok(program.fd().map_err(failed)?.as_fd())
    }

    /// Marks the hook of the marker as failed, with the reason.
    pub fn marker_failed(&mut self, why: &str) {
        let of_markers = |verdict: &&mut Verdict| phase::HOOKS.iter().any(|hook| hook.id == verdict.hook);
        for verdict in self.verdicts.iter_mut().filter(of_markers) {
            verdict.outcome = Outcome::Broken;
            verdict.consequence = format!("phases are missing: {why}");
            verdict.remedy = Some(phase::REMEDY.to_owned());
        }
    }

    /// A thread's ledger now; none if it kept changing between two reads.
    pub fn ledger(&self, slot: u16) -> Option<Ledger> {
        let ledgers: Array<_, LedgerValue> = Array::try_from(self.ebpf.map("LEDGERS")?).ok()?;
        let mut before = ledgers.get(&u32::from(slot), 0).ok()?.0;
        for _ in 0..8 {
            let again = ledgers.get(&u32::from(slot), 0).ok()?.0;
            // Two equal copies do not suffice where a hypervisor may stop the writer in the middle of its
            // change.
            if again == before && (again.task == 0 || again.is_whole()) {
                // A returned slot keeps its last holder's numbers.
                return (again.task != 0).then_some(again);
            }
            before = again;
        }
        None
    }

    /// The programs, for the statistics that `cargo xtask bench` reads.
    pub fn programs(&self) -> impl Iterator<Item = (&str, &Program)> {
        self.ebpf.programs()
    }
}
