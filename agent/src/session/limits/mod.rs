//! Limits on observed processes while they run: a thread reads what the kernel counts of them, ten times a
//! second where there is any.
//!
//! Yields [`Limit`]s with what was seen of each. Nothing here waits for a process; if a read hangs all the
//! same, what was seen is left out.

mod queues;
mod watch;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use self::watch::Watch;
use crate::{clock, limits::Limit, mapped, platform::Root};

/// Interval between readings of counts: 1 % of it is spent on a dozen limits.
const STEP: Duration = Duration::from_millis(100);
/// Steps between looks for processes, groups and masks, and one more for each [`THREADS`] threads.
const LOOKS: u64 = 5;
/// Threads whose masks cost half a millisecond.
const THREADS: u64 = 32;
/// Most processes looked at: those known first, and their descendants.
const PROCESSES: usize = 64;
/// The thread answers within a step.
const PATIENCE: Duration = Duration::from_secs(2);
/// Stack of the thread, which needs a few buffers.
const STACK_BYTES: usize = 256 << 10;

/// The thread and what it is told.
pub(crate) struct Limits {
    processes: Arc<Mutex<Vec<u32>>>,
    /// Dropped when the thread is to end.
    stop: Option<Sender<()>>,
    found: Option<Receiver<Vec<Limit>>>,
}

impl Limits {
    /// Starts watching, at first these processes; `settle` is the thread's first work. Without a thread
    /// nothing is seen.
    pub(crate) fn start(first: Vec<u32>, settle: impl FnOnce() + Send + 'static) -> Self {
        let processes = Arc::new(Mutex::new(first));
        let ((stop, stopped), (send, found)) = (channel(), channel());
        let known = Arc::clone(&processes);
        let body = move || {
            settle();
            // The session may have ended without asking.
            send.send(watch(&stopped, &known)).unwrap_or_default();
        };
        let thread = thread::Builder::new().name("limits".to_owned()).stack_size(STACK_BYTES);
        let found = thread.spawn(body).ok().map(|_| found);
        Self { processes, stop: Some(stop), found }
    }

    /// These processes are observed now.
    pub(crate) fn observe(&self, processes: Vec<u32>) {
        *self.processes.lock().unwrap_or_else(PoisonError::into_inner) = processes;
    }

    /// Ends, and says what was seen.
    pub(crate) fn finish(&mut self) -> Vec<Limit> {
        self.stop = None;
        self.found.take().and_then(|found| found.recv_timeout(PATIENCE).ok()).unwrap_or_default()
    }
}

fn watch(stopped: &Receiver<()>, known: &Mutex<Vec<u32>>) -> Vec<Limit> {
    let mut watch = Watch::new(Root::system(), clock::now_ns());
    let (mut steps, mut next_look) = (0, 0);
    loop {
        let processes = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if steps >= next_look && !processes.is_empty() {
            let threads = watch.look(&with_descendants(processes));
            next_look = steps + LOOKS + threads / THREADS;
        }
        let ended = stopped.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout);
        watch.step(clock::now_ns());
        steps += 1;
        if ended {
            return watch.finish();
        }
    }
}

fn with_descendants(mut all: Vec<u32>) -> Vec<u32> {
    all.truncate(PROCESSES);
    let mut at = 0;
    while let Some(&pid) = all.get(at).filter(|_| all.len() < PROCESSES) {
        let children = mapped::children(pid).into_iter();
        let new: Vec<u32> = children.filter(|child| !all.contains(child)).collect();
        all.extend(new.into_iter().take(PROCESSES - all.len()));
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests;
