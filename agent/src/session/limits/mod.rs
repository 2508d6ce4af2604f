//! Limits on observed processes while they run: a thread reads what the kernel counts of them, ten times a
//! second where there is any.
//!
//! Yields [`Limit`]s with what was seen of each. Nothing here waits for a process; if a read hangs all the
//! same, what was seen is left out.

mod queues;
mod watch;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
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
/// The same for an agent that stays, where nothing is new: a look costs a millisecond for some ten processes.
const RARE_LOOKS: u64 = 20;
/// Threads whose masks cost half a millisecond.
const THREADS: u64 = 32;
/// Most processes looked at: those known first, and their descendants.
const PROCESSES: usize = 64;
/// The thread answers within a step.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most stretches that wait to be fetched, which is done every second.
const STRETCHES: usize = 16;
/// Stack of the thread, which needs a few buffers.
const STACK_BYTES: usize = 256 << 10;

/// The thread and what it is told.
pub(crate) struct Limits {
    shared: Arc<Shared>,
    /// Dropped when the thread is to end.
    stop: Option<Sender<()>>,
    found: Option<Receiver<Vec<Limit>>>,
}

/// A stretch of time, begin and end by CLOCK_MONOTONIC, ns, and what was seen of each limit in it.
type Stretch = (u64, u64, Vec<Limit>);

/// What the thread shares with its session.
struct Shared {
    processes: Mutex<Vec<u32>>,
    /// Length of a stretch, after which counting begins anew; none: all of the run is one.
    stretch: Option<Duration>,
    stretches: Mutex<Vec<Stretch>>,
}

impl Limits {
    /// Starts watching, at first these processes; `settle` is the thread's first work. Without a thread
    /// nothing is seen. `stretch`: see [`Self::stretches`].
    pub(crate) fn start(
        first: Vec<u32>,
        stretch: Option<Duration>,
        settle: impl FnOnce() + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared { processes: Mutex::new(first), stretch, stretches: Mutex::default() });
        let ((stop, stopped), (send, found)) = (channel(), channel());
        let theirs = Arc::clone(&shared);
        let body = move || {
            settle();
            // The session may have ended without asking.
            send.send(watch(&stopped, &theirs)).unwrap_or_default();
        };
        let thread = thread::Builder::new().name("limits".to_owned()).stack_size(STACK_BYTES);
        let found = thread.spawn(body).ok().map(|_| found);
        Self { shared, stop: Some(stop), found }
    }

    /// These processes are observed now.
    pub(crate) fn observe(&self, processes: Vec<u32>) {
        *locked(&self.shared.processes) = processes;
    }

    /// Stretches that ended since the last call.
    pub(crate) fn stretches(&self) -> Vec<(u64, u64, Vec<Limit>)> {
        std::mem::take(&mut *locked(&self.shared.stretches))
    }

    /// Ends, and says what was seen.
    pub(crate) fn finish(&mut self) -> Vec<Limit> {
        self.stop = None;
        self.found.take().and_then(|found| found.recv_timeout(PATIENCE).ok()).unwrap_or_default()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(stopped: &Receiver<()>, shared: &Shared) -> Vec<Limit> {
    let mut begun_ns = clock::now_ns();
    let mut watch = Watch::new(Root::system(), begun_ns);
    let (mut steps, mut next_look) = (0, 0);
    let looks = if shared.stretch.is_some() { RARE_LOOKS } else { LOOKS };
    let mut known = Vec::new();
    loop {
        let processes = locked(&shared.processes).clone();
        if !processes.is_empty() && (steps >= next_look || processes != known) {
            known.clone_from(&processes);
            let threads = watch.look(&with_descendants(processes));
            next_look = steps + looks + threads / THREADS;
        }
        let ended = stopped.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout);
        let now_ns = clock::now_ns();
        watch.step(now_ns);
        steps += 1;
        if ended {
            return watch.so_far();
        }
        let age_ns = u128::from(now_ns.saturating_sub(begun_ns));
        if shared.stretch.is_some_and(|stretch| age_ns >= stretch.as_nanos()) {
            let mut stretches = locked(&shared.stretches);
            if stretches.len() < STRETCHES {
                stretches.push((begun_ns, now_ns, watch.so_far()));
            }
            watch.begin_anew(now_ns);
            begun_ns = now_ns;
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
