//! Work that others may block for ever: a separate thread does it, and is given up on a timeout.
//!
//! Reads of /proc for a process wait for locks that the process may hold (`maps`, `map_files` and `cmdline`
//! for the lock of its address space), and a file may lie where its owner's own server answers for it (FUSE,
//! also below an overlay), or never. No flag of open(2) helps against that.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Most threads that may be blocked at once. Each costs next to nothing while it waits, but their number must
/// be bounded.
const MOST: usize = 64;
/// Stack size: such work needs a few buffers only.
const STACK_BYTES: usize = 256 << 10;

/// Threads that were given up and have not returned.
static HELD_UP: AtomicUsize = AtomicUsize::new(0);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The time limit passed. The work may still be done later.
    #[error("it did not answer in time")]
    Late,
    /// Too many others wait for their answers, or no thread can be started.
    #[error("too much of what was asked before has no answer yet")]
    Busy,
}

/// How long an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// All of it.
    pub limit: Duration,
    /// Between two turns of other work.
    pub turn: Duration,
}

/// Does `work` on another thread and waits for it, calling `meanwhile` at every turn.
///
/// # Errors
/// There is no answer.
pub fn within<T: Send + 'static>(
    patience: Patience,
    meanwhile: &mut dyn FnMut(),
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    within_most(MOST, &HELD_UP, patience, meanwhile, work)
}

/// [`within`] for a thread that has nothing else to do.
///
/// # Errors
/// There is no answer.
pub fn answer<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    within(Patience { limit, turn: limit }, &mut || (), work)
}

fn within_most<T: Send + 'static>(
    most: usize,
    held_up: &'static AtomicUsize,
    Patience { limit, turn }: Patience,
    meanwhile: &mut dyn FnMut(),
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    if held_up.load(Ordering::Acquire) >= most {
        return Err(NoAnswer::Busy);
    }
    let (sender, answer) = sync_channel(1);
    // Counted before the thread runs: it may end, and decrease the count, before this one continues.
    held_up.fetch_add(1, Ordering::AcqRel);
    let body = move || {
        let done = work();
        held_up.fetch_sub(1, Ordering::AcqRel);
        // The receiver may have given up.
        sender.send(done).unwrap_or_default();
    };
    let thread = thread::Builder::new().name("looks".to_owned()).stack_size(STACK_BYTES);
    if thread.spawn(body).is_err() {
        held_up.fetch_sub(1, Ordering::AcqRel);
        return Err(NoAnswer::Busy);
    }
    let begun = Instant::now();
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        match answer.recv_timeout(left.min(turn)) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(NoAnswer::Late),
            Err(RecvTimeoutError::Timeout) => meanwhile(),
            // The thread panicked. (Release binaries abort on a panic.)
            Err(RecvTimeoutError::Disconnected) => return Err(NoAnswer::Busy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);
    const MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn what_answers_is_passed_on() {
        assert_eq!(answer(HOUR, || 7), Ok(7));
    }

    #[test]
    fn what_never_answers_is_given_up_and_bounded() {
        static HELD: AtomicUsize = AtomicUsize::new(0);
        let (release, held) = sync_channel::<()>(0);
        let held = std::sync::Arc::new(std::sync::Mutex::new(held));
        let mut turns = 0;
        let mut ask = || {
            let held = std::sync::Arc::clone(&held);
            let wait = move || held.lock().is_ok_and(|held| held.recv().is_ok());
            within_most(2, &HELD, Patience { limit: 20 * MOMENT, turn: MOMENT }, &mut || turns += 1, wait)
        };
        assert_eq!([ask(), ask(), ask()], [Err(NoAnswer::Late), Err(NoAnswer::Late), Err(NoAnswer::Busy)]);
        assert!(turns >= 2, "what else there is to do got its turn {turns} times");
        // Threads that return make room for others.
        for _ in 0..2 {
            release.send(()).expect("it waits");
        }
        let begun = Instant::now();
        while HELD.load(Ordering::Acquire) > 0 && begun.elapsed() < Duration::from_mins(1) {
            thread::sleep(MOMENT);
        }
        assert_eq!(within_most(2, &HELD, Patience { limit: HOUR, turn: HOUR }, &mut || (), || 7), Ok(7));
    }
}
