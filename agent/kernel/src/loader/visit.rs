//! The agent's side of the task iterator: sets the wanted processes, and reads the findings.
//!
//! Yields [`Visit`]s in portions small enough that the records of adopted threads fit into their ring before
//! the next portion.

use std::{
    fs::File,
    io::{self, Read as _},
};

use aya::{
    maps::{HashMap, MapError},
    programs::{Iter, ProgramError},
};
use guestscope_contract::visit::{TARGETS_MOST, Visit};

use super::{LoadError, loaded::Loaded};
use crate::{failure, health::Outcome, probes::attach};
use guestscope_base::Hint;

/// Bytes of a portion: 512 visits, whose records are 180 kB of a ring of 1 MiB.
const PORTION: usize = 4096;

/// Why no task could be visited.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// The iterator is not there.
    #[error("attaching needs the task iterator: {0}")]
    Refused(String),
    /// The kernel did not start it.
    #[error("the task iterator cannot be started: {0}")]
    Start(String),
    /// Reading it failed.
    #[error("reading the task iterator: {0}")]
    Read(#[from] io::Error),
    /// The object is not as this agent expects.
    #[error(transparent)]
    Object(#[from] LoadError),
    /// The kernel side says of a task what this agent does not know.
    #[error("the task iterator returned an unknown value")]
    Unknown,
}

impl Hint for VisitError {
    fn hint(&self) -> Option<String> {
        match self {
            VisitError::Refused(_) | VisitError::Start(_) => Some(
                "task iterators need Linux 5.8 and BTF of the kernel's own; `guestscope run -- CMD` does \
                 without them, and `guestscope doctor` tells what else this kernel allows"
                    .to_owned(),
            ),
            VisitError::Object(error) => error.hint(),
            VisitError::Read(_) | VisitError::Unknown => None,
        }
    }
}

/// One walk through all tasks.
pub struct Visits {
    file: File,
    bytes: Vec<u8>,
}

impl Visits {
    /// The next visits; none at the end. A portion may be empty before the end.
    pub fn portion(&mut self) -> Result<Option<Vec<Visit>>, VisitError> {
        self.bytes.resize(PORTION, 0);
        let read = match self.file.read(&mut self.bytes) {
            Ok(0) => return Ok(None),
            Ok(read) => read,
            // EAGAIN: a million tasks without any output, after which the kernel pauses.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error.into()),
        };
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes);
        let (visits, _) = self.bytes[..read].as_chunks::<{ size_of::<Visit>() }>();
        let visits =
            visits.iter().map(|visit| Visit { process: word(&visit[..4]), found: word(&visit[4..]) });
        Ok(Some(visits.collect()))
    }
}

impl Loaded {
    /// Whether the iterator is there; the error is the reason.
    pub fn can_visit(&self) -> Result<(), VisitError> {
        let is_it = |hook: &str| attach::HOOKS.iter().any(|known| known.id == hook);
        match self.verdicts.iter().find(|verdict| is_it(&verdict.hook)) {
            Some(verdict) if verdict.outcome != Outcome::Ok => {
                Err(VisitError::Refused(verdict.consequence.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Adopts threads of this process from the next visit on. False if the table is full.
    pub fn ask_for(&mut self, process: u32) -> Result<bool, VisitError> {
        let mut targets = self.targets()?;
        match targets.insert(process, 1, 0) {
            Ok(()) => Ok(true),
            Err(_) if targets.keys().count() >= TARGETS_MOST as usize => Ok(false),
            Err(error) => Err(LoadError::from(error).into()),
        }
    }

    /// The process is gone: its number may soon be another's.
    pub fn ask_no_more(&mut self, process: u32) -> Result<(), VisitError> {
        match self.targets()?.remove(&process) {
            Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
            Err(error) => Err(LoadError::from(error).into()),
        }
    }

    fn targets(&mut self) -> Result<HashMap<&mut aya::maps::MapData, u32, u8>, LoadError> {
        let map = self.ebpf.map_mut("TARGETS").ok_or(LoadError::Missing("TARGETS"))?;
        Ok(HashMap::try_from(map)?)
    }

    /// Begins a walk through all tasks of this PID namespace and those below it. Requested threads without a
    /// ledger get one on the way.
    pub fn visit(&mut self) -> Result<Visits, VisitError> {
        let program = self.ebpf.program_mut("attach").ok_or(LoadError::Missing("attach"))?;
        let started = |program: &mut Iter| -> Result<File, ProgramError> {
            let link = program.attach()?;
            let link = program.take_link(link)?;
            link.into_file().map_err(|error| ProgramError::IOError(io::Error::other(error)))
        };
        let program: &mut Iter =
            program.try_into().map_err(|error: ProgramError| VisitError::Start(failure::chain(&error)))?;
        let file = started(program).map_err(|error| VisitError::Start(failure::chain(&error)))?;
        Ok(Visits { file, bytes: Vec::new() })
    }
}
