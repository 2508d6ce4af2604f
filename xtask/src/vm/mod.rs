//! The verb `vm`: the agent and its kernel tests on every kernel of the matrix, and on this machine's.
//!
//! Yields a row for each kernel and environment, and a verdict on the supported ones. Guests run one after
//! the other. Only this machine's own row needs root; nothing outside the cache and `target/` is changed.

pub(crate) mod answers;
pub(crate) mod debian;
mod emulator;
pub(crate) mod guest;
mod initramfs;
pub(crate) mod matrix;
pub(crate) mod payload;
mod qemu;
mod report;
mod restorer;
pub(crate) mod session;
mod stopper;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use nix::unistd::geteuid;

use self::{
    answers::{Doctor, Said},
    debian::Image,
    guest::{Guest, Machine, Task},
    matrix::{Architecture, Kernel, Matrix, Row},
    payload::Payload,
    report::{Outcome, Seen},
};
use crate::{Xtask, artifact::AGENT, command::Run, kernel, test::libtest::Tally, toolchain::Toolchain};

/// Debian's `nobody`.
const NOBODY: u32 = 65_534;
/// Limits of a task, by the guest's clock; the kernel tests take 10 min, and 30 min on 7.3.
const SHORT: Duration = Duration::from_mins(2);
const TESTS: Duration = Duration::from_mins(45);
/// Limits of a whole guest, by this machine's clock: a second of a guest that counts instructions takes three
/// seconds on an idle CPU, and a hanging guest's clock may stand still.
const ROW_SHORT: Duration = Duration::from_mins(4);
const ROW: Duration = Duration::from_mins(90);

/// Factor on the limits for guests of another architecture: they are always emulated, and their programs are
/// not optimised.
const FOREIGN: u32 = 3;

/// The only test of the short form. It involves the cgroup's files, the kernel's throttle clock of the group,
/// which differs between kernels, and a named cause.
const SHORT_FAULT: &str = "quota";
/// The same for a reduced fidelity: a test that needs no privileges.
const SHORT_REDUCED: &str = "told_apart::case_3_lock";
/// Limit of all rows as a stage of the verb `test`: five times what they take on two cores.
const STAGE: Duration = Duration::from_mins(10);

/// Options of the verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Names of rows; all if there are none.
    pub(crate) names: Vec<String>,
    /// Run only one test.
    pub(crate) short: bool,
    /// Only tests whose names contain this.
    pub(crate) filter: Option<String>,
    /// Keep the logs of successful rows, too.
    pub(crate) keep_logs: bool,
    /// No row begins later than this after the first.
    pub(crate) limit: Option<Duration>,
}

/// The rows and their kernels.
pub(crate) struct Guests {
    rows: Vec<Row>,
    /// Images by name of the kernel; a missing one costs only its rows.
    images: BTreeMap<String, Result<Image, String>>,
}

/// What all guests of one architecture share.
struct Ground {
    payload: Payload,
    machine: Machine,
}

/// The [`Ground`] of each architecture that a row has used, or why there is none.
struct Grounds<'a> {
    xtask: &'a Xtask,
    toolchain: &'a Toolchain,
    images: &'a BTreeMap<String, Result<Image, String>>,
    prepared: BTreeMap<Architecture, Result<Ground, String>>,
}

impl Grounds<'_> {
    /// Runs a row.
    fn see(&mut self, row: &Row, options: &Options) -> Result<Seen> {
        let own = Architecture::here().unwrap_or_default();
        let tasks = tasks(row, options);
        let xtask = self.xtask;
        let Some(kernel) = &row.kernel else {
            return match self.ground(own)? {
                Ok(ground) => on_this_machine(xtask, &ground.payload, row, &tasks),
                Err(why) => Ok(Seen::not_run(why.clone())),
            };
        };
        let images = self.images;
        let image = match &images[kernel] {
            Ok(image) => image,
            Err(why) => return Ok(Seen::not_run(why.clone())),
        };
        let Ground { payload, machine } = match self.ground(image.architecture)? {
            Ok(ground) => ground,
            Err(why) => return Ok(Seen::not_run(why.clone())),
        };
        let limit = if options.short { ROW_SHORT } else { ROW };
        let guest = Guest {
            machine: *machine,
            hide_btf: row.hide_btf,
            user: row.unprivileged.then_some(NOBODY),
            cpus: row.cpus,
            is_timed: true,
            outside: row.outside,
            limit: limit * if Architecture::here() == Some(image.architecture) { 1 } else { FOREIGN },
            ..Guest::plain(image, payload, &row.name)
        };
        in_a_guest(xtask, &guest, row, &tasks)
    }

    /// Builds the programs for an architecture and tries its first kernel, once. If that fails for this
    /// machine's architecture, the verb fails; for another one only its rows do.
    fn ground(&mut self, architecture: Architecture) -> Result<&Result<Ground, String>> {
        if !self.prepared.contains_key(&architecture) {
            let ground = self.prepare(architecture);
            let is_own = Architecture::here() == Some(architecture);
            let ground = if is_own { Ok(ground?) } else { ground.map_err(|error| format!("{error:#}")) };
            self.prepared.insert(architecture, ground);
        }
        Ok(&self.prepared[&architecture])
    }

    fn prepare(&self, architecture: Architecture) -> Result<Ground> {
        let payload = Payload::build(self.xtask, self.toolchain, architecture)?;
        let mut images = self.images.values().filter_map(|image| image.as_ref().ok());
        let machine = match images.find(|image| image.architecture == architecture) {
            Some(image) if Architecture::here() == Some(architecture) => {
                Machine::choose(self.xtask, image, &payload)?
            }
            _ => Machine::Emulated,
        };
        Ok(Ground { payload, machine })
    }
}

