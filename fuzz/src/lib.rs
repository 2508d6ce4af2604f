//! What fuzz targets share: a folder to put hostile files into, and the rule for panics.
//!
//! One file per decoder in `fuzz_targets/`, seeds in `seeds/`. `cargo xtask check` gives each target a fixed
//! number of inputs; `cargo xtask fuzz TARGET` goes on for minutes.

// Not with the agent's own tests, which need what its crates have.
#[cfg(not(test))]
#[allow(dead_code, reason = "as much of the agent as reads the files of programs")]
pub mod program;

use std::{
    panic,
    path::{Path, PathBuf},
    sync::OnceLock,
};

// Where the agent's own sources look for them.
#[cfg(not(test))]
use guestscope_base::{guarded, untrusted};

#[cfg(not(test))]
#[allow(dead_code, unreachable_pub, unused_imports, unused_macros, reason = "as of `program`")]
#[path = "../../agent/kernel/src/probes"]
mod probes {
    pub(crate) mod hook;
    pub(crate) mod phase;
}

/// Stands for the loader of BPF programs: what places of probes are described by.
#[cfg(not(test))]
#[allow(dead_code, reason = "as the loader has them")]
mod loader {
    pub(crate) mod functions {
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Spot {
            pub(crate) offset: u64,
            pub(crate) semaphore: u32,
            pub(crate) event: u64,
        }

        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Carrier {
            Thread,
            Place,
            Goroutine,
            Scheduler,
        }

        #[derive(Debug, thiserror::Error)]
        #[error("refused")]
        pub(crate) struct ProbeError;
    }
}

/// libFuzzer's hook ends the process at any panic. Readers of folders catch those of the library that decodes
/// columns; a panic that nobody catches still ends the process. To be called before each input.
pub fn let_panics_be_caught() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        panic::set_hook(Box::new(|_| {}));
        // What is caught says nothing; what is not is reported by libFuzzer, and shows itself when the input
        // is given again with this variable.
        if std::env::var_os("GUESTSCOPE_FUZZ_PANICS").is_some() {
            drop(panic::take_hook());
        }
    });
}

/// A folder of this process's own, in $TMPDIR.
///
/// # Panics
/// None can be made.
#[must_use]
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder can be made").keep())
}
