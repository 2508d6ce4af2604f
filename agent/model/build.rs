//! Makes the table of advice, as JSON in OUT_DIR.

use anyhow::Context as _;
use guestscope_carry::{Places, table};

fn main() -> anyhow::Result<()> {
    let Places { manifest, out } = Places::of_this_script()?;
    table(&manifest.join("src/analyze/advice.toml"), &out.join("advice.json")).context("the table of advice")
}
