//! From the object to programs in the kernel: offsets into globals, maps, loading, attaching, verdicts.
//!
//! All of it is removed when this process ends: nothing is pinned. Records are read elsewhere.

mod clock_error;
mod error;
pub mod functions;
mod hooks;
mod losses;
pub mod marks;
mod offsets;
mod pulse;
mod requests;
mod sampler;
mod spin;
mod supplied;
mod tracked;
mod uprobe;
mod visit;

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, Queue, RingBuf},
    programs::{Program, ProgramError},
};
use guestscope_contract::{GPU_MAJORS, Position, SLOTS, ledger::Ledger, visit::TARGETS_MOST};
use nix::{
    sched::{CloneFlags, unshare},
    unistd::chroot,
};

use self::{offsets::Offsets, pulse::Pulses, sampler::Sampler, spin::PidNamespace};
use crate::{
    carried,
    facts::{btf::KERNEL_BTF_FOLDER, gpu, permission, syscalls},
    health::{Fidelity, Outcome, Verdict},
    platform::{Root, topology},
    probes::{FAMILIES, Place, phase, socket},
    pump::Rings,
    watched::Watched,
};

pub use clock_error::ClockError;
pub use error::LoadError;
pub use functions::FunctionProbes;
pub use hooks::Prepared;
pub use marks::Marks;
pub use supplied::SuppliedError;
pub use tracked::Tracked;
pub use visit::{VisitError, Visits};

/// Bytes in a ring that wake the agent before its timer does: an eighth of the event ring.
const WAKE_BYTES: u32 = 128 << 10;

/// Maps with an element for each thread that can be tracked. There are no more processes than threads.
const PER_THREAD: [&str; 10] = [
    "LEDGERS",
    "BESIDE",
    "LAST_IOS",
    "FREE",
    "STAGES",
    "OUTSIDE",
    "PROCESSES",
    "PROCESS_OF",
    "PLACES",
    "FREE_PROCESSES",
];

/// Options of loading.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct LoadOptions {
    /// Threads that can be tracked at once.
    pub slots: u32,
    /// Keep the kernel side's log messages, for [`Loaded::logger`].
    pub log: bool,
    /// Hand over waits of at least this length, up to 4.29 s; zero for none.
    pub wait_threshold: Duration,
    /// Prepare to find threads that run already: [`Loaded::visit`].
    pub visits: bool,
    /// Source of the programs' knowledge of this kernel.
    pub knowledge: Knowledge,
    /// Prepare to follow calls of functions: [`Loaded::functions`].
    pub functions: bool,
    /// Major numbers of devices that count as graphics processors; none for those of this kernel's drivers.
    pub gpus: Option<[u32; GPU_MAJORS]>,
    /// Ports and paths whose requests shall be known by their sockets.
    pub requests: Vec<Watched>,
    /// Requests that a source marks begin when they arrived.
    pub arrivals: bool,
}

/// Source of the programs' knowledge of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Knowledge {
    /// The kernel's own BTF; where it has none, the formats of its tracepoints.
    #[default]
    Own,
    /// This BTF file, as if the kernel had no BTF.
    File(PathBuf),
    /// The formats of the kernel's tracepoints, as if it had no BTF.
    Formats,
}

impl From<Option<PathBuf>> for Knowledge {
    fn from(file: Option<PathBuf>) -> Self {
        file.map_or(Knowledge::Own, Knowledge::File)
    }
}

/// Shorter waits explain nothing that a person would look at, and are many.
pub const WAIT_THRESHOLD: Duration = Duration::from_micros(100);

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            slots: SLOTS,
            log: false,
            wait_threshold: WAIT_THRESHOLD,
            visits: true,
            knowledge: Knowledge::Own,
            functions: false,
            gpus: None,
            requests: Vec::new(),
            arrivals: false,
        }
    }
}

/// A ledger as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct LedgerValue(Ledger);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl aya::Pod for LedgerValue {}

/// A position as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct PositionValue(Position);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl aya::Pod for PositionValue {}

/// Programs in the kernel. Dropping it removes them.
pub struct Loaded {
    ebpf: Ebpf,
    /// Fidelity of the observation.
    pub fidelity: Fidelity,
    /// The outcome of each hook.
    pub verdicts: Vec<Verdict>,
    pulses: Box<Pulses>,
    sampler: Box<Sampler>,
    /// The marker's probe.
    pub marks: Arc<Marks>,
    /// Probes for functions, if requested, until they are taken.
    pub functions: Option<Box<FunctionProbes>>,
}

/// Loads everything and attaches all but the marker's probe.
pub fn load(options: &LoadOptions) -> Result<Loaded, LoadError> {
    let mut prepared = prepare(options)?;
    prepared.load_ahead();
    let mut verdicts = Vec::new();
    for hook in FAMILIES.iter().copied().flatten() {
        if !requests::are_wanted(options) && socket::HOOKS.contains(hook) {
            continue;
        }
        if hook.place == Place::Iterator && !options.visits {
            let (hook, consequence) = (hook.id.to_owned(), hook.purpose.to_owned());
            verdicts.push(Verdict { hook, outcome: Outcome::Off, consequence, remedy: None });
        } else {
            verdicts.push(requests::judged(options, hook, prepared.put_in_place(hook)?));
        }
    }
    let Prepared { mut ebpf, fidelity, .. } = prepared;
    let functions = options.functions.then(|| functions::load(&mut ebpf)).transpose()?.map(Box::new);
    let (pulses, sampler) = Default::default();
    let marks = Arc::new(marks(&ebpf)?);
    let mut loaded = Loaded { ebpf, fidelity, verdicts, pulses, sampler, marks, functions };
    loaded.start_pulses();
    Ok(loaded)
}

