//! The verb `test`: sets up what the tests need, then runs everything that can be tested on this machine.
//!
//! Yields a report and one verdict. A stage that fails stops no other; a build that fails stops all that need
//! it. Every crate is built once: one choice of packages and features for all tests of the host, release for
//! the rest. The two are built side by side, with the checks and the tests that measure nothing; what
//! measures runs alone, after them.

mod lane;
pub(crate) mod libtest;
mod report;

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Result;
use nix::unistd::geteuid;

use self::{
    lane::{Lane, build_stage},
    libtest::Tally,
    report::{Report, Stage},
};
use crate::{
    Xtask, apt, artifact, check,
    command::{self, Run},
    item::Verdict,
    jaeger::{Jaeger, Life, Origin},
    kernel, lanes,
    libtorch::Libtorch,
    profile::Profile,
    prometheus,
    python::Python,
    toolchain::Toolchain,
    vm::Guests,
    workspace::{E2E_TESTS, HELPER, KERNEL_TESTS, SERVERS_TESTS},
};

const STAGE_LIMIT: Duration = Duration::from_mins(25);
/// CI ends the whole job after a while, and this stage is not what it is for.
const SERVERS_LIMIT: Duration = Duration::from_mins(8);
/// A test that hangs must not hold up the others for ever. Builds may run beside them.
const HOST_LIMIT: Duration = Duration::from_mins(15);

/// Programs that tests compare with, and the Debian packages that hold them.
const PROGRAMS: [(&str, &[&str]); 7] = [
    ("bpftrace", &["bpftrace"]),
    ("bpftool", &["bpftool"]),
    ("chromium", &["chromium"]),
    ("doas", &["opendoas"]),
    ("perf", &["linux-perf"]),
    ("podman", &["podman", "runc"]),
    ("sudo", &["sudo"]),
];

/// Everything the tests are given.
struct Ground {
    toolchain: Toolchain,
    libtorch: Option<Libtorch>,
    python: Option<Python>,
    web: Option<Python>,
    /// Python with the packages of the stage `servers`, or why it is missing.
    servers: Result<Python, String>,
    jaeger: Option<Jaeger>,
    /// Path of a Prometheus.
    prometheus: Option<PathBuf>,
    /// Guests, or why there are none.
    guests: Result<Guests, String>,
    /// `package/feature`, for all packages of the host but the workloads.
    features: Vec<String>,
    programs: Option<Programs>,
}

/// The programs under test, built.
struct Programs {
    agent: PathBuf,
    workloads: PathBuf,
}

/// The verb. Gives whether everything passed.
pub(crate) fn verb(xtask: &mut Xtask) -> Result<bool> {
    xtask.profile = Profile::Tested;
    let mut ground = set_up(xtask)?;
    xtask.cache.release();
    let started = Instant::now();
    let beside = lanes::room();
    // They build in different folders, so that no cargo waits for the other one.
    let (tests, programs) = lanes::beside(
        beside,
        || Lane::run("tests", |stages| tests_lane(xtask, &ground, stages)),
        || Lane::run("programs", |stages| programs_lane(xtask, &ground, stages)),
    );
    let beside = beside.then(|| (tests.names(), programs.names()));
    let mut stages = [tests.stages, programs.stages].concat();
    if tests.built.is_some() && programs.built.is_some() {
        ground.programs = programs.built;
        stages.extend(as_root(xtask, &ground)?);
        stages.push(guest_stage(xtask, ground));
    }
    let strict = env::var_os("CI").is_some_and(|ci| ci == "true");
    let report =
        Report { stages, shortfalls: xtask.progress.shortfalls(), strict, time: started.elapsed(), beside };
    write!(io::stdout(), "{}", report.render())?;
    Ok(report.is_success())
}

/// The checks and the tests of the host, in cargo's folder of debug builds.
fn tests_lane(xtask: &Xtask, ground: &Ground, stages: &mut Vec<Stage>) -> Result<Option<()>> {
    stages.push(check_stage(xtask, ground)?);
    let mut tests = host_tests(xtask, ground);
    let (build, built) = build_stage("build", || {
        artifact::cargo(xtask, "tests of the host", "build-tests", tests.arg("--no-run")).map(drop)
    });
    stages.push(build);
    if built.is_some() {
        let targets = targets(xtask, None);
        let mut units = host_tests(xtask, ground);
        units.args(["--lib", "--bins"]).args(targets).args(["--", "--show-output"]);
        let mut documentation = host_tests(xtask, ground);
        documentation.args(["--doc", "--", "--show-output"]);
        stages.push(stage(xtask, ground, "host", HOST_LIMIT, vec![units, documentation])?);
    }
    Ok(built)
}

