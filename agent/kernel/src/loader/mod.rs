//! From the object to programs in the kernel: offsets into globals, maps, loading, attaching, verdicts.
//!
//! All of it is removed when this process ends: nothing is pinned. Records are read elsewhere.

mod clock_error;
mod clocks;
pub mod driver;
mod error;
mod folding;
pub mod functions;
mod globals;
mod hooks;
mod loaded;
mod losses;
pub mod marks;
mod offsets;
mod options;
mod pulse;
mod requests;
mod rings;
mod sampler;
mod sandboxed;
mod spin;
mod starts;
mod supplied;
mod thinned;
mod tracked;
mod uprobe;
mod visit;

use std::{os::fd::AsFd as _, sync::Arc, thread};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, Queue},
    programs::{Program, ProgramError},
};
use guestscope_contract::{Position, visit::TARGETS_MOST};
use nix::{
    sched::{CloneFlags, unshare},
    unistd::chroot,
};

use self::{globals::Globals, offsets::Offsets, spin::PidNamespace};
use crate::{
    carried,
    facts::{btf::KERNEL_BTF_FOLDER, gpu, permission, syscalls},
    health::{Fidelity, Outcome, Verdict},
    platform::{Root, topology},
    probes::{FAMILIES, Place, driver as driver_family, phase, socket},
};

pub use clock_error::ClockError;
pub use driver::DriverProbes;
pub use error::LoadError;
pub use functions::FunctionProbes;
pub use hooks::Prepared;
pub use marks::Marks;
pub use starts::Started;
pub use tracked::{Tracked, is_initial_namespace};
pub use visit::{VisitError, Visits};

pub use self::{
    error::SuppliedError,
    loaded::Loaded,
    options::{Knowledge, LoadOptions, WAIT_THRESHOLD},
};

/// Bytes in a ring that wake the agent before its timer does: an eighth of the event ring.
const WAKE_BYTES: u32 = 128 << 10;

/// Maps with an element for each thread that can be tracked, and one for number 0, which is none. There are
/// no more processes than threads.
const PER_THREAD: [&str; 12] = [
    "LEDGERS",
    "BESIDE",
    "LAST_IOS",
    "WAKERS",
    "FLIGHTS",
    "FREE",
    "STAGES",
    "OUTSIDE",
    "PROCESSES",
    "PROCESS_OF",
    "PLACES",
    "FREE_PROCESSES",
];

/// A position as a map's value.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct PositionValue(Position);
// SAFETY: a transparent wrapper of integers without padding.
unsafe impl aya::Pod for PositionValue {}

/// Loads everything and attaches all but the marker's probe.
pub fn load(options: &LoadOptions) -> Result<Loaded, LoadError> {
    let mut prepared = prepare(options)?;
    prepared.load_ahead();
    let mut verdicts = Vec::new();
    for hook in FAMILIES.iter().copied().flatten() {
        let is_left_out = !requests::are_wanted(options) && socket::HOOKS.contains(hook)
            || !options.driver && driver_family::HOOKS.contains(hook);
        if is_left_out {
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
    let driver = driver::load_if_wanted(&mut ebpf, &mut verdicts).map(Box::new);
    let (pulses, sampler) = Default::default();
    let marks = Arc::new(marks(&ebpf)?);
    let starts = None;
    let mut loaded = Loaded { ebpf, fidelity, verdicts, pulses, sampler, starts, marks, functions, driver };
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
    let globals = globals(&offsets, options);
    functions::size(&mut loader, options);
    driver::size(&mut loader, options);
    for map in PER_THREAD {
        loader.map_max_entries(map, options.slots + 1);
    }
    if !options.thins {
        loader.map_max_entries("UNSEEN", 1);
    }
    if !options.starts {
        loader.map_max_entries("STARTS", 4096);
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
    globals.put_into(&mut object)?;
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

/// What the programs have to know before they are loaded.
fn globals(offsets: &Offsets, options: &LoadOptions) -> Globals {
    let mut globals = Globals::default();
    offsets.tell(&mut globals);
    PidNamespace::own().tell(&mut globals);
    requests::tell(&mut globals, options);
    // Without a reader the kernel side's messages are removed by the verifier.
    globals.set(aya_log::LEVEL, if options.log { u8::MAX } else { 0 });
    globals.set("WAKE_BYTES", WAKE_BYTES);
    let wait_threshold_ns = u32::try_from(options.wait_threshold.as_nanos()).unwrap_or(u32::MAX);
    globals.set("WAIT_THRESHOLD_NS", wait_threshold_ns);
    globals.set("TELLS_STARTS", u32::from(options.starts));
    globals.set("MAY_THIN", u32::from(options.thins));
    globals.set_all("ACCOUNT_OF", &syscalls::account_of());
    globals.set_all("LIMIT_OF", &syscalls::limit_of());
    let gpus = options.gpus.unwrap_or_else(|| gpu::majors(&Root::system()));
    globals.set_all("MAJORS_OF_GPUS", &gpus);
    globals.set("HAS_COOKIES", u32::from(functions::has_cookies()));
    globals
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
    for slot in 1..=slots {
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
