//! Two programs that take turns: one is stopped while the other works, so that both have the same machine.
//!
//! Yields each one's output and working time. Running one complete program after the other takes half a
//! minute, in which the speed of a shared machine changes: ratios of ResNet-50 differed by a quarter from
//! round to round, and by 4 % in turns of 0.7 s.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{command, process};

/// Asks `guestscope-workloads` to print a line when its first request begins.
const ASK: (&str, &str) = ("GUESTSCOPE_WORKLOADS_TELL_START", "1");
/// That line, on standard error.
const STARTED: &str = "started";
/// Limit for the start, which may read a gigabyte of weights from the disk.
const START_LIMIT: Duration = Duration::from_mins(5);

/// A line that a program printed.
enum Said {
    Output(String),
    Error(String),
}

/// A program that works in turns.
struct Runner {
    name: String,
    child: Child,
    said: mpsc::Receiver<Said>,
    errors: String,
    worked: Duration,
    result: Option<Value>,
}

/// Result of a program.
pub(super) struct Outcome {
    /// The line of JSON that it printed.
    pub(super) result: Value,
    /// Time of its turns, from its first request to that line.
    pub(super) worked: Duration,
}

/// Starts both, one after the other, up to their first request, and lets them work in turns of length `turn`
/// until both have printed their line of JSON.
///
/// # Errors
///
/// A program ends without such lines, or takes too long to begin.
pub(super) fn take(first: &mut Command, second: &mut Command, turn: Duration) -> Result<[Outcome; 2]> {
    let mut runners = [Runner::start(first)?, Runner::start(second)?];
    while runners.iter().any(|runner| runner.result.is_none()) {
        for runner in &mut runners {
            runner.work(turn)?;
        }
    }
    let [first, second] = runners;
    Ok([first.outcome()?, second.outcome()?])
}

impl Runner {
    /// Waits for the program's first request, and stops it there.
    fn start(command: &mut Command) -> Result<Self> {
        let name = format!("{command:?}");
        // In later rounds this is set already, which changes nothing.
        process::kill_with_parent(command);
        command.env(ASK.0, ASK.1).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("could not start: {name}"))?;
        let (sender, said) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            tell(output, sender.clone(), Said::Output);
        }
        if let Some(errors) = child.stderr.take() {
            tell(errors, sender, Said::Error);
        }
        let mut runner =
            Self { name, child, said, errors: String::new(), worked: Duration::ZERO, result: None };
        loop {
            match runner.said.recv_timeout(START_LIMIT) {
                Ok(Said::Error(line)) if line == STARTED => break,
                Ok(said) => runner.note(said),
                Err(error) => return Err(runner.silent(error)),
            }
        }
        runner.signal(Signal::SIGSTOP)?;
        Ok(runner)
    }

    /// Lets it work for one turn, or to its end if that comes first.
    fn work(&mut self, turn: Duration) -> Result<()> {
        if self.result.is_some() {
            return Ok(());
        }
        let begin = Instant::now();
        self.signal(Signal::SIGCONT)?;
        loop {
            match self.said.recv_timeout(turn.saturating_sub(begin.elapsed())) {
                Ok(Said::Output(line)) if line.starts_with('{') => {
                    self.worked += begin.elapsed();
                    let value = serde_json::from_str(&line);
                    self.result =
                        Some(value.with_context(|| format!("not understood: {}: {line}", self.name))?);
                    // The other one has its turn once this one has ended.
                    self.child.wait()?;
                    return Ok(());
                }
                Ok(said) => self.note(said),
                Err(RecvTimeoutError::Timeout) => {
                    self.signal(Signal::SIGSTOP)?;
                    self.worked += begin.elapsed();
                    return Ok(());
                }
                Err(error @ RecvTimeoutError::Disconnected) => return Err(self.silent(error)),
            }
        }
    }

    fn note(&mut self, said: Said) {
        if let Said::Error(line) = said {
            self.errors += &line;
            self.errors.push('\n');
        }
    }

    fn silent(&self, error: RecvTimeoutError) -> anyhow::Error {
        let why = match error {
            RecvTimeoutError::Timeout => "no request for minutes",
            RecvTimeoutError::Disconnected => "no result",
        };
        anyhow::anyhow!("{why}: {}: {}", self.name, command::tail(&self.errors))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?);
        kill(pid, signal).with_context(|| format!("{signal}: {}", self.name))
    }

    fn outcome(mut self) -> Result<Outcome> {
        let Some(result) = self.result.take() else { bail!("no result: {}", self.name) };
        Ok(Outcome { result, worked: self.worked })
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Neither has an effect on a process that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Forwards lines until the end.
fn tell(from: impl Read + Send + 'static, to: Sender<Said>, of: fn(String) -> Said) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { return };
            if to.send(of(line)).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Counts to 300,000, in about 0.5 s.
    const WORK: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    const TURN: Duration = Duration::from_millis(20);

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    fn state(runner: &Runner) -> char {
        let text = fs::read_to_string(format!("/proc/{}/stat", runner.child.id())).unwrap();
        text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    /// The kernel stops a process when it next enters or leaves the kernel, a moment after the signal.
    fn is_stopped(runner: &Runner) -> bool {
        let limit = Instant::now() + Duration::from_secs(10);
        while Instant::now() < limit {
            if state(runner) == 'T' {
                return true;
            }
            thread::yield_now();
        }
        false
    }

    #[test]
    fn both_work_to_their_end_and_what_came_before_the_start_does_not_count() {
        let begin = Instant::now();
        let text = |name: &str| {
            format!(
                "echo '{{}}'; {WORK}; echo words >&2; echo started >&2; {WORK}; echo '{{\"by\":\"{name}\"}}'"
            )
        };
        let [first, second] = take(&mut shell(&text("a")), &mut shell(&text("b")), TURN).unwrap();
        assert_eq!([&first.result["by"], &second.result["by"]], ["a", "b"]);
        assert!(first.worked > TURN && second.worked > TURN);
        assert!(first.worked + second.worked < begin.elapsed());
    }

    #[test]
    fn one_is_stopped_when_its_turn_is_over() {
        let mut runner =
            Runner::start(&mut shell(&format!("echo started >&2; {WORK}; {WORK}; echo '{{}}'"))).unwrap();
        assert!(is_stopped(&runner));
        assert_eq!(runner.worked, Duration::ZERO);
        runner.work(TURN).unwrap();
        assert!(runner.result.is_none() && is_stopped(&runner));
        runner.work(START_LIMIT).unwrap();
        assert!(runner.result.is_some());
    }

    #[test]
    fn one_that_fails_says_why() {
        let mut good = shell(&format!("echo started >&2; {WORK}; echo '{{}}'"));
        for text in ["echo no weights >&2; exit 3", "echo started >&2; echo no weights >&2; exit 3"] {
            let error = take(&mut shell(text), &mut good, TURN).err().unwrap().to_string();
            assert!(error.starts_with("no result: ") && error.ends_with("no weights"), "{error}");
        }
        let mut bad = shell(&format!("echo started >&2; {WORK}; echo '{{'"));
        let error = take(&mut good, &mut bad, TURN).err().unwrap();
        assert!(error.to_string().starts_with("not understood: "), "{error}");
    }

    #[test]
    fn nothing_is_left_of_one_that_is_dropped_in_its_stop() {
        let runner = Runner::start(&mut shell("echo started >&2; while :; do :; done")).unwrap();
        let folder = format!("/proc/{}", runner.child.id());
        assert!(is_stopped(&runner) && fs::exists(&folder).unwrap());
        drop(runner);
        assert!(!fs::exists(&folder).unwrap());
    }
}
