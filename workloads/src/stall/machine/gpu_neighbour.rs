//! Another process that takes the GPU when it is asked to: this program by a verb of its own, which answers
//! over a pipe. Yields when it began and ended, by `CLOCK_MONOTONIC` in that process.
//!
//! It is nobody's child, has no marks and no part in what is observed: an observer of this process has to
//! find it by the card. It ends when its orders do, however this process ends.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
};

use nix::sys::prctl;

use super::clock;
use crate::{
    child::WORKLOAD_FILE,
    cuda::{Card, Extent, Waits},
    stall::error::StallError,
};

/// The verb that a neighbour is started by.
pub const VERB: &str = "gpu-neighbour";
/// Variable by which CUDA loads a library for tools; the neighbour is nobody's to look into.
const TOOLS: &str = "CUDA_INJECTION64_PATH";

/// The process, seen from the one that it disturbs.
#[derive(Debug)]
pub struct GpuNeighbour {
    /// Each order is a number of nanoseconds.
    orders: ChildStdin,
    /// Two answers to each: when it began, and when it was done.
    answers: ChildStdout,
    said: ChildStderr,
}

impl GpuNeighbour {
    /// Starts it, and waits until it has the GPU open.
    pub fn start() -> Result<Self, StallError> {
        let program = std::env::current_exe().map_err(StallError::call("readlink"))?;
        let mut command = Command::new(program);
        command.arg(VERB).env_remove(TOOLS).env_remove(WORKLOAD_FILE);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: between fork and exec it makes three system calls and allocates nothing.
        unsafe { command.pre_exec(leave_parent) };
        let mut process = command.spawn().map_err(StallError::call("execve"))?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        // Its parent, which has ended already.
        process.wait().map_err(StallError::call("wait4"))?;
        let (Some(orders), Some(answers), Some(said)) = pipes else {
            return Err(StallError::GpuNeighbour { said: "it has no pipes".to_owned() });
        };
        let mut neighbour = Self { orders, answers, said };
        neighbour.answer()?;
        Ok(neighbour)
    }

    /// Makes it compute for so long. Gives the time when it began, ns.
    pub fn begin(&mut self, ns: u64) -> Result<u64, StallError> {
        if self.orders.write_all(&ns.to_ne_bytes()).is_err() {
            return Err(self.gone());
        }
        self.answer()
    }

    /// Whether it is done, or gone.
    pub fn is_done(&self) -> Result<bool, StallError> {
        let mut answers = libc::pollfd { fd: self.answers.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which lives across the call.
        let ready = unsafe { libc::poll(&raw mut answers, 1, 0) };
        if ready >= 0 {
            return Ok(ready > 0);
        }
        match io::Error::last_os_error() {
            error if error.kind() == ErrorKind::Interrupted => Ok(false),
            error => Err(StallError::call("poll")(error)),
        }
    }

    /// Waits until it is done. Gives the time when it was, ns.
    pub fn end_ns(&mut self) -> Result<u64, StallError> {
        self.answer()
    }

    fn answer(&mut self) -> Result<u64, StallError> {
        match next(&mut self.answers) {
            Ok(Some(ns)) => Ok(ns),
            Ok(None) | Err(_) => Err(self.gone()),
        }
    }

    /// The error for a process that has ended, with what it said.
    fn gone(&mut self) -> StallError {
        let mut said = Vec::new();
        // What came before a failed read is worth having.
        let _ = self.said.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        let error = said.lines().find_map(|line| line.strip_prefix("error: "));
        StallError::GpuNeighbour { said: error.unwrap_or("it said nothing").to_owned() }
    }
}

/// Runs in the new process before the program: that becomes the child of a process that has ended, and has a
/// session of its own, so that it hears no signal from the terminal.
fn leave_parent() -> io::Result<()> {
    // SAFETY: between fork and exec these three may be called; nothing is shared with the process that ends.
    unsafe {
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::setsid();
                Ok(())
            }
            _ => libc::_exit(0),
        }
    }
}

/// Runs as that process: takes the GPU for as long as each order says, until there are no more.
pub fn serve(orders: &mut impl Read, answers: &mut impl Write) -> Result<(), StallError> {
    // The name under which observers find it.
    let _ = prctl::set_name(c"gpu-neighbour");
    // Asleep: it shall take the GPU and no CPU.
    let card = Card::open(Waits::Asleep)?;
    // The first launch of a process puts the code on the card.
    card.launch(0, Extent::Whole)?;
    card.wait()?;
    tell(answers, clock::monotonic_ns())?;
    while let Some(ns) = next(orders).map_err(StallError::call("read"))? {
        let begun_ns = clock::monotonic_ns();
        card.launch(ns, Extent::Whole)?;
        tell(answers, begun_ns)?;
        card.wait()?;
        tell(answers, clock::monotonic_ns())?;
    }
    Ok(())
}

fn tell(to: &mut impl Write, ns: u64) -> Result<(), StallError> {
    to.write_all(&ns.to_ne_bytes()).and_then(|()| to.flush()).map_err(StallError::call("write"))
}

/// The next number; none after the last.
fn next(from: &mut impl Read) -> io::Result<Option<u64>> {
    let mut number = [0; 8];
    match from.read_exact(&mut number) {
        Ok(()) => Ok(Some(u64::from_ne_bytes(number))),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{next, tell};

    #[test]
    fn numbers_come_one_by_one_until_none_is_left() {
        let mut line = Vec::new();
        for ns in [0, 20_000_000, u64::MAX] {
            tell(&mut line, ns).unwrap();
        }
        // Half a number is none: the other side is gone.
        line.push(7);
        let mut line = line.as_slice();
        let numbers: Vec<u64> = std::iter::from_fn(|| next(&mut line).unwrap()).collect();
        assert_eq!(numbers, [0, 20_000_000, u64::MAX]);
    }
}
