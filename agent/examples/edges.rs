//! Fires edges as fast as it can and writes the ns per edge to a file: one of the programs of `cargo xtask
//! bench`.
//!
//! `edges COUNT FILE [THREADS]`: beside THREADS further threads of the process, which sleep.

use std::{sync::mpsc, thread, time::Instant};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: edges COUNT FILE [THREADS]";
    let count: u64 = arguments.next().ok_or_else(|| anyhow::anyhow!(usage))?.parse()?;
    let file = arguments.next().ok_or_else(|| anyhow::anyhow!(usage))?;
    let threads: usize = arguments.next().map_or(Ok(0), |word| word.parse())?;
    // They end when their sender is dropped.
    let (senders, sleepers): (Vec<mpsc::Sender<()>>, Vec<_>) = (0..threads)
        .map(|_| {
            let (sender, receiver) = mpsc::channel();
            (sender, thread::spawn(move || receiver.recv().is_ok()))
        })
        .unzip();
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
    drop(senders);
    for sleeper in sleepers {
        sleeper.join().map_err(|_| anyhow::anyhow!("a sleeper panicked"))?;
    }
    Ok(())
}
