//! Fires edges as fast as it can and writes the ns per edge to a file: one of the programs of `cargo xtask bench`.

use std::time::Instant;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: edges COUNT FILE";
    let count: u64 = arguments.next().ok_or_else(|| anyhow::anyhow!(usage))?.parse()?;
    let file = arguments.next().ok_or_else(|| anyhow::anyhow!(usage))?;
    // The first hits of a probe are slower: the kernel rewrites the instruction then.
    for _ in 0..1000 {
        drop(guestscope_marker::phase("edge"));
    }
    let start = Instant::now();
    for _ in 0..count / 2 {
        drop(guestscope_marker::phase("edge"));
    }
    let ns = start.elapsed().as_nanos() as f64 / count as f64;
    std::fs::write(file, format!("{ns:.2}\n"))?;
    Ok(())
}