/// The programs under test, and the tests of the workloads: release builds.
fn programs_lane(xtask: &Xtask, ground: &Ground, stages: &mut Vec<Stage>) -> Result<Option<Programs>> {
    let libtorch = ground.libtorch.as_ref();
    let (build, built) = build_stage("programs", || {
        // First: meanwhile the checks need the folder of the workloads.
        let agent = artifact::agent(xtask, &ground.toolchain)?;
        let workloads = artifact::tested_workloads(xtask, libtorch)?;
        if ground.guests.is_ok() {
            artifact::static_workloads(xtask, &ground.toolchain)?;
        }
        Ok(Programs { agent, workloads })
    });
    stages.push(build);
    if built.is_some() {
        let mut tests = artifact::workloads_cargo(xtask, "test", libtorch);
        tests.args(["--no-fail-fast", "--", "--show-output"]);
        stages.push(stage(xtask, ground, "workloads", STAGE_LIMIT, vec![tests])?);
    }
    Ok(built)
}

fn set_up(xtask: &Xtask) -> Result<Ground> {
    let toolchain = Toolchain::ensure(xtask)?;
    let libtorch =
        or_shortfall(xtask, "no libtorch, so no inference and no training", Libtorch::ensure(xtask));
    let python = or_shortfall(xtask, "no Python with duckdb and pyarrow", Python::for_tests(xtask));
    let web = or_shortfall(xtask, "no Python with web servers", Python::with_web_servers(xtask));
    let servers = if geteuid().is_root() {
        Python::for_servers(xtask).map_err(|error| error.to_string())
    } else {
        Err("needs root".to_owned())
    };
    other_programs(xtask);
    kernel::ensure(xtask);
    let jaeger = Jaeger::start(xtask, Life::WithTheVerb, Origin::Registries);
    let jaeger = or_shortfall(xtask, "no Jaeger", jaeger);
    let prometheus = or_shortfall(xtask, "no Prometheus", prometheus::ensure(xtask));
    let guests = Guests::supported(xtask).map_err(|error| error.to_string());
    let mut features = xtask.workspace.test_features();
    // The others are for tests that only root can run.
    features.retain(|feature| geteuid().is_root() || feature.ends_with(HELPER));
    Ok(Ground {
        toolchain,
        libtorch,
        python,
        web,
        servers,
        jaeger,
        prometheus,
        guests,
        features,
        programs: None,
    })
}

fn or_shortfall<T>(xtask: &Xtask, without: &str, result: Result<T>) -> Option<T> {
    result.inspect_err(|error| xtask.progress.shortfall(format!("{without}: {error}"))).ok()
}

fn other_programs(xtask: &Xtask) {
    let missing = |program: &str| !command::succeeds(Command::new(program).arg("--version"));
    for (program, packages) in PROGRAMS.iter().filter(|(program, _)| missing(program)) {
        // Ubuntu's perf comes with the very kernel that runs.
        let release = nix::sys::utsname::uname().map(|u| u.release().to_string_lossy().into_owned());
        let tools = format!("linux-tools-{}", release.unwrap_or_default());
        let without = format!("no {program}, which some tests need");
        if *program == "perf" && !apt::known(packages) {
            apt::want(xtask, &["linux-tools-common", &tools], &without);
        } else {
            apt::want(xtask, packages, &without);
        }
    }
}

fn check_stage(xtask: &Xtask, ground: &Ground) -> Result<Stage> {
    let started = Instant::now();
    let items = check::run(xtask, &ground.toolchain, ground.libtorch.as_ref())?;
    let mut tally = Tally::default();
    for item in items {
        match item.verdict {
            Verdict::Passed => tally.passed += 1,
            Verdict::Failed(complaint) => tally.failures.push((item.name.to_owned(), complaint)),
            Verdict::NotRun(why) => {
                tally.skipped.insert((item.name.to_owned(), why));
            }
        }
    }
    tally.failed = tally.failures.len() as u64;
    Ok(Stage { name: "check", time: started.elapsed(), tally, log: None, not_run: None })
}

/// Names of the host's test targets with this feature, as cargo takes them; of those for everybody, if none
/// is wanted.
fn targets(xtask: &Xtask, wanted: Option<&str>) -> Vec<String> {
    let tests = xtask.workspace.host_packages().flat_map(|package| &package.tests);
    let has = |required: &[String], feature: &str| required.iter().any(|r| r == feature);
    let fits = |required: &[String]| match wanted {
        None => required.is_empty() || has(required, HELPER),
        Some(E2E_TESTS) => has(required, E2E_TESTS),
        Some(feature) => has(required, feature) && !has(required, E2E_TESTS),
    };
    let names = tests.filter(|test| fits(&test.required_features)).map(|test| &test.name);
    names.flat_map(|name| ["--test".to_owned(), name.clone()]).collect()
}

