//! One line on stderr while the program runs: requests, rate, time, losses. The total is unknown, as it usually is.
//!
//! Draws only on a terminal that can take a line back. A thread draws, and nobody waits for it: the program
//! may have stopped the terminal. Whoever owns the run says what stands there, a few times a second.

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

/// The end waits for so long until the line is taken away.
const PATIENCE: Duration = Duration::from_millis(200);

/// The line.
#[derive(Debug)]
pub struct Progress(Option<Drawn>);

#[derive(Debug)]
struct Drawn {
    started: Instant,
    board: Arc<Board>,
}

/// What the thread and the others share.
#[derive(Debug, Default)]
struct Board {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Wanted {
    /// What shall stand there, until it does.
    line: Option<String>,
    is_over: bool,
    is_cleared: bool,
}

impl Board {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the end is wanted.
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
    /// Begins the line; on anything but a terminal, or if it is not wanted, nothing is ever drawn. The thread
    /// that draws does
    /// `settle` first.
    pub fn start(is_wanted: bool, settle: impl FnOnce() + Send + 'static) -> Self {
        if !is_wanted || !can_redraw() {
            return Self(None);
        }
        let board = Arc::<Board>::default();
        let drawn = Arc::clone(&board);
        let body = move || {
            settle();
            let bar = ProgressBar::new_spinner();
            // A spinner's own template would fail only for an unknown key, and `msg` is known.
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            drawn.draw(&bar);
        };
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(body);
        // Without a thread there is no line, which is no loss.
        Self(thread.is_ok().then(|| Drawn { started: Instant::now(), board }))
    }

    /// Shows where the run stands. `lost` is everything that was lost so far.
    pub fn update(&self, progress: &LiveProgress, lost: u64) {
        if let Some(Drawn { started, board }) = &self.0 {
            board.wanted().line = Some(line(progress, &duration_of(started.elapsed()), lost));
            board.changed.notify_all();
        }
    }

    /// Takes the line away.
    pub fn finish(&self) {
        let Some(Drawn { board, .. }) = &self.0 else { return };
        let mut wanted = board.wanted();
        wanted.is_over = true;
        board.changed.notify_all();
        // A stopped terminal keeps it.
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
