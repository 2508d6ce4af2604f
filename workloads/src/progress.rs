//! A bar on standard error for work that takes seconds, if a person looks at a terminal; else nothing. If the
//! terminal belongs to the parent process, lines from which the parent draws the bar. It counts steps and
//! does not know what they are.

use std::{
    borrow::Cow,
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::say;

/// Prefix of such a line; the number of finished steps follows.
const DONE: &str = "steps done: ";
/// Interval between two lines: as often as the bar is drawn, however short steps are.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// How a job shows its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not at all.
    Hidden,
    /// As a bar, where a person looks at a terminal.
    Bar,
    /// As lines, for the process that started it.
    Lines,
}

/// The progress of a running job.
#[derive(Debug)]
pub enum Shown {
    Nowhere,
    OnBar(ProgressBar),
    InLines(Lines),
}

/// Lines on standard error, each with the number of finished steps.
#[derive(Debug)]
pub struct Lines {
    done: u64,
    steps: u64,
    told: Option<Instant>,
}

impl Progress {
    /// The progress display of a job of `steps` steps; `what` is written after the count.
    pub fn show(self, steps: u64, what: &'static str) -> Shown {
        match self {
            Self::Hidden => Shown::Nowhere,
            Self::Bar => Shown::OnBar(bar(steps, what)),
            Self::Lines => Shown::InLines(Lines { done: 0, steps, told: None }),
        }
    }
}

impl Shown {
    /// Counts one more finished step.
    pub fn step(&mut self) {
        match self {
            Self::Nowhere => {}
            Self::OnBar(bar) => bar.inc(1),
            Self::InLines(lines) => {
                if let Some(line) = lines.step(Instant::now()) {
                    say(line);
                }
            }
        }
    }

    /// Ends the display: a bar leaves the terminal as it was.
    pub fn end(self) {
        if let Self::OnBar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Lines {
    /// The line to write after one more step: none soon after the last line, unless all steps are done.
    fn step(&mut self, now: Instant) -> Option<String> {
        self.done += 1;
        let is_soon = self.told.is_some_and(|told| now.saturating_duration_since(told) < TELL_EVERY);
        if is_soon && self.done < self.steps {
            return None;
        }
        self.told = Some(now);
        Some(format!("{DONE}{}", self.done))
    }
}

/// The number of finished steps, if the line reports it.
pub fn told(line: &str) -> Option<u64> {
    line.strip_prefix(DONE)?.parse().ok()
}

/// Whether a person looks at what is written to standard error.
pub fn is_seen() -> bool {
    stderr().is_terminal()
}

/// A bar of `steps`; `what` is written behind the count.
pub fn bar(steps: u64, what: impl Into<Cow<'static, str>>) -> ProgressBar {
    if !is_seen() {
        return ProgressBar::hidden();
    }
    // Ten pictures per second: drawing takes about 20 us, so 0.02 % of one CPU.
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
    match ProgressStyle::with_template("  {pos}/{len} {msg}  [{bar:40}]  {elapsed}") {
        Ok(style) => bar.with_style(style.progress_chars("##.")).with_message(what),
        Err(_) => bar.with_message(what),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Lines, told};

    #[test]
    fn a_line_comes_ten_times_a_second_and_at_the_end() {
        let mut lines = Lines { done: 0, steps: 500, told: None };
        let start = Instant::now();
        let said: Vec<(u64, String)> =
            (0..500).filter_map(|ms| Some((ms, lines.step(start + Duration::from_millis(ms))?))).collect();
        let told: Vec<(u64, Option<u64>)> = said.iter().map(|(ms, line)| (*ms, told(line))).collect();
        let expected = [(0, 1), (100, 101), (200, 201), (300, 301), (400, 401), (499, 500)];
        assert_eq!(told, expected.map(|(ms, done)| (ms, Some(done))));
    }

    #[test]
    fn other_lines_tell_nothing() {
        for line in ["started", "steps done: many", "warning: steps done: 3", ""] {
            assert_eq!(told(line), None, "{line}");
        }
    }
}
