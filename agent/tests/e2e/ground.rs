//! Base of every test: the agent's binary, a folder of its own, and words for what is missing here.
//!
//! Yields [`Ground`], from which runs are started. A test whose need is absent says so and returns; it never
//! fails for that. It starts nothing but `guestscope doctor`, once.

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

/// Longest time of anything here.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// The agent, or why no test can use it.
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

/// Says why a test had to be left out, in the form that the project's test verb counts; past libtest's
/// capture.
pub(crate) fn skipped(name: &str, reason: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {name}: {reason}");
}

/// Folder and agent of a test.
pub(crate) struct Ground {
    agent: PathBuf,
    folder: TempDir,
}

impl Ground {
    /// Makes it for the test of this name; none, with a word on stdout, where nothing can be observed.
    pub(crate) fn new(test: &str) -> Option<Self> {
        Some(Self::with(AGENT.as_ref().map_err(|reason| skipped(test, reason)).ok()?.clone()))
    }

    /// With this agent, whatever may be observed here: tests that ask for less than [`Self::new`] judge that
    /// themselves.
    pub(crate) fn with(agent: PathBuf) -> Self {
        let folder = tempfile::Builder::new().prefix("e2e-").tempdir().expect("a folder can be made");
        // Programs of other users shall find their way in.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
        Self { agent, folder }
    }

    /// Something in this test's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The agent's binary.
    pub(crate) fn agent(&self) -> &Path {
        &self.agent
    }

    /// The subject's notes so far.
    pub(crate) fn book(&self) -> String {
        std::fs::read_to_string(self.path("book")).unwrap_or_default()
    }

    /// Any command of the agent.
    pub(crate) fn command(&self, words: &[&str]) -> Start {
        Start::new(self.folder.path(), &self.agent).words(words)
    }

    /// `guestscope run --json` into the folder `runs`; options and the program are still to come.
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

/// An example's binary lies beside this test's folder.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    let program = profile.join("examples").join(name);
    assert!(program.exists(), "build it with `--example {name}`: {}", program.display());
    program
}

/// The program that does one known thing.
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

/// An interpreter; none, with a word on stdout, where there is none.
pub(crate) fn python(test: &str) -> Option<PathBuf> {
    let given = variable("GUESTSCOPE_PYTHON").map(PathBuf::from);
    let found = given.or_else(|| guestscope::child::resolve("python3").ok());
    if found.is_none() {
        skipped(test, "no Python: neither GUESTSCOPE_PYTHON nor python3 in PATH");
    }
    found
}

/// Looks again and again until there is a value.
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
