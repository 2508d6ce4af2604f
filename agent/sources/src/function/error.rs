//! Why calls of a function are no phases. Each text goes after a file's name.

use std::io;

use super::{code::CodeError, symbols::SymbolError, table::TableError, usdt::ProbesError};
use crate::loader::functions::ProbeError;

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