/// Creates the maps and sets the object's globals for this kernel.
pub fn prepare(options: &LoadOptions) -> Result<Prepared, LoadError> {
    if let Some(missing) = permission::missing_for_bpf() {
        return Err(LoadError::Permission(missing));
    }
    let offsets = Offsets::resolve(&options.knowledge)?;
    let mut loader = loader_without_btf();
    // Before the object: a parser takes 17 MB, and would otherwise be in memory together with the object.
    let from_sys_fs = || aya::Btf::from_sys_fs().map_err(|error| LoadError::Object(error.into()));
    let kernel_btf = (offsets.fidelity == Fidelity::Full).then(from_sys_fs).transpose()?;
    offsets.tell(&mut loader);
    let namespace = PidNamespace::own();
    namespace.tell(&mut loader);
    let accounts = syscalls::account_of();
    // Without a reader the kernel side's messages are removed by the verifier.
    let log_level = if options.log { u8::MAX } else { 0 };
    loader.override_global(aya_log::LEVEL, &log_level, false);
    loader.override_global("WAKE_BYTES", &WAKE_BYTES, true);
    let wait_threshold_ns = u32::try_from(options.wait_threshold.as_nanos()).unwrap_or(u32::MAX);
    loader.override_global("WAIT_THRESHOLD_NS", &wait_threshold_ns, true);
    loader.override_global("ACCOUNT_OF", &accounts[..], true);
    let limits = syscalls::limit_of();
    loader.override_global("LIMIT_OF", &limits[..], true);
    let gpus = options.gpus.unwrap_or_else(|| gpu::majors(&Root::system()));
    loader.override_global("MAJORS_OF_GPUS", &gpus[..], true);
    let has_cookies = u32::from(functions::has_cookies());
    loader.override_global("HAS_COOKIES", &has_cookies, true);
    functions::size(&mut loader, options);
    for map in PER_THREAD {
        loader.map_max_entries(map, options.slots.max(2));
    }
    // This table alone is a megabyte.
    loader.map_max_entries("TARGETS", if options.visits { TARGETS_MOST } else { 1 });
    requests::size(&mut loader, options);
    let positions = topology::positions(&Root::system());
    loader.map_max_entries("TOPOLOGY", positions.len() as u32);
    loader.map_max_entries("LAST_TURNS", positions.len() as u32);
    loader.map_max_entries("PULSES", positions.len() as u32);
    let mut object = carried::probes().map_err(LoadError::Damaged)?;
    offsets.casts.put_into(&mut object);
    let mut ebpf = loader.load(&object)?;
    drop(object);
    for map in ["FREE", "FREE_PROCESSES"] {
        fill_free(&mut ebpf, map, options.slots)?;
    }
    fill_topology(&mut ebpf, &positions)?;
    requests::fill(&mut ebpf, &options.requests)?;
    if let Knowledge::File(path) = &options.knowledge {
        supplied::try_out(&mut ebpf, path)?;
    }
    let Offsets { fidelity, absent, .. } = offsets;
    Ok(Prepared { ebpf, fidelity, kernel_btf, absent })
}

/// aya's loader parses the kernel's BTF at once, for relocations that this object does not need: by a profile
/// 35 of the 187 ms from the start to the last hook. So a thread whose root is another folder, where that
/// file is hidden, makes it; where that is refused it takes the time.
fn loader_without_btf() -> EbpfLoader<'static> {
    let make = || {
        let _ = unshare(CloneFlags::CLONE_FS).and_then(|()| chroot(KERNEL_BTF_FOLDER));
        EbpfLoader::new()
    };
    let made = thread::Builder::new().spawn(make).map(thread::JoinHandle::join);
    let mut loader = made.ok().and_then(Result::ok).unwrap_or_default();
    loader.btf(None);
    loader
}

fn marks(ebpf: &Ebpf) -> Result<Marks, LoadError> {
    let hook = phase::HOOKS.first().ok_or(LoadError::Missing("edge"))?;
    let failed = |source| LoadError::Program { hook: hook.id, source };
    let Some(Program::UProbe(program)) = ebpf.program(hook.program) else {
        return Err(LoadError::Missing(hook.program));
    };
    let program = program.fd().map_err(failed)?;
    Marks::new(program.as_fd()).map_err(|error| failed(ProgramError::IOError(error)))
}

/// Number 0 means none, so it is never given out.
fn fill_free(ebpf: &mut Ebpf, map: &'static str, slots: u32) -> Result<(), LoadError> {
    let map = ebpf.map_mut(map).ok_or(LoadError::Missing(map))?;
    let mut free: Queue<_, u32> = Queue::try_from(map)?;
    for slot in 1..slots {
        free.push(slot, 0)?;
    }
    Ok(())
}

fn fill_topology(ebpf: &mut Ebpf, positions: &[Position]) -> Result<(), LoadError> {
    let map = ebpf.map_mut("TOPOLOGY").ok_or(LoadError::Missing("TOPOLOGY"))?;
    let mut topology: Array<_, PositionValue> = Array::try_from(map)?;
    for (cpu, position) in (0..).zip(positions) {
        topology.set(cpu, PositionValue(*position), 0)?;
    }
    Ok(())
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

    /// The rings; to be taken once.
    pub fn take_rings(&mut self) -> Result<Rings, LoadError> {
        let mut ring = |name| {
            let map = self.ebpf.take_map(name).ok_or(LoadError::Missing(name))?;
            RingBuf::try_from(map).map_err(LoadError::from)
        };
        Ok(Rings { edges: ring("EDGES")?, events: ring("EVENTS")?, waits: ring("WAITS")? })
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
