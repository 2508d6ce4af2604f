//! The NVML process, `guestscope-nvml LIBRARY PERIOD_MS`: reads every NVIDIA device through NVML once per
//! period.
//!
//! Prints the lines of `guestscope_nvml::Message`. The agent is static and cannot load a library, and a call
//! into the driver may hang or crash the process: so NVML is used here, in a process whose loss costs only
//! samples. It keeps no state, retries nothing and has no timeout: a call may block forever, and the parent
//! decides how long to wait. A process that hangs inside the kernel survives even SIGKILL until the driver
//! returns, so waiting for its end needs a time limit.
//!
//! Exit codes: 0 if there was no device or no reader (any more), 1 if there was nothing (left) to read, as a
//! `Failed` has reported, 2 for a wrong command line.

mod cage;
mod clock;
mod driver;
mod parent;

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Write},
    iter,
    mem::ManuallyDrop,
    process::ExitCode,
};

use guestscope_nvml::{Failed, Hello, MOST_DEVICES, Message};
use nvml_wrapper::Nvml;

use crate::{clock::Pace, driver::Gpu};

/// An hour: longer periods are surely a mistake of units.
const LONGEST_PERIOD_MS: u64 = 3_600_000;
const NS_PER_MS: u64 = 1_000_000;
/// Most errors that are told in a period: a broken device may have any number.
const MOST_ERRORS: usize = 16;

fn main() -> ExitCode {
    // Before anything that can block: from now on this process cannot outlive its parent.
    let tied = parent::tie();
    let Some(Arguments { library, period_ns }) = Arguments::read(env::args_os().skip(1)) else {
        eprintln!("usage: guestscope-nvml LIBRARY PERIOD_MS");
        return ExitCode::from(2);
    };
    cage::close();
    let mut out = Lines(io::stdout().lock());
    let done = match tied {
        Ok(()) if parent::reads() => run(&library, period_ns, &mut out),
        Ok(()) => return ExitCode::SUCCESS,
        Err(error) => out.failed(&format!("binding to the parent process: {error}")),
    };
    match done {
        Ok(code) => code,
        // The usual end: the agent has closed its side.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guestscope-nvml: writing: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The command line's arguments.
struct Arguments {
    /// Path of libnvidia-ml.so.1, or its bare name for the loader's own search.
    library: OsString,
    period_ns: u64,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let (library, period) = (words.next()?, words.next()?);
        let period_ms = period.to_str()?.parse().ok()?;
        if library.is_empty() || words.next().is_some() || !(1..=LONGEST_PERIOD_MS).contains(&period_ms) {
            return None;
        }
        Some(Self { library, period_ns: period_ms * NS_PER_MS })
    }
}

/// Initialises NVML and reads until no device or no reader is left.
fn run(library: &OsStr, period_ns: u64, out: &mut Lines<impl Write>) -> io::Result<ExitCode> {
    let nvml = match driver::open(library) {
        // Never shut down: that is one more call that can hang, and the end of the process frees everything.
        Ok(nvml) => ManuallyDrop::new(nvml),
        Err(error) => return out.failed(&format!("initialising NVML: {error}")),
    };
    let count = match nvml.device_count() {
        Ok(count) => count,
        Err(error) => return out.failed(&format!("counting devices: {error}")),
    };
    let mut gpus = hello(&nvml, count, out)?;
    if count == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let watched = driver::errors(&nvml, &gpus);
    let mut pace = Pace::starting_at(clock::now_ns(), period_ns);
    loop {
        sample(&mut gpus, out)?;
        for error in
            watched.iter().flat_map(|watched| iter::from_fn(|| driver::next_error(watched))).take(MOST_ERRORS)
        {
            out.say(&Message::Error(error))?;
        }
        if gpus.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        if !parent::reads_until(pace.next_after(clock::now_ns())) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Sends the devices, then the failures; returns the devices that can be read.
fn hello<'nvml>(nvml: &'nvml Nvml, count: u32, out: &mut Lines<impl Write>) -> io::Result<Vec<Gpu<'nvml>>> {
    let (mut gpus, mut devices, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..count.min(MOST_DEVICES) {
        // The count includes devices that this process may not touch, such as those of other containers.
        match Gpu::open(nvml, index) {
            Ok((gpu, device)) => {
                gpus.push(gpu);
                devices.push(device);
            }
            Err(error) => failures.push(format!("device {index}: {error}")),
        }
    }
    if count > MOST_DEVICES {
        failures.push(format!("devices: only the first {MOST_DEVICES} of {count} are read"));
    }
    let (driver, nvml) = driver::versions(nvml);
    out.say(&Message::Hello(Hello { driver, nvml, devices }))?;
    for failure in failures {
        out.failed(&failure)?;
    }
    Ok(gpus)
}

/// Reads each device once. A lost device is reported once and then left out; the others go on.
fn sample(gpus: &mut Vec<Gpu<'_>>, out: &mut Lines<impl Write>) -> io::Result<()> {
    let mut left = Vec::with_capacity(gpus.len());
    for gpu in gpus.drain(..) {
        match gpu.sample().and_then(|sample| Ok((sample, gpu.processes()?, gpu.memory()?))) {
            Ok((sample, processes, memory)) => {
                out.say(&Message::Sample(sample))?;
                processes.map_or(Ok(()), |processes| out.say(&Message::Processes(processes)))?;
                memory.map_or(Ok(()), |memory| out.say(&Message::Memory(memory)))?;
                gpu.is_read();
                left.push(gpu);
            }
            Err(error) => {
                out.failed(&format!("device {}: {error}", gpu.index()))?;
            }
        }
    }
    *gpus = left;
    Ok(())
}

/// The output: each message is one line, written at once.
struct Lines<W>(W);

impl<W: Write> Lines<W> {
    fn say(&mut self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.0.write_all(&line)?;
        self.0.flush()
    }

    /// Reports a failed operation; the exit code is for a caller that cannot go on without it.
    fn failed(&mut self, what: &str) -> io::Result<ExitCode> {
        self.say(&Message::Failed(Failed { what: driver::cleaned(what) }))?;
        Ok(ExitCode::FAILURE)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::Arguments;

    fn read(words: &[&str]) -> Option<(OsString, u64)> {
        let read = Arguments::read(words.iter().map(OsString::from))?;
        Some((read.library, read.period_ns))
    }

    #[test]
    fn arguments_are_a_library_and_a_period() {
        assert_eq!(read(&["/lib/l.so", "250"]), Some(("/lib/l.so".into(), 250_000_000)));
        assert_eq!(read(&["l.so.1", "3600000"]), Some(("l.so.1".into(), 3_600_000_000_000)));
    }

    #[test]
    fn anything_else_is_refused() {
        let wrong: [&[&str]; 8] = [
            &[],
            &["l.so"],
            &["l.so", "0"],
            &["l.so", "-1"],
            &["l.so", "3600001"],
            &["l.so", "1s"],
            &["", "100"],
            &["l.so", "100", "more"],
        ];
        for words in wrong {
            assert_eq!(read(words), None, "{words:?}");
        }
    }
}
