//! Helpers of `cargo xtask bench soak`: a busy service, the collector that counts its spans, and hostile
//! neighbours.
//!
//! `soak program SECONDS REQUESTS_PER_S NOTE [FAULTS]` makes requests of five phases, one of which takes
//! longer for a reason that it appends to the file FAULTS; `soak collector` says where it listens and obeys
//! `away`, `back` and `count`, a line each; `soak hostile NOTE` disturbs until its standard input ends. NOTE
//! is a file in which the program says where the agent listens.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

mod collector;
mod fault;
mod hostile;

use std::{
    fs, io,
    path::Path,
    process, thread,
    time::{Duration, Instant},
};

use self::{
    collector::{Collector, Counts},
    fault::Fault,
};

/// Time between two bursts.
const TICK: Duration = Duration::from_millis(1);
/// Inside a request: five spans.
const PHASES: [&str; 4] = ["parse", "look up", "compute", "answer"];

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["program", seconds, rate, note] => program(seconds.parse()?, rate.parse()?, Path::new(note), None),
        ["program", seconds, rate, note, faults] => {
            program(seconds.parse()?, rate.parse()?, Path::new(note), Some(Path::new(faults)))
        }
        ["collector"] => collect(),
        ["hostile", note] => hostile::disturb(Path::new(note)),
        _ => anyhow::bail!(
            "usage: soak program SECONDS REQUESTS_PER_S NOTE [FAULTS] | collector | hostile NOTE"
        ),
    }
}

/// Prints how many requests there were, as a line of JSON.
fn program(seconds: u64, rate: u64, note: &Path, mut faults: Option<&Path>) -> anyhow::Result<()> {
    fs::write(note, std::env::var("GUESTSCOPE_NOTIFY").unwrap_or_default())?;
    let (start, lasts) = (Instant::now(), Duration::from_secs(seconds));
    let mut done = 0;
    loop {
        let passed = start.elapsed().min(lasts);
        let due = (passed.as_nanos() * u128::from(rate) / 1_000_000_000) as u64;
        while done < due {
            done += 1;
            let fault = faults
                .take_if(|_| passed >= lasts / 6 * (1 + process::id() % 5))
                .map(|file| (Fault::any(), file));
            request(done, fault)?;
        }
        if passed == lasts {
            break;
        }
        thread::sleep(TICK);
    }
    println!("{{\"requests\":{done},\"spans\":{}}}", done * (1 + PHASES.len() as u64));
    Ok(())
}

fn request(number: u64, fault: Option<(Fault, &Path)>) -> io::Result<()> {
    if let Some((fault, file)) = fault {
        fault.note(file)?;
    }
    let _request = guestscope_marker::request("request", number);
    for name in PHASES {
        let _phase = guestscope_marker::phase(name);
        std::hint::black_box((0..200).sum::<u64>());
        if let Some((fault, _)) = fault.filter(|_| name == "compute") {
            fault.strike()?;
        }
    }
    Ok(())
}

fn collect() -> anyhow::Result<()> {
    let mut collector = Collector::start()?;
    println!("{}", collector.endpoint());
    for line in io::stdin().lines() {
        match line?.as_str() {
            "away" => collector.away(),
            "back" => collector.back()?,
            _ => {}
        }
        let Counts { first, again, kernel, .. } = collector.counts();
        println!("{{\"first\":{first},\"again\":{again},\"kernel\":{kernel}}}");
    }
    Ok(())
}
