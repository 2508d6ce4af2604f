//! BPF programs for functions of graphics processors' drivers: the source `driver` places probes with them.
//!
//! They are loaded only on request. Libraries and their symbols are handled by the source.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use aya::{
    Ebpf, EbpfLoader,
    programs::{Program, ProgramError},
};
use guestscope_contract::driver::Does;

use super::{
    LoadError,
    options::LoadOptions,
    sandboxed,
    uprobe::{self, Spot},
};
use crate::health::{Outcome, Verdict};

const HOOK: &str = "uprobe/driver";
const RETURNS: &str = "driver_returns";

/// The program at the entry of a function.
const fn program_of(does: Does) -> &'static str {
    match does {
        Does::Wait => "driver_waits",
        Does::CopyIn => "driver_copies_in",
        Does::CopyOut => "driver_copies_out",
        Does::Copy => "driver_copies",
    }
}

/// The programs.
pub struct DriverProbes {
    /// In the order of [`Does::ALL`].
    entries: [OwnedFd; Does::ALL.len()],
    returns: OwnedFd,
    kind: u32,
}

/// Sizes the table of open calls.
pub(super) fn size(loader: &mut EbpfLoader<'_>, options: &LoadOptions) {
    loader.map_max_entries("DRIVER_CALLS", if options.driver { options.slots + 1 } else { 1 });
}

/// The programs, where the hook is in place. If the kernel refuses one, the hook's verdict says so: nothing
/// else depends on them.
pub(super) fn load_if_wanted(ebpf: &mut Ebpf, verdicts: &mut [Verdict]) -> Option<DriverProbes> {
    let is_ours = |verdict: &&mut Verdict| verdict.hook == HOOK && verdict.outcome == Outcome::Ok;
    let verdict = verdicts.iter_mut().find(is_ours)?;
    let probes = load(ebpf).map_err(|error| verdict.fail(&error.to_string())).ok()?;
    match sandboxed::survive(probes.kind, probes.returns.as_fd()) {
        Ok(true) => Some(probes),
        Ok(false) => {
            verdict.fail(
                "on this kernel a return probe ends programs whose system calls are filtered (seccomp)",
            );
            None
        }
        Err(error) => {
            verdict.fail(&format!("whether return probes are safe could not be tried: {error}"));
            None
        }
    }
}

/// Has the kernel verify the programs; one may have been loaded as the hook.
fn load(ebpf: &mut Ebpf) -> Result<DriverProbes, LoadError> {
    let failed = |source| LoadError::Program { hook: HOOK, source };
    let mut loaded = |name: &'static str| -> Result<OwnedFd, LoadError> {
        let Some(Program::UProbe(program)) = ebpf.program_mut(name) else {
            return Err(LoadError::Missing(name));
        };
        if program.fd().is_err() {
            program.load().map_err(failed)?;
        }
        let owned = program.fd().map_err(failed)?.as_fd().try_clone_to_owned();
        owned.map_err(|error| failed(ProgramError::IOError(error)))
    };
    let mut entry = |does| loaded(program_of(does));
    let entries = [entry(Does::Wait)?, entry(Does::CopyIn)?, entry(Does::CopyOut)?, entry(Does::Copy)?];
    let kind = uprobe::kind().map_err(|error| failed(ProgramError::IOError(error)))?;
    Ok(DriverProbes { entries, returns: loaded(RETURNS)?, kind })
}

impl DriverProbes {
    /// Places the probes of a function at this offset of a file: that of its return first, so that every call
    /// whose entry is seen has a visible return. They are removed with their descriptors.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn attach(&self, path: &str, offset: u64, does: Does) -> io::Result<[OwnedFd; 2]> {
        let spot = Spot { offset, ..Spot::default() };
        let returns = Spot { is_return: true, ..spot };
        let returns = uprobe::open(self.kind, path, returns, self.returns.as_fd(), None)?;
        let entry = self.entries[does as usize].as_fd();
        Ok([returns, uprobe::open(self.kind, path, spot, entry, None)?])
    }

    /// Removes probes, all of them together.
    pub fn take_out(probes: Vec<OwnedFd>) {
        uprobe::take_out(probes);
    }
}
