//! What a person sees while a verb works, on stderr: a spinner per step on a terminal, plain lines elsewhere.
//!
//! Yields [`Progress`], [`Step`] and the list of shortfalls (what could not be had, and what was done
//! instead), which a verb repeats at its end. Steps of several threads may run at once, each with a spinner
//! of its own, or lines that name it. It never writes to stdout: that belongs to the verb's own result.

use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    io::{self, IsTerminal as _, Write as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often a step that is still running says so where there is no terminal.
const HEARTBEAT: Duration = Duration::from_secs(30);
const LABEL_COLUMNS: usize = 58;
const LINE_COLUMNS: usize = 96;

/// Where steps report.
pub(crate) struct Progress {
    screen: Screen,
    shortfalls: Mutex<Vec<String>>,
}

/// What stderr is.
#[derive(Clone)]
enum Screen {
    /// Lines go above the spinners.
    Terminal(MultiProgress),
    Plain,
}

/// One running step.
pub(crate) struct Step {
    label: String,
    screen: Screen,
    bar: ProgressBar,
    started: Instant,
    /// The newest line of the work.
    newest: RefCell<String>,
    spoke: Cell<Instant>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        let screen = if terminal { Screen::Terminal(MultiProgress::new()) } else { Screen::Plain };
        Self { screen, shortfalls: Mutex::default() }
    }

    /// Starts a step; it ends when [`Step::done`] or [`Step::failed`] is called.
    pub(crate) fn step(&self, label: impl Into<String>) -> Step {
        let label = label.into();
        let bar = match &self.screen {
            Screen::Terminal(screen) => screen.add(spinner(&label)),
            Screen::Plain => ProgressBar::hidden(),
        };
        let now = Instant::now();
        let newest = RefCell::default();
        Step { label, screen: self.screen.clone(), bar, started: now, newest, spoke: Cell::new(now) }
    }

    /// A step that found its result ready.
    pub(crate) fn present(&self, label: &str, what: impl Display) {
        self.screen.line(&row(label, what));
    }

    /// A line for people that is not a step.
    pub(crate) fn say(&self, text: &str) {
        self.screen.line(text);
    }

    /// Something could not be had: one line now, and again at the end of the verb.
    pub(crate) fn shortfall(&self, text: impl Into<String>) {
        let text = text.into();
        self.screen.line(&format!("note: {text}"));
        self.shortfalls.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// Every shortfall so far, in order.
    pub(crate) fn shortfalls(&self) -> Vec<String> {
        self.shortfalls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Step {
    /// The newest line of the work: stands beside the spinner of a terminal.
    pub(crate) fn update(&self, text: &str) {
        let room = LINE_COLUMNS.saturating_sub(self.label.len().min(LABEL_COLUMNS) + 14);
        self.bar.set_message(shorten(text, room));
        text.clone_into(&mut self.newest.borrow_mut());
        self.tick();
    }

    /// Time has passed: without a terminal, says now and then that the step goes on, and where it is.
    pub(crate) fn tick(&self) {
        if matches!(self.screen, Screen::Plain) && self.spoke.get().elapsed() >= HEARTBEAT {
            self.spoke.set(Instant::now());
            let since = duration(self.started.elapsed());
            let text = format!("  {}, for {since}: {}", self.label, self.newest.borrow());
            self.screen.line(&shorten(&text, LINE_COLUMNS));
        }
    }

    /// The step ended well; `outcome` says what came of it.
    pub(crate) fn done(self, outcome: impl Display) {
        self.end(&format!("{outcome} ({})", duration(self.started.elapsed())));
    }

    /// Ends the step as failed; its caller shows the error.
    pub(crate) fn failed(self) {
        self.end(&format!("FAILED ({})", duration(self.started.elapsed())));
    }

    fn end(&self, outcome: &str) {
        self.bar.finish_and_clear();
        self.screen.line(&row(&self.label, outcome));
    }
}

impl Screen {
    /// Shows a line; a closed stderr must not stop the work.
    fn line(&self, text: &str) {
        drop(match self {
            Self::Terminal(screen) => screen.println(text.trim_end()),
            Self::Plain => writeln!(io::stderr(), "{}", text.trim_end()),
        });
    }
}

fn row(label: &str, outcome: impl Display) -> String {
    format!("{:<LABEL_COLUMNS$} {outcome}", shorten(label, LABEL_COLUMNS))
}

fn spinner(label: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed:>4} {msg:.dim}") {
        bar.set_style(style);
    }
    bar.set_prefix(shorten(label, LABEL_COLUMNS));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Seconds with one decimal below a minute, minutes and seconds above.
pub(crate) fn duration(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        let seconds = (time.as_millis() + 500) / 1000;
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

/// At most `columns` characters, on one line.
fn shorten(text: &str, columns: usize) -> String {
    let text = text.trim_end();
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(3)).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::{Progress, duration, shorten};

    #[rstest]
    #[case(0, "0.0 s")]
    #[case(1_449, "1.4 s")]
    #[case(59_949, "59.9 s")]
    #[case(59_950, "1 min 00 s")]
    #[case(125_000, "2 min 05 s")]
    fn durations_read_well(#[case] milliseconds: u64, #[case] expected: &str) {
        assert_eq!(duration(Duration::from_millis(milliseconds)), expected);
    }

    #[rstest]
    #[case("short", 10, "short")]
    #[case("exactly ten", 11, "exactly ten")]
    #[case("rather longer than that", 10, "rather ...")]
    #[case("ünïcödé wörds", 8, "ünïcö...")]
    fn long_lines_are_cut_between_characters(
        #[case] text: &str,
        #[case] columns: usize,
        #[case] expected: &str,
    ) {
        assert_eq!(shorten(text, columns), expected);
    }

    #[test]
    fn shortfalls_are_kept_in_order() {
        let progress = Progress::new();
        progress.shortfall("no go");
        progress.shortfall("no docker");
        assert_eq!(progress.shortfalls(), ["no go", "no docker"]);
    }
}
