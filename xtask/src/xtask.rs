//! What every verb works with: this checkout, the cache, and where progress is shown.

use std::path::PathBuf;

use anyhow::Result;

use crate::{cache::Cache, progress::Progress, workspace::Workspace};

/// What every verb works with.
pub(crate) struct Xtask {
    pub(crate) workspace: Workspace,
    pub(crate) cache: Cache,
    pub(crate) progress: Progress,
}

impl Xtask {
    /// Reads the workspace, and makes the cache.
    pub(crate) fn open() -> Result<Self> {
        let progress = Progress::new();
        Ok(Self { workspace: Workspace::load()?, cache: Cache::open(&progress)?, progress })
    }

    /// The log file of a step.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.workspace.target.join("xtask-logs").join(format!("{name}.log"))
    }
}
