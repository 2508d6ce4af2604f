//! What fuzz targets share: a folder to put hostile files into, and the rule for panics.
//!
//! One file per decoder in `fuzz_targets/`, seeds in `seeds/`. `cargo xtask check` gives each target a fixed
//! number of inputs; `cargo xtask fuzz TARGET` goes on for minutes.

use std::{
    panic,
    path::{Path, PathBuf},
    sync::OnceLock,
};

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
