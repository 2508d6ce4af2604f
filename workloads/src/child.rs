//! Child processes of this same program that a workload runs beside itself. Yields their output and exit
//! status; each is killed when its parent ends, in whatever way. It does not know what they compute.

use std::{
    ffi::OsString,
    io::{self, BufRead as _, BufReader, Read},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::Sender,
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::{Pid, getppid},
};

use crate::{progress, started};

/// Names the file in which `guestscope run` expects the description of the workload.
pub const WORKLOAD_FILE: &str = "GUESTSCOPE_WORKLOAD_FILE";

/// Interval between two checks whether a child has ended.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes kept of a child's standard error; the rest is read and dropped.
const KEPT_BYTES: usize = 64 * 1024;

/// Errors of a child process.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    #[error("cannot start a process: {name} ({source})")]
    Start { name: String, source: io::Error },
    #[error("cannot wait for a process: {name} ({source})")]
    Wait { name: String, source: io::Error },
    #[error("{name} ended too early: {how}")]
    Ended { name: String, how: String },
}

impl ChildError {
    /// The next action for the reader of the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "name a program that is there; it is looked for in PATH"
            }
            Self::Start { .. } | Self::Wait { .. } => "there may be too many processes or too little memory",
            Self::Ended { .. } => "run it by itself to see all that it says",
        }
    }
}

/// A running child process, and the threads that read its output.
#[derive(Debug)]
pub struct Child {
    name: String,
    process: std::process::Child,
    ended: Option<ExitStatus>,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Child {
    /// Starts this program with these arguments. Each line of its standard error goes to `lines`; the child
    /// then also reports when its first step begins.
    pub fn start(
        name: impl Into<String>,
        arguments: &[OsString],
        lines: Option<Sender<String>>,
    ) -> Result<Self, ChildError> {
        let name = name.into();
        Self::start_by(Self::own(&name)?, name, arguments, lines)
    }

    /// A command that runs this program, without arguments.
    pub fn own(name: &str) -> Result<Command, ChildError> {
        Self::through(&[], name)
    }

    /// A command that runs another program, if `words` is not empty, with the path of this one appended.
    pub fn through(words: &[OsString], name: &str) -> Result<Command, ChildError> {
        let own = std::env::current_exe();
        let own = own.map_err(|source| ChildError::Start { name: name.to_owned(), source })?.into_os_string();
        let mut words = words.iter().chain([&own]);
        let mut command = Command::new(words.next().unwrap_or(&own));
        command.args(words);
        Ok(command)
    }

    /// Starts a command made by [`Child::own`] or [`Child::through`].
    pub fn start_by(
        mut command: Command,
        name: impl Into<String>,
        arguments: &[OsString],
        lines: Option<Sender<String>>,
    ) -> Result<Self, ChildError> {
        let name = name.into();
        let unable = |source| ChildError::Start { name: name.clone(), source };
        // Only the process that guestscope started writes the workload's description.
        command.args(arguments).env_remove(WORKLOAD_FILE);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove(started::ASKED).envs(lines.is_some().then_some((started::ASKED, "1")));
        let parent = nix::unistd::getpid();
        // SAFETY: between fork and exec it makes two system calls and allocates nothing.
        unsafe { command.pre_exec(move || end_with(parent)) };
        let mut process = command.spawn().map_err(unable)?;
        let (out, err) = (process.stdout.take(), process.stderr.take());
        let out = out.map(|out| thread::spawn(move || text_of(out)));
        let err = err.map(|err| thread::spawn(move || lines_of(err, lines.as_ref())));
        Ok(Self { name, process, ended: None, out, err })
    }

    /// The child's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The exit status, if the child has ended.
    pub fn look(&mut self) -> Result<Option<ExitStatus>, ChildError> {
        if self.ended.is_none() {
            let ended = self.process.try_wait();
            self.ended = ended.map_err(|source| ChildError::Wait { name: self.name.clone(), source })?;
        }
        Ok(self.ended)
    }

    /// Asks the child to end, with SIGTERM.
    pub fn ask_to_end(&self) {
        if self.ended.is_none() {
            // It may have ended already; it is not reaped before `look`, so no other process has its ID.
            let _ = kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGTERM);
        }
    }

    /// Standard output and standard error, once the child has ended.
    pub fn into_said(mut self) -> (String, String) {
        let join = |thread: &mut Option<JoinHandle<String>>| {
            thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        (join(&mut self.out), join(&mut self.err))
    }

    /// An error that tells how the child ended.
    pub fn failed(self, status: ExitStatus) -> ChildError {
        let name = self.name.clone();
        let (_, said) = self.into_said();
        ChildError::Ended { name, how: how(status, &said) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // One that has ended needs no signal; either way it is reaped.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// Has the kernel kill this process when `parent` ends; the parent may have ended already.
fn end_with(parent: Pid) -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() == parent { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Its own error, or the signal that ended it.
fn how(status: ExitStatus, said: &str) -> String {
    let error = said.lines().find_map(|line| line.strip_prefix("error: "));
    match (error, status.signal(), status.code()) {
        (Some(error), ..) => error.to_owned(),
        (None, Some(signal), _) => format!("killed by signal {signal}"),
        (None, None, Some(0)) => "it was done".to_owned(),
        (None, None, code) => format!("exit code {}", code.unwrap_or_default()),
    }
}

fn text_of(mut stream: impl Read) -> String {
    let mut bytes = Vec::new();
    // What came before a failed read is worth having.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn lines_of(stream: impl Read, lines: Option<&Sender<String>>) -> String {
    let mut all = String::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        // A progress line is worth nothing later, and those of a long job would leave no room for other
        // lines.
        if all.len() < KEPT_BYTES && progress::told(&line).is_none() {
            all.push_str(&line);
            all.push('\n');
        }
        if let Some(lines) = lines {
            // Nobody listens any more, and it still must not wait for room in the pipe.
            let _ = lines.send(line);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt as _, sync::mpsc::channel};

    use rstest::rstest;

    use super::{ExitStatus, how, lines_of};

    #[rstest]
    #[case(0x200, "error: no room\n\nhint: none\n", "no room")]
    #[case(9, "", "killed by signal 9")]
    #[case(0x100, "what\n", "exit code 1")]
    #[case(0, "", "it was done")]
    fn an_end_is_told(#[case] status: i32, #[case] said: &str, #[case] expected: &str) {
        assert_eq!(how(ExitStatus::from_raw(status), said), expected);
    }

    /// A job may write ten progress lines a second for days; the error that follows them is still kept.
    #[test]
    fn progress_lines_are_passed_on_and_not_kept() {
        let steps: Vec<String> = (1..=10_000).map(|step| format!("steps done: {step}\n")).collect();
        let said = format!("started\n{}error: no room\n", steps.concat());
        let (sender, lines) = channel();
        assert_eq!(lines_of(said.as_bytes(), Some(&sender)), "started\nerror: no room\n");
        drop(sender);
        assert!(lines.iter().eq(said.lines()), "each is heard, in order");
    }
}
