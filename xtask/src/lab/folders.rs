//! Run folders: where they are, and under which names.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// Folders directly in a folder.
pub(super) fn folders(output: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("folder: {}", output.display());
    let entries = fs::read_dir(output).with_context(what)?;
    entries.map(|entry| entry.map(|entry| entry.path()).with_context(what)).collect()
}

/// Moves it under its own name, or with a number appended: two guests whose clocks start alike give their
/// folders the same name.
pub(super) fn move_to(made: &Path, output: &Path) -> Result<PathBuf> {
    let what = || format!("moving {} to {}", made.display(), output.display());
    fs::create_dir_all(output).with_context(what)?;
    let name = made.file_name().context("a folder has a name")?.to_string_lossy().into_owned();
    let numbered = (2..).map(|number| output.join(format!("{name}-{number}")));
    let mut names = std::iter::once(output.join(&name)).chain(numbered);
    let to = names.find(|path| !path.exists()).context("a free name")?;
    fs::rename(made, &to).with_context(what)?;
    Ok(to)
}
