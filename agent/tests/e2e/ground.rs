//! The base of every test: the agent's binary, a temporary folder, and messages for what this machine lacks.
//!
//! Yields [`Ground`], which starts runs. A test that lacks something says so and returns; it does not fail.
//! Ground itself starts only `guestscope doctor`, once.

use std::{
    ffi::OsString,
    io::Write as _,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::running::Start;

/// Limit of every wait.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// The agent's binary, or the reason why no test can use it.
static AGENT: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let agent = variable("GUESTSCOPE_BIN").map(PathBuf::from).ok_or("GUESTSCOPE_BIN is not set")?;
    if !nix::unistd::geteuid().is_root() {
        return Err("only root may load BPF programs".to_owned());
    }
    let doctor = Command::new(&agent).arg("doctor").output().expect("GUESTSCOPE_BIN can be run");
    match doctor.status.code() {
        Some(0) => Ok(agent),
        Some(1) => Err("this kernel does not let it observe anything: see `guestscope doctor`".to_owned()),
        _ => panic!("guestscope doctor: {}: {}", doctor.status, String::from_utf8_lossy(&doctor.stderr)),
    }
});

/// The value of a variable, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Reports a skipped test in the form that the project's test verb counts, written past libtest's capture.
pub(crate) fn skipped(name: &str, reason: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {name}: {reason}");
}

/// Folder and agent of a test.
pub(crate) struct Ground {
    agent: PathBuf,
    folder: TempDir,
}

impl Ground {
    /// For the test of this name; none, with a note on stdout, if nothing can be observed here.
    pub(crate) fn new(test: &str) -> Option<Self> {
        Some(Self::with(AGENT.as_ref().map_err(|reason| skipped(test, reason)).ok()?.clone()))
    }

    /// With this agent, without checking what can be observed: for tests that need less than [`Self::new`].
    pub(crate) fn with(agent: PathBuf) -> Self {
        let folder = tempfile::Builder::new().prefix("e2e-").tempdir().expect("a folder can be made");
        // Programs of other users have to enter it.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
        Self { agent, folder }
    }

    /// A path in this test's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The agent's binary.
    pub(crate) fn agent(&self) -> &Path {
        &self.agent
    }

    /// The notes that the subject has written so far.
    pub(crate) fn book(&self) -> String {
        std::fs::read_to_string(self.path("book")).unwrap_or_default()
    }

    /// A command of the agent.
    pub(crate) fn command(&self, words: &[&str]) -> Start {
        Start::new(self.folder.path(), &self.agent).words(words)
    }

    /// `guestscope run --json` into the folder `runs`; the caller adds options and the program.
    pub(crate) fn run(&self) -> Start {
        let runs = self.path("runs");
        let start = self.command(&["run", "--json", "--output"]).word(runs);
        start.environment("E2E_BOOK", self.path("book"))
    }

    /// [`Self::run`] of the subject in this role.
    pub(crate) fn run_subject(&self, role: &[&str]) -> Start {
        self.run().program(subject()).words(role)
    }
}

/// Examples are built beside this test's folder.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    let program = profile.join("examples").join(name);
    assert!(program.exists(), "build it with `--example {name}`: {}", program.display());
    program
}

/// The subject: a program that does known things.
pub(crate) fn subject() -> PathBuf {
    example("e2e_subject")
}

/// The marker's program of tokio tasks that take turns.
pub(crate) fn interleaved_tokio() -> PathBuf {
    example("interleaved_tokio")
}

/// A file of this crate's tests or of the marker's.
pub(crate) fn file(below_the_crate: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below_the_crate)
}

/// A Python interpreter; none, with a note on stdout, if there is none.
pub(crate) fn python(test: &str) -> Option<PathBuf> {
    let given = variable("GUESTSCOPE_PYTHON").map(PathBuf::from);
    let found = given.or_else(|| guestscope::child::resolve("python3").ok());
    if found.is_none() {
        skipped(test, "no Python: neither GUESTSCOPE_PYTHON nor python3 in PATH");
    }
    found
}

/// Repeats `look` until it gives a value.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(Instant::now() < end, "never came: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
