//! One line on stderr while the program runs: requests, rate, time, losses. The total is unknown.
//!
//! Draws only on a terminal that can redraw a line. A thread draws, and no other thread waits for it: the
//! program may have stopped the terminal. The session updates the line a few times a second.

use std::{
    fmt::Write as _,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::analyze::LiveProgress;

use super::{
    health_lines::duration_of,
    style::can_redraw,
    units::{counted, rate, thousands},
};

/// Longest wait at the end for the line to be removed.
const PATIENCE: Duration = Duration::from_millis(200);

/// The line.
#[derive(Debug)]
pub struct Progress(Option<Drawn>);

#[derive(Debug)]
struct Drawn {
    started: Instant,
    board: Arc<Board>,
}

/// State shared with the thread.
#[derive(Debug, Default)]
struct Board {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Wanted {
    /// The next text, until it is drawn.
    line: Option<String>,
    is_over: bool,
    is_cleared: bool,
}

impl Board {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws until the end.
    fn draw(&self, bar: &ProgressBar) {
        loop {
            let idle = |wanted: &mut Wanted| wanted.line.is_none() && !wanted.is_over;
            let woken = self.changed.wait_while(self.wanted(), idle);
            let mut wanted = woken.unwrap_or_else(PoisonError::into_inner);
            let (line, is_over) = (wanted.line.take(), wanted.is_over);
            drop(wanted);
            match line {
                _ if is_over => break,
                // Draws by itself, at most 20 times a second.
                Some(line) => bar.set_message(line),
                None => {}
            }
        }
        bar.finish_and_clear();
        self.wanted().is_cleared = true;
        self.changed.notify_all();
    }
}

impl Progress {
    /// Begins the line; draws only on a terminal, and if wanted. The drawing thread runs `settle` first.
    pub fn start(is_wanted: bool, settle: impl FnOnce() + Send + 'static) -> Self {
        if !is_wanted || !can_redraw() {
            return Self(None);
        }
        let board = Arc::<Board>::default();
        let drawn = Arc::clone(&board);
        let body = move || {
            settle();
            let bar = ProgressBar::new_spinner();
            // A template fails only for an unknown key, and `msg` is known.
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            drawn.draw(&bar);
        };
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(body);
        // Without a thread there is no line.
        Self(thread.is_ok().then(|| Drawn { started: Instant::now(), board }))
    }

    /// Shows the run's progress. `lost` is the sum of losses so far.
    pub fn update(&self, progress: &LiveProgress, lost: u64) {
        if let Some(Drawn { started, board }) = &self.0 {
            board.wanted().line = Some(line(progress, &duration_of(started.elapsed()), lost));
            board.changed.notify_all();
        }
    }

    /// Removes the line.
    pub fn finish(&self) {
        let Some(Drawn { board, .. }) = &self.0 else { return };
        let mut wanted = board.wanted();
        wanted.is_over = true;
        board.changed.notify_all();
        // A stopped terminal keeps the line.
        let cleared = board.changed.wait_timeout_while(wanted, PATIENCE, |wanted| !wanted.is_cleared);
        drop(cleared);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// `1,234 requests  16.1/s  12.4 s`.
pub(super) fn line(progress: &LiveProgress, elapsed: &str, lost: u64) -> String {
    let LiveProgress { requests, warmups, rate_per_s } = *progress;
    let mut text = format!("  {}", counted(requests, "request", "requests"));
    if warmups > 0 {
        let _ = write!(text, " after {}", counted(warmups, "warm-up", "warm-ups"));
    }
    if requests > 1 {
        let _ = write!(text, "  {}", rate(rate_per_s));
    }
    let _ = write!(text, "  {elapsed}");
    if lost > 0 {
        let _ = write!(text, "  {} lost", thousands(lost));
    }
    text
}
