//! Why a clock of a thread or a CPU could not be started or stopped.

use std::io;

use aya::{maps::MapError, programs::ProgramError};

use crate::failure;

/// Why clocks are not as they should be; for people, in the words of the kernel.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// The object lacks something: a build error.
    #[error("the BPF object has no `{0}`")]
    Missing(&'static str),
    /// The list of online CPUs cannot be read.
    #[error("{what}: {source}")]
    Cpus {
        /// What was read.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// The kernel refused it.
    #[error("{}", failure::chain(.0))]
    Program(#[from] ProgramError),
    /// The table of pulses is not as this agent expects.
    #[error("{}", failure::chain(.0))]
    Map(#[from] MapError),
}

impl ClockError {
    /// The error for aya's list of online CPUs.
    pub(super) fn of_cpus((what, source): (&str, io::Error)) -> Self {
        Self::Cpus { what: what.to_owned(), source }
    }

    /// The kernel's error number, where it has said one.
    pub(super) fn number(&self) -> Option<i32> {
        failure::system_error(self)?.raw_os_error()
    }
}