/// The verb. Returns whether every supported row is as expected.
pub(crate) fn verb(xtask: &mut Xtask, options: &Options) -> Result<bool> {
    let toolchain = Toolchain::ensure(xtask)?;
    let guests = Guests::ensure(xtask, Matrix::load(&options.names)?);
    xtask.cache.release();
    let outcomes = guests.run(xtask, &toolchain, options)?;
    write!(io::stdout(), "{}", report::render(&outcomes))?;
    writeln!(io::stdout(), "logs: {}", guest::logs(xtask).display())?;
    Ok(report::is_success(&outcomes))
}

impl Guests {
    /// Installs QEMU if it is missing, and fetches the kernels that the rows name.
    fn ensure(xtask: &Xtask, matrix: Matrix) -> Self {
        let named = matrix.rows.iter().filter_map(|row| matrix.kernel(row.kernel.as_deref()?));
        let kernels: BTreeMap<&str, _> = named.map(|kernel| (kernel.name.as_str(), kernel)).collect();
        let fetch = |kernel: &Kernel| {
            let image = guest::ensure(xtask, kernel.architecture).and_then(|()| debian::image(xtask, kernel));
            image.map_err(|error| format!("{error:#}"))
        };
        let images = kernels.into_iter().map(|(name, kernel)| (name.to_owned(), fetch(kernel))).collect();
        Self { rows: matrix.rows, images }
    }

    /// Every supported row with a guest of this machine's architecture, for the verb `test`.
    pub(crate) fn supported(xtask: &Xtask) -> Result<Self> {
        let mut matrix = Matrix::load(&[])?;
        let own = |kernel: &Kernel| Some(kernel.architecture) == Architecture::here();
        let Matrix { kernels, rows } = &mut matrix;
        rows.retain(|row| {
            row.supported && kernels.iter().any(|k| row.kernel.as_ref() == Some(&k.name) && own(k))
        });
        Ok(Self::ensure(xtask, matrix))
    }

