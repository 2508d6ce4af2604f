//! A function that was found by its symbol, and why none was.

use crate::untrusted::Untrusted;

/// Most functions of one file that a pattern may match.
pub(super) const MOST_FUNCTIONS: usize = 64;

/// A function that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Name as people write it.
    pub(super) name: Untrusted,
    /// Address before relocation.
    pub(super) address: u64,
    /// Offset in the file.
    pub(super) offset: u64,
    /// Length, bytes; 0 if the file does not give it.
    pub(super) bytes: u64,
    /// Offset in the file and length of its cold part, which lies elsewhere.
    pub(super) cold: Option<(u64, u64)>,
    /// Whether it is one of Go's, whose stacks move.
    pub(super) is_go: bool,
}

/// Why a function cannot be found.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum SymbolError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Read(std::io::ErrorKind),
    /// The file is for another machine.
    #[error("is no ELF file for this machine")]
    NotElf,
    /// The file has no table of symbols.
    #[error("has no symbols: it is stripped")]
    Stripped,
    /// The table exceeds the limits.
    #[error("has a table of symbols larger than any that is read")]
    TooLarge,
    /// The file has no such function.
    #[error("has no function of that name{}", nearest(.0))]
    NotThere(Vec<Untrusted>),
    /// The program's goroutines cannot be followed.
    #[error("was built by a Go before 1.18, whose goroutines cannot be followed")]
    OldGo,
    /// The program does not record which version of Go built it.
    #[error("does not say by which Go it was built (`.go.buildinfo`), so its goroutines cannot be followed")]
    UnknownGo,
    /// A part of Go's scheduler is missing.
    #[error("has no `{0}`, by which its goroutines would be followed")]
    NoScheduler(&'static str),
    /// The pattern matches nearly anything.
    #[error("has {0} functions of that name, and no more than {MOST_FUNCTIONS} are probed")]
    TooMany(usize),
    /// A function chosen at load time has no code of its own.
    #[error("chooses what that name means as it is loaded (ifunc): name the function that it chooses")]
    Chosen,
}

pub(super) fn nearest(names: &[Untrusted]) -> String {
    let names: Vec<String> = names.iter().map(Untrusted::to_string).collect();
    if names.is_empty() { String::new() } else { format!("; nearest: {}", names.join(", ")) }
}
