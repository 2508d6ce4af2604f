//! BTF from a supplied file, for a kernel that has none: is it BTF, and is it this kernel's?
//!
//! BTF names no kernel, so the second question is answered by trying: the program `trial` reads the agent's
//! own task at the file's offsets, where the right values are known. A file that passes may still be wrong
//! where nothing can be tried, in a kernel that was built from the same source with other options.

use std::{
    fs::File,
    io::Read as _,
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::net::UnixDatagram,
    },
    path::Path,
};

use aya::{Ebpf, programs::Program};
use guestscope_contract::fields::{TRIAL_CLOCK, TRIAL_CPU, TRIAL_FILES, TRIAL_IDENTITY, TRIAL_REGISTERS};

use super::{
    LoadError,
    error::{MOST_BYTES, SuppliedError},
};
use crate::facts::{btf::Btf, on_self::run_on_self};

/// The trial's name in errors.
const TRIAL: &str = "raw_tp/trial";

/// The file, parsed.
pub(super) fn read(path: &Path) -> Result<Btf, SuppliedError> {
    let mut bytes = Vec::new();
    // Reading a pipe would wait for its writer.
    if !path.metadata()?.is_file() {
        return Err(SuppliedError::Kind);
    }
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(SuppliedError::Large);
    }
    Ok(Btf::parse(bytes)?)
}

/// Runs the trial on the agent itself with the file's offsets.
pub(super) fn try_out(ebpf: &mut Ebpf, path: &Path) -> Result<(), LoadError> {
    let program = ebpf.program_mut("trial").ok_or(LoadError::Missing("trial"))?;
    let Program::RawTracePoint(program) = program else { return Err(LoadError::Missing("trial")) };
    let failed = |source| LoadError::Program { hook: TRIAL, source };
    program.load().map_err(failed)?;
    let descriptor = program.fd().map_err(failed)?.as_fd();
    let found = (|| {
        let (socket, file) = (UnixDatagram::unbound()?, File::open("/proc/self/status")?);
        run_on_self(descriptor, &[socket.as_raw_fd() as u64, file.as_raw_fd() as u64])
    })();
    let wrong = found.map_err(|error| SuppliedError::Read(error).at(path))?;
    let signs = [
        (TRIAL_IDENTITY, "number and name"),
        (TRIAL_REGISTERS, "saved registers"),
        (TRIAL_FILES, "open files"),
        (TRIAL_CPU, "CPU"),
        (TRIAL_CLOCK, "run queue's clock"),
    ];
    let signs: Vec<&str> = signs.iter().filter(|(bit, _)| wrong & bit != 0).map(|(_, sign)| *sign).collect();
    if signs.is_empty() {
        return Ok(());
    }
    let what = format!("the agent's own {} are not where it says", signs.join(", "));
    Err(SuppliedError::Foreign(what).at(path))
}
