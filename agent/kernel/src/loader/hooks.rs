//! Attaches each hook: its program, the place, and the outcome.
//!
//! Where the kernel has BTF each tracepoint gets its typed program. Where the kernel refuses one, and where
//! BTF comes from a file, the untyped twin is used; without any BTF, the program that reads events.

use std::thread;

use aya::{
    Ebpf,
    programs::{Program, ProgramError},
};

use super::LoadError;
use crate::{
    health::{Fidelity, Outcome, Verdict},
    probes::{Hook, Place},
};

/// An object with its maps in the kernel and its globals set; no program is loaded yet.
pub struct Prepared {
    /// The object.
    pub ebpf: Ebpf,
    /// Fidelity with the attached hooks.
    pub fidelity: Fidelity,
    /// None if the kernel has no BTF, or is treated as if it had none.
    pub(super) kernel_btf: Option<aya::Btf>,
    /// Hooks whose tracepoints this kernel does not have.
    pub(super) absent: Vec<&'static str>,
}

impl Prepared {
    /// The hook to use at this fidelity; none if nothing can replace it.
    pub fn wanted(&self, hook: &Hook) -> Option<Hook> {
        let (has_types, has_tasks) =
            (self.fidelity == Fidelity::Full, matches!(self.fidelity, Fidelity::Full | Fidelity::Raw));
        match hook.place {
            Place::BtfTracepoint(_) if has_types => Some(*hook),
            Place::BtfTracepoint(_) if has_tasks => hook.raw(),
            Place::BtfTracepoint(_) => hook.by_event(),
            Place::Iterator => has_types.then_some(*hook),
            // Saved registers show what is done inside the kernel. Without the stolen time, time that a
            // hypervisor gives to other guests would look like a pause.
            Place::Sampler | Place::EachCpu | Place::Function => has_tasks.then_some(*hook),
            Place::RawTracepoint(_) | Place::Tracepoint(..) | Place::Called | Place::Marker => Some(*hook),
        }
    }

    /// Puts a hook in place as well as this kernel allows. An error where nothing can be observed without it.
    pub fn put_in_place(&mut self, hook: &Hook) -> Result<Verdict, LoadError> {
        let Some(wanted) = self.wanted(hook) else {
            let whose = if self.fidelity == Fidelity::Raw { "BTF of the kernel's own" } else { "BTF" };
            return Ok(Verdict {
                hook: hook.id.to_owned(),
                outcome: Outcome::Unsupported,
                consequence: format!("missing: {}: needs {whose}", hook.purpose),
                remedy: None,
            });
        };
        let verdict =
            |outcome, consequence| Verdict { hook: wanted.id.to_owned(), outcome, consequence, remedy: None };
        let Err(refused) = self.attach(&wanted) else {
            return Ok(verdict(Outcome::Ok, hook.purpose.to_owned()));
        };
        let is_absent = self.absent.contains(&hook.id);
        let twin = wanted.raw().filter(|_| !is_absent && !is_permission(&refused));
        if let Some(twin) = twin
            && self.attach(&twin).is_ok()
        {
            let instead = format!("{}, by {}: it was refused", hook.purpose, twin.id);
            return Ok(verdict(Outcome::Fallback, instead));
        }
        if hook.is_needed {
            return Err(refused);
        }
        Ok(if is_absent {
            let why = format!("missing: {}: this kernel has no such hook", hook.purpose);
            verdict(Outcome::Unsupported, why)
        } else {
            verdict(Outcome::Broken, format!("missing: {}: {refused}", hook.purpose))
        })
    }

    /// Has the kernel verify in parallel the two programs that take longest (2,400 instructions each), where
    /// their types are known. A refused one is loaded again in its turn, which gives the reason.
    pub(super) fn load_ahead(&mut self) {
        let Some(btf) = &self.kernel_btf else { return };
        let (mut edge, mut switch) = (None, None);
        for (name, program) in self.ebpf.programs_mut() {
            match (name, program) {
                ("edge", Program::UProbe(program)) => edge = Some(program),
                ("sched_switch", Program::BtfTracePoint(program)) => switch = Some(program),
                _ => {}
            }
        }
        let (Some(edge), Some(switch)) = (edge, switch) else { return };
        thread::scope(|scope| {
            let _ = thread::Builder::new().spawn_scoped(scope, || edge.load());
            let _ = switch.load("sched_switch", btf);
        });
    }

    /// Loads a hook's program unless it is there, and attaches it where its place is a tracepoint.
    pub fn attach(&mut self, hook: &Hook) -> Result<(), LoadError> {
        let failed = |source| LoadError::Program { hook: hook.id, source };
        let program = self.ebpf.program_mut(hook.program).ok_or(LoadError::Missing(hook.program))?;
        let attached = match (hook.place, program, &self.kernel_btf) {
            (Place::BtfTracepoint(name), Program::BtfTracePoint(program), Some(btf)) => {
                let loaded = if program.fd().is_ok() { Ok(()) } else { program.load(name, btf) };
                loaded.and_then(|()| program.attach().map(drop))
            }
            (Place::RawTracepoint(name), Program::RawTracePoint(program), _) => {
                program.load().and_then(|()| program.attach(name).map(drop))
            }
            (Place::Tracepoint(category, name), Program::TracePoint(program), _) => {
                program.load().and_then(|()| program.attach(category, name).map(drop))
            }
            (Place::Called, Program::RawTracePoint(program), _) => program.load(),
            (Place::Iterator, Program::Iter(program), Some(btf)) => program.load("task", btf),
            (Place::Sampler | Place::EachCpu, Program::PerfEvent(program), _) => program.load(),
            (Place::Marker, Program::UProbe(program), _) if program.fd().is_ok() => Ok(()),
            (Place::Marker | Place::Function, Program::UProbe(program), _) => program.load(),
            _ => Err(ProgramError::UnexpectedProgramType),
        };
        attached.map_err(failed)
    }
}

/// Whether another program would be refused for the same reason.
fn is_permission(refused: &LoadError) -> bool {
    let LoadError::Program { source: ProgramError::LoadError { io_error, .. }, .. } = refused else {
        return false;
    };
    io_error.raw_os_error() == Some(libc::EPERM)
}
