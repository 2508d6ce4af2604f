//! The verb `vm`: the agent and its kernel tests on every kernel of the matrix, and on this one.
//!
//! Yields one row per kernel and set of surroundings, and a verdict on those that are declared supported. Guests run one
//! after the other. It needs no root but for this machine's own row; it changes nothing outside the cache and `target/`.

mod answers;
mod debian;
mod guest;
mod initramfs;
mod matrix;
mod payload;
mod report;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Result;
use nix::unistd::geteuid;

use self::{
    answers::{Doctor, Said},
    debian::Image,
    guest::{Guest, Machine, Task},
    matrix::{Matrix, Row},
    payload::Payload,
    report::{Outcome, Seen},
};
use crate::{Xtask, command::Run, kernel, toolchain::Toolchain};

/// Debian's `nobody`.
const NOBODY: u32 = 65_534;
/// Emulated on a busy machine, doctor was seen to take 40 s.
const SHORT: Duration = Duration::from_mins(5);
const TESTS: Duration = Duration::from_mins(12);

/// What the user chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Rows; all if there are none.
    pub(crate) names: Vec<String>,
    /// Leave the kernel tests out.
    pub(crate) short: bool,
    /// Keep the logs of rows that are as they should be, too.
    pub(crate) keep_logs: bool,
}

/// The verb. Gives whether every supported row is as it should be.
pub(crate) fn verb(xtask: &mut Xtask, options: &Options) -> Result<bool> {
    let matrix = Matrix::load(&options.names)?;
    let toolchain = Toolchain::ensure(xtask)?;
    guest::ensure(xtask)?;
    let images = images(xtask, &matrix);
    let payload = Payload::build(xtask, &toolchain)?;
    xtask.cache.release();
    let machine = match images.values().find_map(|image| image.as_ref().ok()) {
        Some(image) => Machine::choose(xtask, image, &payload)?,
        None => Machine::Emulated,
    };
    let mut outcomes = Vec::new();
    for row in matrix.rows {
        let tasks = tasks(&row, options.short);
        let seen = match row.kernel.as_ref().map(|kernel| &images[kernel]) {
            None => on_this_machine(xtask, &payload, &row, &tasks)?,
            Some(Err(why)) => Seen { not_run: Some(why.clone()), ..Seen::default() },
            Some(Ok(image)) => {
                let user = row.unprivileged.then_some(NOBODY);
                let (hide_btf, name) = (row.hide_btf, row.name.as_str());
                let guest = Guest { image, payload: &payload, machine, hide_btf, user, name };
                in_a_guest(xtask, &guest, &row, &tasks)?
            }
        };
        let outcome = Outcome { row, seen };
        if !options.keep_logs && report::is_success(std::slice::from_ref(&outcome)) && outcome.row.supported {
            for log in guest::log_files(xtask, &outcome.row.name) {
                drop(fs::remove_file(log));
            }
        }
        outcomes.push(outcome);
    }
    write!(io::stdout(), "{}", report::render(&outcomes))?;
    writeln!(io::stdout(), "logs: {}", guest::logs(xtask).display())?;
    Ok(report::is_success(&outcomes))
}

/// The kernels that rows name. One that cannot be had costs its rows only.
fn images(xtask: &Xtask, matrix: &Matrix) -> BTreeMap<String, Result<Image, String>> {
    let mut images = BTreeMap::new();
    let named = matrix.rows.iter().filter_map(|row| matrix.kernel(row.kernel.as_deref()?));
    for kernel in named {
        if !images.contains_key(&kernel.name) {
            let image = debian::image(xtask, kernel).map_err(|error| format!("{error:#}"));
            images.insert(kernel.name.clone(), image);
        }
    }
    images
}

fn tasks(row: &Row, short: bool) -> Vec<Task> {
    let doctor =
        Task { name: "doctor", program: "guestscope", arguments: &["doctor", "--json"], limit: SHORT };
    let programs = Task { name: "programs", program: "programs", arguments: &[], limit: SHORT };
    // One at a time: they count what the kernel did, and load the machine on purpose.
    let arguments = &["--show-output", "--test-threads=1"];
    let tests = Task { name: "tests", program: "debug/deps/kernel", arguments, limit: TESTS };
    match (row.is_full(), short) {
        (false, _) => vec![doctor],
        (true, true) => vec![doctor, programs],
        (true, false) => vec![doctor, programs, tests],
    }
}

fn in_a_guest(xtask: &Xtask, guest: &Guest, row: &Row, tasks: &[Task]) -> Result<Seen> {
    let started = Instant::now();
    let step = xtask.progress.step(format!("guest {}: Linux {}", row.name, guest.image.release));
    let answers = guest.run(xtask, &step, tasks)?;
    step.done(if answers.is_done { "ended" } else { "did not come to its end" });
    let mut seen = seen(&answers.steps, started.elapsed());
    seen.complaints.extend(answers.complaints.iter().cloned());
    if !answers.is_done {
        seen.complaints.push("it did not come to the end of its job".to_owned());
    }
    Ok(Seen { release: answers.release, up_s: answers.up_s, ..seen })
}

/// The same programs under the kernel that runs this.
fn on_this_machine(xtask: &Xtask, payload: &Payload, row: &Row, tasks: &[Task]) -> Result<Seen> {
    if !geteuid().is_root() {
        return Ok(Seen { not_run: Some("needs root".to_owned()), ..Seen::default() });
    }
    kernel::ensure(xtask);
    let started = Instant::now();
    let mut steps = BTreeMap::new();
    for task in tasks {
        let step = xtask.progress.step(format!("{}: {}", row.name, task.name));
        let log = guest::logs(xtask).join(format!("{}.{}.log", row.name, task.name));
        let mut command = Command::new(payload.here.join(task.program));
        command.args(task.arguments);
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
    let tests = steps.get("tests").map(answers::tests);
    Seen {
        doctor: steps.get("doctor").and_then(Doctor::read),
        programs,
        complaints,
        tests,
        time,
        ..Seen::default()
    }
}
