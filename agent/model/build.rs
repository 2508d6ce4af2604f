//! Makes the tables of advice and of libraries that busy-wait, as JSON in OUT_DIR.

use anyhow::Context as _;
use guestscope_carry::{Places, table};

fn main() -> anyhow::Result<()> {
    let Places { manifest, out } = Places::of_this_script()?;
    for name in ["advice", "spinners"] {
        let (from, to) =
            (manifest.join(format!("src/analyze/{name}.toml")), out.join(format!("{name}.json")));
        table(&from, &to).with_context(|| format!("the table {name}.toml"))?;
    }
    Ok(())
}
