//! Phases and context switches at given rates, side by side: one of the programs of `cargo xtask bench`.
//!
//! `storm SECONDS PHASES_PER_S SWITCHES_PER_S` prints how many of each there were, as one line of JSON.
//! Phases come in a burst every millisecond; the switches are those of two threads that hand a byte to and
//! fro.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::{
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;

/// Time between two bursts.
const TICK: Duration = Duration::from_millis(1);

fn main() -> anyhow::Result<()> {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>().unwrap_or_default();
    let [seconds, phases_per_s, switches_per_s] = numbers[..] else {
        anyhow::bail!("usage: storm SECONDS PHASES_PER_S SWITCHES_PER_S");
    };
    let lasts = Duration::from_secs(seconds);
    let (ask, asked) = io::pipe()?;
    let (answer, answered) = io::pipe()?;
    let echo = thread::spawn(move || echo(ask, answered));
    // A round trip is two switches.
    let players = thread::spawn(move || play(lasts, switches_per_s / 2, asked, answer));
    let phases = paced(lasts, phases_per_s, || {
        drop(guestscope_marker::phase("tick"));
        Ok(())
    })?;
    players.join().ok().context("the player panicked")??;
    echo.join().ok().context("the echo panicked")??;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a valid structure, which zeros are as well.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    println!("{{\"phases\":{phases},\"switches\":{}}}", usage.ru_nvcsw + usage.ru_nivcsw);
    Ok(())
}

/// Calls `act` this many times a second, in bursts that catch up with the clock. Returns the number of calls.
fn paced(lasts: Duration, per_s: u64, mut act: impl FnMut() -> io::Result<()>) -> io::Result<u64> {
    let (start, mut done) = (Instant::now(), 0);
    loop {
        let passed = start.elapsed().min(lasts);
        let due = (passed.as_nanos() * u128::from(per_s) / 1_000_000_000) as u64;
        while done < due {
            act()?;
            done += 1;
        }
        if passed == lasts {
            return Ok(done);
        }
        thread::sleep(TICK);
    }
}

/// Sends a byte and waits for it. The pipe is closed at the end, which ends the echo.
fn play(lasts: Duration, trips_per_s: u64, mut out: PipeWriter, mut back: PipeReader) -> io::Result<u64> {
    paced(lasts, trips_per_s, || {
        out.write_all(b"x")?;
        back.read_exact(&mut [0])
    })
}

fn echo(mut from: PipeReader, mut to: PipeWriter) -> io::Result<()> {
    let mut byte = [0];
    while from.read(&mut byte)? > 0 {
        to.write_all(&byte)?;
    }
    Ok(())
}
