//! `pause`: the whole machine is stopped for SIZE while the request computes. Charged to `cpu`, its account
//! meanwhile.
//!
//! A program cannot stop its own machine. It asks a stopper outside, over the line that GUESTSCOPE_STOPPER
//! names (a serial port of the guest): `stop NS` goes out, `stopped NS` comes back when the machine runs
//! again. `ns` is the stopper's measurement by its own clock, none of this machine. The request computes from
//! the question to the answer, so it is longer than the pause by the time that both messages take.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
    path::PathBuf,
};

use crate::stall::{
    Fault, Injected, Kind, Setup,
    error::StallError,
    machine::{clock, work::Work},
    size::Unit,
};

pub(super) const KIND: Kind = Kind {
    name: "pause",
    what: "the whole machine is stopped for SIZE, by its operator",
    needs: "an operator who stops the machine (GUESTSCOPE_STOPPER)",
    unit: Unit::Time,
    range: 10_000_000..=10_000_000_000,
    default: 300_000_000,
    bound: true,
    make,
};

/// Variable that names the line to the stopper, a file.
const STOPPER: &str = "GUESTSCOPE_STOPPER";
/// Time beyond SIZE that an answer may take.
const PATIENCE_NS: u64 = 30_000_000_000;
/// Work between two looks for the answer.
const LOOK: Work = Work { rounds: 10_000 };

struct Pause {
    line: File,
    path: PathBuf,
}

fn make(_: &Setup) -> Result<Box<dyn Fault>, StallError> {
    let path = std::env::var_os(STOPPER).filter(|path| !path.is_empty()).ok_or(StallError::NoStopper)?;
    let path = PathBuf::from(path);
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path);
    let line = opened.map_err(|source| StallError::File { action: "open", path: path.clone(), source })?;
    make_raw(&line);
    Ok(Box::new(Pause { line, path }))
}

/// Sets raw mode: a terminal would echo what it hears. Other files are left as they are.
fn make_raw(line: &File) {
    // SAFETY: an open descriptor and a whole structure, whose fields may all be zero.
    unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        if libc::tcgetattr(line.as_raw_fd(), &raw mut settings) == 0 {
            libc::cfmakeraw(&raw mut settings);
            libc::tcsetattr(line.as_raw_fd(), libc::TCSANOW, &raw const settings);
        }
    }
}

impl Fault for Pause {
    fn inject(&mut self, size: u64) -> Result<Injected, StallError> {
        let failed = |action, source| StallError::File { action, path: self.path.clone(), source };
        writeln!(self.line, "stop {size}").map_err(|source| failed("write", source))?;
        let started_ns = clock::monotonic_ns();
        let mut answer = Vec::new();
        let mut bytes = [0; 64];
        while !answer.contains(&b'\n') {
            match self.line.read(&mut bytes) {
                Ok(read @ 1..) => answer.extend_from_slice(&bytes[..read]),
                Ok(0) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(source) => return Err(failed("read", source)),
            }
            // After this time the host will not stop the guest any more.
            if clock::monotonic_ns() - started_ns > PATIENCE_NS + size {
                return Err(failed("read", ErrorKind::TimedOut.into()));
            }
            LOOK.run();
        }
        let answer = String::from_utf8_lossy(&answer);
        let ns = answer.trim().strip_prefix("stopped ").and_then(|ns| ns.parse().ok());
        let ns = ns.ok_or_else(|| failed("understand", ErrorKind::InvalidData.into()))?;
        Ok(Injected { ns, count: None })
    }
}
