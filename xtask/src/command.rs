//! Runs other programs: their output goes to a log and, line by line, to the step that waits for them.
//!
//! Yields [`Run`] for long work (log, time limit, last lines shown on failure) and [`text`] / [`succeeds`]
//! for short questions. A child never reads the terminal, and server names never reach a log (see `redact`).

use std::{
    fs::{self, File},
    io::{BufReader, Read, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use crate::{failure::failure, process, progress::Step, redact::hide_hosts};

/// How many lines of a failed command are repeated in its error.
const TAIL_LINES: usize = 20;
/// Far beyond any honest time of setting up or building: it ends what hangs.
pub(crate) const LIMIT: Duration = Duration::from_hours(1);
/// How long output may still trickle in after the child has ended, from a grandchild that kept the pipe.
const DRAIN: Duration = Duration::from_secs(2);

/// One long-running command.
pub(crate) struct Run<'a> {
    pub(crate) step: &'a Step,
    pub(crate) log: &'a Path,
    /// Longer than this, and the command is ended with everything it started.
    pub(crate) limit: Duration,
}

/// What a finished command left.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) timed_out: bool,
    /// Everything it wrote, both streams in the order of arrival, without server names.
    pub(crate) text: String,
}

impl Run<'_> {
    /// Runs the command to its end; fails if it cannot be started, is too slow, or ends with another status
    /// than 0.
    pub(crate) fn check(&self, command: &mut Command) -> Result<String> {
        let name = program(command);
        let finished = self.finish(command)?;
        if finished.timed_out {
            return Err(failure(
                format!("{name} took longer than its limit: {} s", self.limit.as_secs()),
                format!("its output is in {}", self.log.display()),
            ));
        }
        if finished.status.success() {
            return Ok(finished.text);
        }
        let tail = tail(&finished.text);
        Err(failure(
            format!("{name} failed: {}\n{tail}", finished.status),
            format!("the whole output is in {}", self.log.display()),
        ))
    }

    /// Runs the command to its end, whatever its status.
    pub(crate) fn finish(&self, command: &mut Command) -> Result<Finished> {
        if let Some(folder) = self.log.parent() {
            fs::create_dir_all(folder).with_context(|| format!("log folder: {}", folder.display()))?;
        }
        let mut log = File::create(self.log).with_context(|| format!("log file: {}", self.log.display()))?;
        let name = program(command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start: `{name}`"))?;
        let (send, receive) = mpsc::channel();
        spawn_reader(child.stdout.take(), send.clone());
        spawn_reader(child.stderr.take(), send);
        let mut text = String::new();
        let mut take = |line: Vec<u8>| -> Result<()> {
            let line = hide_hosts(&String::from_utf8_lossy(&line));
            writeln!(log, "{line}").with_context(|| format!("log file: {}", self.log.display()))?;
            if !line.trim().is_empty() {
                self.step.update(line.trim());
            }
            text.push_str(&line);
            text.push('\n');
            Ok(())
        };
        let started = Instant::now();
        let mut timed_out = false;
        let status = loop {
            match receive.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => take(line)?,
                Err(RecvTimeoutError::Timeout) => self.step.tick(),
                Err(RecvTimeoutError::Disconnected) => {
                    break wait(&mut child, started, self.limit, &mut timed_out)?;
                }
            }
            if started.elapsed() > self.limit {
                timed_out = true;
                process::end_tree(child.id());
                break child.wait()?;
            }
            if let Some(status) = child.try_wait()? {
                break status;
            }
        };
        while let Ok(line) = receive.recv_timeout(DRAIN) {
            take(line)?;
        }
        Ok(Finished { status, timed_out, text })
    }
}

/// Waits for a child that has closed its output, within the limit.
fn wait(child: &mut Child, started: Instant, limit: Duration, timed_out: &mut bool) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() > limit {
            *timed_out = true;
            process::end_tree(child.id());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Sends each line of a stream, without its end; a carriage return ends a line too, as progress bars use it.
fn spawn_reader(stream: Option<impl Read + Send + 'static>, send: Sender<Vec<u8>>) {
    let Some(stream) = stream else { return };
    thread::spawn(move || {
        let mut line = Vec::new();
        for byte in BufReader::with_capacity(64 << 10, stream).bytes() {
            match byte {
                Ok(b'\n' | b'\r') => {
                    if send.send(std::mem::take(&mut line)).is_err() {
                        return;
                    }
                }
                Ok(byte) => line.push(byte),
                Err(_) => break,
            }
        }
        if !line.is_empty() {
            drop(send.send(line));
        }
    });
}

/// The trimmed stdout of a short command, or nothing if it cannot be started or fails.
pub(crate) fn text(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Output of a command that succeeded.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_owned();
    let output = command.output().with_context(|| format!("could not start: {}", name.display()))?;
    ensure!(output.status.success(), "{}: {}", output.status, tail(&String::from_utf8_lossy(&output.stderr)));
    Ok(output)
}

/// Whether a short command starts and ends with status 0.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    text(command).is_some()
}

/// Where a program stands on PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The last lines of a text, indented.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines[from..].iter().map(|line| format!("  | {line}")).collect::<Vec<_>>().join("\n")
}

fn program(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args().take(2));
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, process::Command, time::Duration};

    use super::{Run, find, succeeds, tail, text};
    use crate::progress::{Progress, Step};

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn run<'a>(step: &'a Step, log: &'a Path, limit: Duration) -> Run<'a> {
        Run { step, log, limit }
    }

    #[test]
    fn both_streams_reach_the_log_without_server_names() {
        let folder = tempfile::tempdir().unwrap();
        let (log, step) = (folder.path().join("a/b.log"), Progress::new().step("test"));
        let script = "echo from https://private.example/x; echo bad >&2; printf 'a\\rb'";
        run(&step, &log, Duration::from_secs(20)).check(&mut sh(script)).unwrap();
        let mut lines: Vec<_> = fs::read_to_string(log).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["a", "b", "bad", "from <url>"]);
    }

    #[test]
    fn a_failed_command_names_its_status_and_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let (log, step) = (folder.path().join("log"), Progress::new().step("test"));
        let error = run(&step, &log, Duration::from_secs(20)).check(&mut sh("echo why; exit 3")).unwrap_err();
        let shown = crate::failure::render(&error);
        assert!(
            shown.contains("exit status: 3") && shown.contains("  | why") && shown.contains("hint: "),
            "{shown}"
        );
    }

    #[test]
    fn a_command_over_its_limit_ends_with_everything_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let (log, step) = (folder.path().join("log"), Progress::new().step("test"));
        let finished = run(&step, &log, Duration::from_millis(300))
            .finish(&mut sh("sleep 1000 & echo $!; wait"))
            .unwrap();
        assert!(finished.timed_out);
        let grandchild = finished.text.lines().next().unwrap().trim().to_owned();
        let state = fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "still running: {state}");
    }

    #[test]
    fn short_questions_have_short_answers() {
        assert_eq!(text(&mut sh("echo ' yes '")).as_deref(), Some("yes"));
        assert_eq!(text(&mut sh("exit 1")), None);
        assert_eq!(text(&mut Command::new("no-such-program-here")), None);
        assert!(succeeds(&mut sh("true")) && find("sh").is_some() && find("no-such-program-here").is_none());
    }

    #[test]
    fn the_tail_keeps_the_end() {
        let long = (0..100).map(|n| format!("line {n}\n")).collect::<Vec<_>>().join("\n");
        assert_eq!(tail(&long).lines().count(), 20);
        assert!(tail(&long).ends_with("  | line 99"));
    }
}
