//! Programs that a test starts: in their own process group, with a time limit, ended with the test.
//!
//! Yields [`Done`]: exit status and output. Output goes to files, so that no pipe can fill up. It knows of
//! the agent only where its summary begins.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde_json::Value;

use crate::ground::LIMIT;

/// Called in the child between fork and exec.
type Before = Box<dyn FnMut() -> io::Result<()> + Send + Sync>;

/// A program to be started.
pub(crate) struct Start {
    folder: PathBuf,
    words: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    before: Option<Before>,
    stdin: Stdio,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
}

impl Start {
    pub(crate) fn new(folder: &Path, program: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            words: vec![program.as_os_str().to_owned()],
            environment: Vec::new(),
            before: None,
            stdin: Stdio::null(),
            stdout: None,
            stderr: None,
        }
    }

    /// Adds an argument.
    pub(crate) fn word(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub(crate) fn words(self, words: &[&str]) -> Self {
        words.iter().fold(self, Self::word)
    }

    /// Adds `-- PROGRAM`, the program to observe.
    pub(crate) fn program(self, program: impl AsRef<OsStr>) -> Self {
        self.word("--").word(program)
    }

    /// Starts the program through this command, for instance `unshare`.
    pub(crate) fn through(mut self, words: &[&str]) -> Self {
        self.words.splice(0..0, words.iter().map(OsString::from));
        self
    }

    /// Sets this variable.
    pub(crate) fn environment(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), Some(value.as_ref().to_owned())));
        self
    }

    /// Removes this variable.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.environment.push((name.into(), None));
        self
    }

    /// Calls `change` in the child between fork and exec: system calls only, no allocation.
    pub(crate) fn before(mut self, change: impl FnMut() -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.before = Some(Box::new(change));
        self
    }

    /// Standard input.
    pub(crate) fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Standard output instead of a file that the test reads.
    pub(crate) fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = Some(stdout.into());
        self
    }

    /// Standard error instead of a file that the test reads.
    pub(crate) fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stderr = Some(stderr.into());
        self
    }

    /// Starts the program.
    pub(crate) fn spawn(self) -> Running {
        let Self { folder, words, environment, before, stdin, stdout, stderr } = self;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&folder).stdin(stdin).process_group(0);
        // Removes the test's own variables: those of cargo, and the user's OTLP settings.
        for (name, _) in std::env::vars_os() {
            if ["OTEL_", "SUDO_", "CARGO"]
                .iter()
                .any(|theirs| name.as_encoded_bytes().starts_with(theirs.as_bytes()))
            {
                command.env_remove(name);
            }
        }
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(before) = before {
            // SAFETY: callers of `before` pass functions that make system calls only.
            unsafe { command.pre_exec(before) };
        }
        let [out, err] = ["stdout", "stderr"].map(|name| folder.join(name));
        let create = |path: &Path| File::create(path).expect("the test's folder is writable");
        command.stdout(stdout.unwrap_or_else(|| create(&out).into()));
        command.stderr(stderr.unwrap_or_else(|| create(&err).into()));
        let child = command.spawn().unwrap_or_else(|error| panic!("starting {words:?}: {error}"));
        Running { child, words, folder, out, err, ended: false }
    }

    /// Runs the program to its end.
    pub(crate) fn finish(self) -> Done {
        self.spawn().finish()
    }
}

/// A running program. Dropping it ends its whole process group.
pub(crate) struct Running {
    child: Child,
    words: Vec<OsString>,
    folder: PathBuf,
    out: PathBuf,
    err: PathBuf,
    ended: bool,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("it is our child, and not waited for yet");
    }

    /// What it has written to its standard error so far.
    pub(crate) fn stderr(&self) -> String {
        text(&self.err)
    }

    /// Waits for the end of the program.
    pub(crate) fn finish(mut self) -> Done {
        let end = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            assert!(
                Instant::now() < end,
                "does not end: {:?}\n{}\n{}",
                self.words,
                text(&self.out),
                text(&self.err)
            );
            std::thread::sleep(Duration::from_millis(5));
        };
        self.ended = true;
        let (stdout, stderr) = (text(&self.out), text(&self.err));
        Done { status, stdout, stderr, folder: self.folder.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Processes that a killed agent left behind are in its process group and end here too. A test that
        // has seen the end may leave processes running on purpose.
        if !self.ended {
            let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// A finished program.
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) folder: PathBuf,
}

impl Done {
    /// Its exit code; 1,000 plus the signal if a signal ended it.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().or_else(|| self.status.signal().map(|signal| 1000 + signal)).unwrap_or(-1)
    }

    /// Panics with the program's output unless it ended with this code.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// The summary of `run --json`, which follows the program's own output.
    pub(crate) fn summary(&self) -> Value {
        let from =
            if self.stdout.starts_with("{\n") { Some(0) } else { self.stdout.find("\n{\n").map(|at| at + 1) };
        let from =
            from.unwrap_or_else(|| panic!("no summary in {:?}\nstderr:\n{}", self.stdout, self.stderr));
        serde_json::from_str(&self.stdout[from..]).expect("the summary is JSON and the last that is written")
    }

    /// A counter of the summary's losses.
    pub(crate) fn loss(&self, key: &str) -> u64 {
        self.summary()["losses"][key].as_u64().unwrap_or_else(|| panic!("no such loss: {key}"))
    }

    /// The losses that are not zero, without those that can occur on any machine: a storm of long waits fills
    /// their ring, a thread ends during a sum over its process, on 6.18 some ends of threads and I/Os reach
    /// no hook, the kernel skips a probe for any task (most often from 7.0 on), and read-ahead completes
    /// after its request.
    pub(crate) fn losses(&self) -> Vec<(String, u64)> {
        let summary = self.summary();
        let losses = summary["losses"].as_object().expect("losses are an object");
        let all =
            losses.iter().map(|(key, count)| (key.clone(), count.as_u64().expect("a loss is a number")));
        let usual = [
            "kernel_waits",
            "kernel_sums_torn",
            "kernel_ends_unseen",
            "kernel_ios",
            "kernel_runs_left_out",
            "pairing_late_ios",
        ];
        all.filter(|(key, count)| *count > 0 && !usual.contains(&key.as_str())).collect()
    }
}
