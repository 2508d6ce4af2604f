//! Misspelled words: typos, with `typos.toml`, over everything that is not ignored by git.
//!
//! Yields the item of `check`. The program is a pinned wheel in the cache.

use std::process::Command;

use crate::{
    Xtask,
    item::{self, Item, Verdict},
    python::Python,
};

const NAME: &str = "typos";

/// Runs it.
pub(crate) fn item(xtask: &Xtask) -> Item {
    let python = match Python::with_lints(xtask) {
        Ok(python) => python,
        Err(error) => {
            return Item { name: NAME, verdict: Verdict::NotRun(format!("  not run: {error:#}")) };
        }
    };
    let mut typos = Command::new(python.program_of(NAME));
    item::item(xtask, NAME, typos.args(["--format", "brief", "."]).current_dir(&xtask.workspace.root))
}
