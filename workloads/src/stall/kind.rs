//! The description of a kind of fault, and the settings that it gets.

use std::{ops::RangeInclusive, path::PathBuf};

use clap::ValueEnum;

use super::{error::StallError, machine::work::Work, size::Unit};

/// One kind of fault, as a row of [`KINDS`](super::kinds::KINDS).
#[derive(Debug)]
pub struct Kind {
    /// As on the command line and in the log.
    pub name: &'static str,
    pub what: &'static str,
    /// Requirements on the machine and its operator, for people.
    pub needs: &'static str,
    /// Unit of its size, with bounds and default.
    pub unit: Unit,
    pub range: RangeInclusive<u64>,
    pub default: u64,
    /// Whether the requests run on one CPU, and only there.
    pub bound: bool,
    pub make: fn(&Setup) -> Result<Box<dyn Fault>, StallError>,
}

/// Settings that kinds get before the first request.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The CPUs that this process may use, at least one.
    pub cpus: Vec<usize>,
    /// The CPU on which bound requests begin.
    pub cpu: usize,
    pub seed: u64,
    /// The work of one request.
    pub work: Work,
    /// The largest size of this fault that the schedule can ask for.
    pub largest: u64,
    /// Folder for files.
    pub folder: PathBuf,
    pub wait: Wait,
    pub peer: Peer,
}

/// How a thread waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// On the CPU, asking again and again
    Spin,
    /// Off the CPU, until it is woken
    Sleep,
}

/// What lies between a request and its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// A pair of Unix sockets
    Socket,
    /// Two pipes
    Pipe,
}

/// What a fault did, by the injector's own measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injected {
    pub ns: u64,
    pub count: Option<u64>,
}

/// A fault that is ready to be injected. All calls come from the thread of the requests; dropping it undoes
/// everything.
pub trait Fault {
    /// Once, before the first request and after all faults were made.
    fn begin(&mut self) -> Result<(), StallError> {
        Ok(())
    }

    /// Before a request that will be hit, outside of it.
    fn arm(&mut self, _size: u64) -> Result<(), StallError> {
        Ok(())
    }

    /// In the middle of the phase `work` of a request that is hit.
    fn inject(&mut self, size: u64) -> Result<Injected, StallError>;

    /// At the same place of a request that is spared.
    fn spare(&mut self) -> Result<(), StallError> {
        Ok(())
    }
}
