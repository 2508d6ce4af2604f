//! Why calls of a function are no phases. Each text goes after a file's name.

use std::io;

use super::{
    code::CodeError,
    found::{MOST_FUNCTIONS, SymbolError},
    table::TableError,
};
use crate::{loader::functions::ProbeError, untrusted::Untrusted};

/// Why a function, or what lies between two probes, is not probed in a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum FunctionError {
    #[error("cannot be opened: {0}")]
    Open(#[from] io::Error),
    #[error(transparent)]
    Symbol(#[from] SymbolError),
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(transparent)]
    Code(#[from] CodeError),
    #[error(transparent)]
    Probes(#[from] ProbesError),
    /// The argument is on the stack.
    #[error("has no argument {0} in a register")]
    NotInRegister(u8),
    #[error("cannot be probed: no more files may be open")]
    Descriptors,
    #[error("cannot be probed: {0}")]
    Refused(#[from] ProbeError),
}

/// Why there is no phase.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum ProbesError {
    #[error("cannot be read: {0}")]
    Read(io::ErrorKind),
    #[error("is no ELF file for this machine")]
    NotElf,
    #[error("has no USDT probes")]
    None,
    #[error("has more notes than are read")]
    TooLarge,
    #[error("has notes that are damaged")]
    Damaged,
    #[error("has no USDT probe {0}:{1}{2}")]
    NotThere(String, String, Untrusted),
    #[error("has no end that goes with the USDT probe {0}: name it as {0}/END")]
    NoEnd(String),
    #[error("has the USDT probe {0} at more than {MOST_FUNCTIONS} places")]
    TooMany(String),
    #[error("has no argument {0} of that USDT probe that can be read")]
    NoArgument(u8),
}
