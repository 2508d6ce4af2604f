//! An NVML process at work on the stub: started, read with a limit on every wait, and killed at the end of
//! its test.
//!
//! Yields [`Running`] and the path of the stub.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use guestscope_nvml::{Hello, Message, Processes, Sample};

/// Limit for whatever must happen; only a failing test waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Silence of this length is taken for a hang: a working NVML process says something every [`PERIOD_MS`].
const SILENCE: Duration = Duration::from_secs(1);
pub(crate) const PERIOD_MS: &str = "10";
pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_guestscope-nvml");

/// libnvidia_ml_stub.so: cargo builds examples before tests, into the folder beside theirs.
pub(crate) fn stub() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    let stub = profile.join("examples/libnvidia_ml_stub.so");
    assert!(stub.exists(), "build it with `--example nvidia_ml_stub`: {}", stub.display());
    stub
}

/// The NVML process's command on the stub with this behaviour; an empty word means none.
pub(crate) fn command(behaviour: &str) -> Command {
    let mut command = Command::new(HELPER);
    command.arg(stub()).arg(PERIOD_MS).stdin(Stdio::null());
    behave(&mut command, behaviour);
    command
}

pub(crate) fn behave(command: &mut Command, behaviour: &str) {
    command.env_remove("GUESTSCOPE_NVML_STUB");
    if !behaviour.is_empty() {
        command.env("GUESTSCOPE_NVML_STUB", behaviour);
    }
}

/// An NVML process and what it says. Dropping it kills the NVML process.
pub(crate) struct Running {
    pub(crate) child: Child,
    messages: Receiver<Message>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the helper starts");
        let lines = BufReader::new(child.stdout.take().expect("its output is a pipe")).lines();
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("a line is a message");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { child, messages }
    }

    pub(crate) fn on_stub(behaviour: &str) -> Self {
        Self::start(command(behaviour))
    }

    /// The next message; fails the test when none comes.
    pub(crate) fn message(&self) -> Message {
        self.messages.recv_timeout(PATIENCE).expect("a message")
    }

    pub(crate) fn hello(&self) -> Hello {
        let message = self.message();
        let Message::Hello(hello) = message else { panic!("no hello: {message:?}") };
        hello
    }

    pub(crate) fn sample(&self) -> Sample {
        let message = self.message();
        let Message::Sample(sample) = message else { panic!("no sample: {message:?}") };
        sample
    }

    pub(crate) fn failed(&self) -> String {
        let message = self.message();
        let Message::Failed(failed) = message else { panic!("no failure: {message:?}") };
        failed.what
    }

    pub(crate) fn processes(&self) -> Processes {
        let message = self.message();
        let Message::Processes(processes) = message else { panic!("no processes: {message:?}") };
        processes
    }

    /// Asserts that it says nothing, lives, and can be killed.
    pub(crate) fn hangs(mut self) {
        assert_eq!(self.messages.recv_timeout(SILENCE), Err(RecvTimeoutError::Timeout));
        assert_eq!(self.child.try_wait().expect("it can be asked for"), None);
        self.child.kill().expect("it can be killed");
        assert_eq!(self.end().signal(), Some(9));
    }

    /// How it ended; fails the test when it does not end or has more to say.
    pub(crate) fn end(mut self) -> ExitStatus {
        let end = end_of(&mut self.child);
        assert_eq!(self.messages.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
        end
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Either fails only where the NVML process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits, with a limit, for a process to end.
pub(crate) fn end_of(child: &mut Child) -> ExitStatus {
    let mut end = None;
    until("the process ends", || {
        end = child.try_wait().expect("it can be asked for");
        end.is_some()
    });
    end.expect("it has just been seen")
}

/// Waits, with a limit, until something is true.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
