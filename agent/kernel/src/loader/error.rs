//! Why there is no kernel side, and what to do then.

use std::{
    io,
    path::{Path, PathBuf},
};

use aya::programs::ProgramError;
use guestscope_base::Hint;

use crate::{
    descriptors::TooFew,
    facts::{btf::BtfError, formats::FormatError},
    failure,
    untrusted::Shown as _,
};

/// Ten times a distribution's kernel with all its modules. A device file would never end.
pub(super) const MOST_BYTES: u64 = 256 << 20;

/// Why nothing can be observed on this kernel.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// This process may not load BPF programs.
    #[error("observing needs {0}")]
    Permission(&'static str),
    /// Too few files may be open at once.
    #[error(transparent)]
    Descriptors(#[from] TooFew),
    /// No usable BTF.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// No BTF, and no usable formats of tracepoints.
    #[error("the kernel has no BTF, and {0}")]
    Formats(#[from] FormatError),
    /// The supplied BTF is not usable.
    #[error("cannot use the BTF file `{}`: {source}", path.shown())]
    Supplied {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: SuppliedError,
    },
    /// The kernel refused the maps or the object.
    #[error("the kernel refused the BPF object: {}", failure::chain(.0))]
    Object(#[from] aya::EbpfError),
    /// The kernel refused a program that everything depends on.
    #[error("the kernel refused `{hook}`: {}", failure::chain(.source))]
    Program {
        /// Name of the hook.
        hook: &'static str,
        /// The cause.
        source: ProgramError,
    },
    /// A map is not as this agent expects.
    #[error("a map of the BPF object is not usable: {}", failure::chain(.0))]
    Map(#[from] aya::maps::MapError),
    /// The carried object cannot be unpacked.
    #[error("this binary is damaged: {0}")]
    Damaged(io::Error),
    /// The object lacks something: a build error.
    #[error("the BPF object has no `{0}`")]
    Missing(&'static str),
}

impl Hint for LoadError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            LoadError::Descriptors(error) => return error.hint(),
            LoadError::Permission(_) => "run it as root: sudo guestscope run -- CMD",
            LoadError::Formats(FormatError::NoTracefs) => {
                "mount it (`mount -t tracefs tracefs /sys/kernel/tracing`) for three accounts, or give the \
                 kernel's BTF with `--btf FILE` for all"
            }
            LoadError::Formats(_) | LoadError::Btf(BtfError::Read { .. }) => {
                "this kernel was built without CONFIG_DEBUG_INFO_BTF: give its BTF with `--btf FILE`, as \
                 `pahole --btf_encode_detached FILE vmlinux` or \
                 https://github.com/aquasecurity/btfhub-archive has it"
            }
            LoadError::Supplied { .. } => {
                "`--btf` takes raw BTF of exactly the running kernel (`uname -r`), as `pahole \
                 --btf_encode_detached FILE vmlinux` writes it and \
                 https://github.com/aquasecurity/btfhub-archive has it"
            }
            LoadError::Btf(BtfError::Damaged(_) | BtfError::NoMember(_)) => {
                "this kernel is not like those that were tried; please report it with the output of \
                 `guestscope doctor`"
            }
            LoadError::Object(_) | LoadError::Program { .. } | LoadError::Map(_) => {
                "`guestscope doctor` tells hook by hook what this kernel allows (lockdown, a container's \
                 seccomp filter or missing capabilities refuse BPF)"
            }
            LoadError::Missing(_) | LoadError::Damaged(_) => return None,
        };
        Some(hint.to_owned())
    }
}

/// Why a supplied file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SuppliedError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// A folder, a pipe, a device.
    #[error("not an ordinary file")]
    Kind,
    /// More than any kernel's.
    #[error("larger than {} MiB", MOST_BYTES >> 20)]
    Large,
    /// It contains no BTF, or BTF without what the programs need.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// The file does not fit this kernel.
    #[error("it is of another kernel: {0}")]
    Foreign(String),
}

impl SuppliedError {
    pub(super) fn at(self, path: &Path) -> LoadError {
        LoadError::Supplied { path: path.to_owned(), source: self }
    }
}
