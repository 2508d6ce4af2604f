//! What ran on a GPU, in windows: asks the CUPTI library in each CUDA program to record, and takes what it
//! sends.
//!
//! The library is a file that libcuda loads into a program that the agent starts ([`library`], [`VARIABLE`]).
//! Yields [`Traced`]; nothing is kept.

mod names;
mod program;
mod schedule;
mod words;

use std::{
    future::poll_fn,
    io,
    task::Poll,
    time::{Duration, Instant},
};

pub use guestscope_cupti::GREETING;
use guestscope_cupti::Order;
use tokio::{net::UnixStream, sync::OwnedSemaphorePermit, time::timeout_at};

use self::{program::Program, schedule::Due};
pub use self::{program::Traced, schedule::Schedule};
use crate::carried;

/// The variable by which libcuda finds the library.
pub const VARIABLE: &str = "CUDA_INJECTION64_PATH";
/// The library's file.
pub const FILE: &str = "libguestscope-cupti.so";

/// The file's content.
///
/// # Errors
/// The agent's binary is damaged.
pub fn library() -> io::Result<Vec<u8>> {
    carried::cupti()
}

/// Most programs that record at a time.
const PROGRAMS: usize = 256;

/// The programs, and when the next window opens.
#[derive(Debug, Default)]
pub struct Trace {
    due: Option<Due>,
    programs: Vec<Program>,
}

impl Trace {
    /// Opens windows by this schedule from now on.
    pub fn new(schedule: Schedule) -> Self {
        Self { due: Some(Due::new(schedule, Instant::now())), programs: Vec::new() }
    }

    /// Takes the connection of a process that has sent its greeting; `place` is given back at its end. Closed
    /// at once are second connections of a process, and all where nothing is recorded.
    pub fn admit(&mut self, pid: u32, stream: UnixStream, place: OwnedSemaphorePermit) {
        let Some(due) = &self.due else { return };
        if self.programs.len() >= PROGRAMS || self.programs.iter().any(|program| program.pid == pid) {
            return;
        }
        let program = Program::new(pid, stream, place);
        if let Some(open) = due.at_once() {
            program.order(order(open));
        }
        self.programs.push(program);
    }

    /// A request was slow.
    pub fn trigger(&mut self) {
        self.due.iter_mut().for_each(Due::trigger);
    }

    /// What programs sent; pending until one does. Opens windows that are due. A cancelled call loses
    /// nothing.
    pub async fn next(&mut self) -> Vec<Traced> {
        loop {
            let Some(due) = self.due.as_mut().filter(|_| !self.programs.is_empty()) else {
                return std::future::pending().await;
            };
            if let Some(open) = due.take(Instant::now()) {
                self.programs.iter().for_each(|program| program.order(order(open)));
            }
            let next_window = due.at().map(Into::into);
            if !is_readable_until(&self.programs, next_window).await {
                continue;
            }
            let mut traced = Vec::new();
            self.programs.iter_mut().for_each(|program| program.take(&mut traced));
            self.programs.retain(|program| !program.is_over);
            if !traced.is_empty() {
                return traced;
            }
        }
    }

    /// What is left when the programs have ended.
    pub fn last(&mut self) -> Vec<Traced> {
        let mut traced = Vec::new();
        self.programs.drain(..).for_each(|program| program.last(&mut traced));
        traced
    }
}

/// The order to record for so long.
fn order(open: Duration) -> Order {
    Order { open_ms: u32::try_from(open.as_millis()).unwrap_or(u32::MAX) }
}

/// Waits until one of them has sent something; false if none did by then.
async fn is_readable_until(programs: &[Program], until: Option<tokio::time::Instant>) -> bool {
    let readable = poll_fn(|context| {
        // All of them, so that each wakes this task.
        let ready = programs.iter().filter(|program| program.poll(context)).count();
        if ready > 0 { Poll::Ready(()) } else { Poll::Pending }
    });
    if let Some(until) = until {
        return timeout_at(until, readable).await.is_ok();
    }
    readable.await;
    true
}

#[cfg(test)]
mod tests;
