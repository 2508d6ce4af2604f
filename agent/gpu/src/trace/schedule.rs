//! When windows open.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// Length of a window that a slow request opens.
const TRIGGERED: Duration = Duration::from_millis(200);
/// Least time from one such window to the next.
const APART: Duration = Duration::from_secs(10);
/// Orders of an endless window are renewed after this time, so that it ends with the agent.
const RENEWED: Duration = Duration::from_secs(1);
/// Longest window and longest period.
const LONGEST: Duration = Duration::from_hours(1);

/// A choice of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// A window of `open` begins every `every`.
    Every {
        /// Length of a window.
        open: Duration,
        /// From the start of one to the start of the next.
        every: Duration,
    },
    /// One window from start to end.
    Always,
    /// A window after each slow request.
    Trigger,
}

impl Schedule {
    /// Reads `200ms/10s`, `always` or `trigger`; `time` reads one time.
    ///
    /// # Errors
    /// The text is none of them; for people.
    pub fn parse(text: &str, time: impl Fn(&str) -> Option<Duration>) -> Result<Self, String> {
        let known = "neither always nor trigger nor two times such as 200ms/10s";
        match text {
            "always" => return Ok(Self::Always),
            "trigger" => return Ok(Self::Trigger),
            _ => {}
        }
        let (open, every) = text.split_once('/').ok_or(known)?;
        let (open, every) = (time(open).ok_or(known)?, time(every).ok_or(known)?);
        if open < Duration::from_millis(1) {
            return Err("a window has 1ms at least".to_owned());
        }
        if every <= open || every > LONGEST {
            return Err("the second time must be longer than the first, and at most 1h".to_owned());
        }
        Ok(Self::Every { open, every })
    }

    /// Length of a window, and the time from its start to that of the next.
    pub(super) const fn window(self) -> (Duration, Duration) {
        match self {
            Self::Every { open, every } => (open, every),
            Self::Always => (Duration::from_secs(3), RENEWED),
            Self::Trigger => (TRIGGERED, APART),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every { open, every } => write!(to, "{open:?}/{every:?}"),
            Self::Always => write!(to, "always"),
            Self::Trigger => write!(to, "trigger"),
        }
    }
}

/// When the next window may open.
#[derive(Debug)]
pub(super) struct Due {
    schedule: Schedule,
    at: Instant,
    is_triggered: bool,
}

impl Due {
    pub(super) fn new(schedule: Schedule, now: Instant) -> Self {
        Self { schedule, at: now, is_triggered: false }
    }

    /// Length of a window for a program that has just come, and has missed the last one.
    pub(super) fn at_once(&self) -> Option<Duration> {
        (self.schedule != Schedule::Trigger).then_some(self.schedule.window().0)
    }

    /// A request was slow.
    pub(super) fn trigger(&mut self) {
        self.is_triggered = true;
    }

    /// When to ask again; none before a request is slow.
    pub(super) fn at(&self) -> Option<Instant> {
        (self.schedule != Schedule::Trigger || self.is_triggered).then_some(self.at)
    }

    /// Length of the window that opens now, if one does.
    pub(super) fn take(&mut self, now: Instant) -> Option<Duration> {
        self.at().filter(|at| *at <= now)?;
        let (open, every) = self.schedule.window();
        self.at = now + every;
        self.is_triggered = false;
        Some(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Option<Duration> {
        let ms = text.strip_suffix("ms").map(|ms| ms.parse().ok().map(Duration::from_millis));
        ms.unwrap_or_else(|| text.strip_suffix('s')?.parse().ok().map(Duration::from_secs))
    }

    #[test]
    fn schedules_are_read_and_written() {
        for text in ["200ms/10s", "1ms/1s", "always", "trigger"] {
            assert_eq!(Schedule::parse(text, time).unwrap().to_string(), text);
        }
        for text in ["", "200ms", "10s/10s", "10s/1s", "0ms/1s", "x/1s", "1s/x", "1s/9999s", "never"] {
            assert!(Schedule::parse(text, time).is_err(), "{text}");
        }
    }

    #[test]
    fn windows_come_when_they_are_due() {
        let begin = Instant::now();
        let (open, every) = (Duration::from_millis(200), Duration::from_secs(10));
        let mut due = Due::new(Schedule::Every { open, every }, begin);
        assert_eq!(due.take(begin), Some(open));
        assert_eq!(due.take(begin + open), None);
        assert_eq!(due.take(begin + every), Some(open));
        let mut due = Due::new(Schedule::Trigger, begin);
        assert_eq!((due.at(), due.take(begin + every)), (None, None));
        due.trigger();
        assert_eq!(due.take(begin), Some(TRIGGERED));
        due.trigger();
        assert_eq!(due.take(begin + open), None);
        assert_eq!(due.take(begin + APART), Some(TRIGGERED));
    }
}