    /// Runs the rows one after the other.
    fn run(self, xtask: &Xtask, toolchain: &Toolchain, options: &Options) -> Result<Vec<Outcome>> {
        let mut grounds = Grounds { xtask, toolchain, images: &self.images, prepared: BTreeMap::new() };
        let started = Instant::now();
        let mut outcomes = Vec::new();
        // The short form leaves out what would take as long as the long form.
        for mut row in self.rows.into_iter().filter(|row| !(options.short && row.outside.is_long())) {
            row.supported &= options.short || row.tested || !row.is_full();
            let is_late = options.limit.is_some_and(|limit| started.elapsed() > limit);
            let seen = if is_late {
                Seen::not_run("those before it took too long".to_owned())
            } else {
                grounds.see(&row, options)?
            };
            let outcome = Outcome { row, seen };
            if !options.keep_logs
                && report::is_success(std::slice::from_ref(&outcome))
                && outcome.row.supported
            {
                for log in guest::log_files(xtask, &outcome.row.name) {
                    drop(fs::remove_file(log));
                }
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// The short form, counted as tests, one for each row. The complete report goes to `log`.
    pub(crate) fn short_form(self, xtask: &Xtask, toolchain: &Toolchain, log: &Path) -> Result<Tally> {
        let options = Options { short: true, limit: Some(STAGE), ..Options::default() };
        let outcomes = self.run(xtask, toolchain, &options)?;
        fs::write(log, report::render(&outcomes)).with_context(|| format!("file: {}", log.display()))?;
        Ok(report::tally(&outcomes))
    }
}

fn tasks(row: &Row, options: &Options) -> Vec<Task> {
    let task = |name, program, arguments: &[&str], limit| {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Task { name, program, arguments, environment: Vec::new(), limit }
    };
    let mut tasks = vec![task("doctor", AGENT, &["doctor", "--json"], SHORT)];
    if !row.is_full() {
        let usual = if options.short { SHORT_REDUCED } else { "reduced" };
        let test = options.filter.as_deref().unwrap_or(usual);
        let mut faults =
            task("faults", "debug/deps/guest", &["--show-output", "--test-threads=1", test], TESTS);
        faults.environment.push(("GUESTSCOPE_FIDELITY".to_owned(), row.fidelity.clone()));
        tasks.push(faults);
        return tasks;
    }
    tasks.push(task("programs", "programs", &[], SHORT));
    if let Some(tests) = row.outside.tests() {
        // The clocks of these guests depend on this machine's load, so its other tests would mean little.
        let words = ["--show-output", "--test-threads=1", tests];
        tasks.push(task("faults", "debug/deps/guest", &words, TESTS));
        return tasks;
    }
    // One test at a time: they count kernel events, and load the machine on purpose.
    let mut arguments = vec!["--show-output", "--test-threads=1"];
    arguments.extend(options.filter.as_deref());
    if !options.short {
        tasks.push(task("tests", "debug/deps/kernel", &arguments, TESTS));
    }
    if row.kernel.is_some() {
        // They set clocks and take CPUs offline, which must not happen to this machine.
        arguments.extend(options.short.then_some(SHORT_FAULT));
        tasks.push(task("faults", "debug/deps/guest", &arguments, TESTS));
    }
    tasks
}

fn in_a_guest(xtask: &Xtask, guest: &Guest, row: &Row, tasks: &[Task]) -> Result<Seen> {
    let started = Instant::now();
    let step = xtask.progress.step(format!("guest {}: Linux {}", row.name, guest.image.release));
    let answers = guest.run(xtask, &step, tasks)?;
    step.done(if answers.is_done { "ended" } else { "did not come to its end" });
    let mut seen = seen(&answers.steps, started.elapsed());
    seen.complaints.extend(answers.complaints.iter().cloned());
    seen.trouble.clone_from(&answers.trouble);
    if !answers.is_done {
        seen.trouble.push("it did not come to the end of its job".to_owned());
    }
    let unanswered = tasks.iter().filter(|task| !answers.steps.contains_key(task.name));
    seen.trouble.extend(unanswered.map(|task| format!("no answer to `{}`", task.name)));
    Ok(Seen { release: answers.release, up_s: answers.up_s, ..seen })
}

/// The same programs on this machine's own kernel.
fn on_this_machine(xtask: &Xtask, payload: &Payload, row: &Row, tasks: &[Task]) -> Result<Seen> {
    if !geteuid().is_root() {
        return Ok(Seen::not_run("needs root".to_owned()));
    }
    kernel::ensure(xtask);
    let started = Instant::now();
    let mut steps = BTreeMap::new();
    for task in tasks {
        let step = xtask.progress.step(format!("{}: {}", row.name, task.name));
        let log = guest::logs(xtask).join(format!("{}.{}.log", row.name, task.name));
        let mut command = Command::new(payload.here.join(task.program));
        command.args(&task.arguments);
        let finished = Run { step: &step, log: &log, limit: task.limit }.finish(&mut command)?;
        step.done("ended");
        let end = if finished.timed_out { "over its limit".to_owned() } else { finished.status.to_string() };
        let said = Said { out: finished.text, err: String::new(), end: Some(end) };
        steps.insert(task.name.to_owned(), said);
    }
    let release = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned()).ok();
    Ok(Seen { release, ..seen(&steps, started.elapsed()) })
}

fn seen(steps: &BTreeMap<String, Said>, time: Duration) -> Seen {
    let (programs, complaints) = steps.get("programs").map(answers::programs).unwrap_or_default();
    let tests = ["tests", "faults"].iter().filter_map(|name| steps.get(*name)).map(answers::tests);
    let tests = tests.reduce(Tally::and);
    let truth = steps.get("faults").map(answers::truth).unwrap_or_default();
    Seen {
        doctor: steps.get("doctor").and_then(Doctor::read),
        programs,
        complaints,
        tests,
        truth,
        time,
        ..Seen::default()
    }
}
