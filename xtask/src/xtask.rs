//! What every verb works with: this checkout, the cache, and where progress is shown.

use std::path::PathBuf;

use anyhow::Result;

use crate::{cache::Cache, profile::Profile, progress::Progress, workspace::Workspace};

/// What every verb works with.
pub(crate) struct Xtask {
    pub(crate) workspace: Workspace,
    pub(crate) cache: Cache,
    pub(crate) progress: Progress,
    /// Build profile of the static programs.
    pub(crate) profile: Profile,
}

impl Xtask {
    /// Reads the workspace, and makes the cache.
    pub(crate) fn open() -> Result<Self> {
        let progress = Progress::new();
        let cache = Cache::open(&progress)?;
        Ok(Self { workspace: Workspace::load()?, cache, progress, profile: Profile::Shipped })
    }

    /// The log file of a step.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.workspace.target.join("xtask-logs").join(format!("{name}.log"))
    }
}
