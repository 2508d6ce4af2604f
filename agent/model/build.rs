//! Makes the table of advice, as JSON in OUT_DIR: a reader of TOML in the agent would be larger than the table.

use std::{env, fs, path::PathBuf};

use anyhow::Context as _;

fn main() -> anyhow::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    // Not that of when this script was built: it may be run for a copy of the workspace.
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("CARGO_MANIFEST_DIR is not set")?);
    let advice = manifest.join("src/analyze/advice.toml");
    println!("cargo:rerun-if-changed={}", advice.display());
    let table: toml::Table = fs::read_to_string(&advice)?.parse().context("the table of advice")?;
    Ok(fs::write(out.join("advice.json"), serde_json::to_string(&table)?)?)
}
