//! Detects through VMGENID or vmclock that the guest was restored from a snapshot, or moved to another
//! machine.
//!
//! Yields events as they are noticed. Hypervisors offer two sources: a new generation ID of the virtual
//! machine (VMGENID), which the kernel writes to its log and, in some versions, sends as an event of the
//! device; and a marker in a page of memory (vmclock). Everything is opened once, before privileges are
//! dropped. Nothing polls: the agent waits for two descriptors, and reads the page whenever it is awake.
//! Where a hypervisor offers neither, nothing is done.

mod found;
pub mod kernel_log;
mod records;
pub mod uevents;
pub mod vmclock;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use tokio::io::{Interest, unix::AsyncFd};

pub use self::found::{RestoreSource, State, find};
use self::{kernel_log::KernelLog, records::Records, uevents::Uevents, vmclock::VmClock};
use crate::{
    clock, out,
    phase::{Restored, RestoredBy},
};

/// The kernel reports one new generation in two ways, the second within microseconds of the first.
const SAME: Duration = Duration::from_secs(1);

/// Most records that are read at the end: others may be written as fast.
const LAST: usize = 4096;

/// Source of a report of a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    Log,
    Uevent,
}

/// The watched sources.
#[derive(Default)]
pub struct RestoreSources {
    log: Option<AsyncFd<KernelLog>>,
    uevents: Option<AsyncFd<Uevents>>,
    clock: Option<VmClock>,
    /// The last report of a new generation: its source and time.
    last: Option<(Witness, Instant)>,
}

impl RestoreSources {
    /// Opens the available sources. `doctor` shows which cannot be watched.
    pub fn open() -> Self {
        Self {
            log: KernelLog::open(Path::new(kernel_log::PATH)).ok().and_then(watched),
            uevents: Uevents::open().ok().and_then(watched),
            clock: VmClock::open(Path::new(vmclock::PATH)).ok(),
            last: None,
        }
    }

    /// The next new generation of the virtual machine. A cancelled call loses none.
    pub async fn next(&mut self) -> Restored {
        loop {
            let witness = tokio::select! {
                told = told(&mut self.log) => told.then_some(Witness::Log),
                told = told(&mut self.uevents) => told.then_some(Witness::Uevent),
            };
            if let Some(witness) = witness
                && self.is_new(witness, Instant::now())
            {
                return Restored { noticed_ns: clock::now_ns(), source: RestoredBy::Vmgenid };
            }
        }
    }

    /// Whether no other source has reported it right before.
    fn is_new(&mut self, witness: Witness, now: Instant) -> bool {
        let is_told = self
            .last
            .is_some_and(|(other, then)| other != witness && now.saturating_duration_since(then) < SAME);
        self.last = Some((witness, now));
        !is_told
    }

    /// Reports that have not been read yet, at the end of a run.
    pub fn last(&mut self) -> Vec<Restored> {
        let log = tells_left(&mut self.log);
        let uevents = tells_left(&mut self.uevents);
        let now = Instant::now();
        let is_new = log && self.is_new(Witness::Log, now) || uevents && self.is_new(Witness::Uevent, now);
        let generation =
            is_new.then(|| Restored { noticed_ns: clock::now_ns(), source: RestoredBy::Vmgenid });
        generation.into_iter().chain(self.look()).collect()
    }

    /// Reads the clock's page: some loads from memory, and no system call unless its marker has changed.
    pub fn look(&mut self) -> Option<Restored> {
        let has_changed = self.clock.as_mut().is_some_and(VmClock::has_changed);
        has_changed.then(|| Restored { noticed_ns: clock::now_ns(), source: RestoredBy::Vmclock })
    }
}

fn watched<R: Records>(records: R) -> Option<AsyncFd<R>> {
    // SAFETY: the value owns its descriptor, which stays open and the same as long as it is watched.
    unsafe { AsyncFd::register_with_interest(records, Interest::READABLE) }.ok()
}

/// Waits for the next record, and reads it. Waits forever if nothing is watched, or nothing can be read any
/// more.
async fn told<R: Records>(watched: &mut Option<AsyncFd<R>>) -> bool {
    let Some(records) = watched else { return std::future::pending().await };
    match records.async_io_mut(Interest::READABLE, Records::next_tells).await {
        Ok(tells) => tells,
        // The error would come again every time.
        Err(error) => {
            out::say(&format!("warning: {} can be read no more: {error}\n", R::NAME));
            *watched = None;
            false
        }
    }
}

/// Whether a waiting record reports a new generation.
fn tells_left<R: Records>(watched: &mut Option<AsyncFd<R>>) -> bool {
    let Some(records) = watched else { return false };
    let next = || records.get_mut().next_tells().ok();
    std::iter::from_fn(next).take(LAST).any(|tells| tells)
}

#[cfg(test)]
mod tests;