/// The stages that measure, so that nothing may run beside them.
fn as_root(xtask: &Xtask, ground: &Ground) -> Result<Vec<Stage>> {
    let mut stages = Vec::new();
    for (name, feature, limit) in [
        ("kernel", KERNEL_TESTS, STAGE_LIMIT),
        ("end-to-end", E2E_TESTS, STAGE_LIMIT),
        ("servers", SERVERS_TESTS, SERVERS_LIMIT),
    ] {
        if let Some(reason) = why_not(ground, feature) {
            let skipped = [(format!("stage {name}"), reason.clone())].into();
            let (tally, not_run) = (Tally { skipped, ..Tally::default() }, Some(reason));
            stages.push(Stage { name, time: Duration::ZERO, tally, log: None, not_run });
            continue;
        }
        let mut tests = host_tests(xtask, ground);
        // One at a time: they count what the kernel did, and load the machine on purpose.
        tests.args(targets(xtask, Some(feature))).args(["--", "--show-output", "--test-threads=1"]);
        stages.push(stage(xtask, ground, name, limit, vec![tests])?);
    }
    Ok(stages)
}

/// Why a stage that needs root cannot run here.
fn why_not(ground: &Ground, feature: &str) -> Option<String> {
    if !geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    ground.servers.as_ref().err().filter(|_| feature == SERVERS_TESTS).cloned()
}

/// Every supported row of the kernel matrix in its short form, last: a guest takes a whole core.
fn guest_stage(xtask: &Xtask, ground: Ground) -> Stage {
    let started = Instant::now();
    let log = xtask.workspace.target.join("test-logs/guests.log");
    let mut tally = Tally::default();
    let mut not_run = None;
    match ground.guests.map(|guests| guests.short_form(xtask, &ground.toolchain, &log)) {
        Ok(Ok(rows)) => tally = rows,
        Ok(Err(error)) => {
            tally.failures.push(("guests".to_owned(), crate::failure::render(&error)));
            tally.failed = 1;
        }
        Err(reason) => {
            tally.skipped.insert(("stage guests".to_owned(), reason.clone()));
            not_run = Some(reason);
        }
    }
    Stage { name: "guests", time: started.elapsed(), tally, log: Some(log), not_run }
}

/// `cargo test` on every package but the workloads, always with the same features.
fn host_tests(xtask: &Xtask, ground: &Ground) -> Command {
    let mut command = artifact::host_cargo(xtask, &ground.toolchain, "test", &ground.features);
    command.arg("--no-fail-fast");
    command
}

/// Runs a stage's commands one after the other, and counts.
fn stage(
    xtask: &Xtask,
    ground: &Ground,
    name: &'static str,
    limit: Duration,
    commands: Vec<Command>,
) -> Result<Stage> {
    let started = Instant::now();
    let step = xtask.progress.step(format!("tests: {name}"));
    let folder = xtask.workspace.target.join("test-logs");
    let mut tally = Tally::default();
    let mut log = folder.join(format!("{name}.log"));
    for (number, mut command) in commands.into_iter().enumerate() {
        if number > 0 {
            log = folder.join(format!("{name}-{}.log", number + 1));
        }
        ground.give_to(&mut command, name);
        let finished = Run { step: &step, log: &log, limit }.finish(&mut command)?;
        let mut part = libtest::tally(&finished.text);
        if !finished.status.success() && part.failed == 0 {
            let what = if finished.timed_out { "took too long and was ended" } else { "a test program died" };
            part.failed = 1;
            part.failures.push((what.to_owned(), command::tail(&finished.text)));
        }
        tally = tally.and(part);
    }
    match tally.failed {
        0 => step.done(format!("{} passed", tally.passed)),
        _ => step.failed(),
    }
    Ok(Stage { name, time: started.elapsed(), tally, log: Some(log), not_run: None })
}

impl Ground {
    /// Tells a test command where everything is.
    fn give_to(&self, command: &mut Command, stage: &str) {
        let Self { libtorch, python, web, servers, jaeger, prometheus, programs, .. } = self;
        // A snapshot that differs is a failure, not a new file beside it.
        command.env("INSTA_UPDATE", "no");
        if let Some(Programs { agent, workloads }) = programs {
            command.env("GUESTSCOPE_BIN", agent).env("GUESTSCOPE_WORKLOADS_BIN", workloads);
        }
        if let Some(python) = python {
            command.env("GUESTSCOPE_PYTHON", &python.program);
        }
        if let Some(web) = web {
            command.env("GUESTSCOPE_WEB_PYTHON", &web.program);
        }
        if let Ok(servers) = servers {
            command.env("GUESTSCOPE_SERVERS_PYTHON", &servers.program);
        }
        if let Some(jaeger) = jaeger {
            command.envs(jaeger.endpoints.variables());
        }
        if let Some(prometheus) = prometheus {
            command.env("GUESTSCOPE_PROMETHEUS", prometheus);
        }
        // Python's torch would take our libtorch for its own by LD_LIBRARY_PATH, and cannot be imported then.
        if let Some(libtorch) = libtorch.as_ref().filter(|_| stage != "servers") {
            libtorch.apply(command);
        }
    }
}
