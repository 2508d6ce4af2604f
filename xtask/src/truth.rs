//! The verb `truth`: the long form of what the verb `test` judges by one experiment of each kind.
//!
//! Injected faults of random sizes, each judged alone, comparisons of a platform with and without one cause,
//! and situations, of which the sentence is judged. Prints the tests' own table. It takes root and a machine
//! that is left in peace: nothing else may be built or measured beside it.

use std::{io::Write as _, time::Duration};

use anyhow::Result;
use nix::unistd::geteuid;

use crate::{
    Xtask, artifact,
    command::{self, Run},
    failure::failure,
    kernel,
    libtorch::Libtorch,
    python::Python,
    test::libtest,
    toolchain::Toolchain,
};

/// Far beyond what a hundred faults of each kind take on two CPUs.
const LIMIT: Duration = Duration::from_hours(6);
/// What the tests read.
const VARIABLE: &str = "GUESTSCOPE_REPETITIONS";
/// Which situations they judge.
const SITUATIONS: &str = "GUESTSCOPE_SITUATIONS";

/// What is injected, and who has to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Judge {
    /// One fault in one run, named in its request: 100 of each kind (ten minutes)
    Run,
    /// A fault in every tenth of 200 requests of real servers, beside their clients' clocks (3 minutes)
    Servers,
    /// One cause in one of two platforms, named by `compare`: 20 of each kind, and 20 times the same platform
    /// (half an hour)
    Compare,
    /// What is said of fifty situations: cause, culprit, advice, nothing false, and silence without the
    /// fault: 20 runs of each (an hour)
    Situations,
}

/// Options of the verb.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// All if none is named.
    pub(crate) judges: Vec<Judge>,
    /// Number of faults of each kind.
    pub(crate) repetitions: Option<u16>,
    /// The only situation to judge.
    pub(crate) only: Option<String>,
    /// Each once.
    pub(crate) short: bool,
}

impl Judge {
    const ALL: [Self; 4] = [Self::Run, Self::Compare, Self::Servers, Self::Situations];

    const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Compare => "compare",
            Self::Servers => "servers",
            Self::Situations => "situations",
        }
    }

    /// The target, and what the names of its tests contain.
    const fn tests(self) -> [&'static str; 2] {
        match self {
            Self::Run => ["e2e", "truth::"],
            Self::Compare => ["e2e", "compared::"],
            Self::Servers => ["servers", "measured::"],
            Self::Situations => ["e2e", "situations::what_is_said_is_true"],
        }
    }

    /// How the head of its table begins.
    const fn head(self) -> &'static str {
        match self {
            Self::Run | Self::Compare => "\nfault  ",
            Self::Servers => "\nserver  ",
            Self::Situations => "\nsituation  ",
        }
    }

    const fn repetitions(self) -> u16 {
        match self {
            Self::Run => 100,
            Self::Compare | Self::Situations => 20,
            Self::Servers => 200,
        }
    }
}

/// The verb. Gives whether all of it held.
pub(crate) fn verb(xtask: &mut Xtask, options: &Options) -> Result<bool> {
    if !geteuid().is_root() {
        return Err(failure("truth needs root", "the agent attaches to the kernel: run it as root"));
    }
    let (toolchain, libtorch) = (Toolchain::ensure(xtask)?, Libtorch::ensure(xtask)?);
    kernel::ensure(xtask);
    let agent = artifact::agent(xtask, &toolchain)?;
    let workloads = artifact::workloads(xtask, Some(&libtorch))?;
    let tests = || artifact::host_cargo(xtask, &toolchain, "test", &xtask.workspace.test_features());
    artifact::cargo(xtask, "tests of the host", "build-tests", tests().arg("--no-run"))?;
    let judges = match &options.judges[..] {
        [] if options.only.is_some() => &[Judge::Situations],
        [] => &Judge::ALL[..],
        judges => judges,
    };
    let needs_servers = judges.contains(&Judge::Servers);
    let servers = needs_servers.then(|| Python::for_servers(xtask)).transpose()?;
    let mut holds = true;
    for judge in judges {
        let usual = if options.short { 1 } else { judge.repetitions() };
        let repetitions = options.repetitions.unwrap_or(usual);
        let step = xtask.progress.step(format!("truth: {}, {repetitions} of each kind", judge.name()));
        let log = xtask.workspace.target.join("test-logs").join(format!("truth-{}.log", judge.name()));
        let mut command = tests();
        let [target, filter] = judge.tests();
        command.args(["--no-fail-fast", "--test", target, "--", "--show-output", "--test-threads=1"]);
        command.arg(filter).env("INSTA_UPDATE", "no").env(VARIABLE, repetitions.to_string());
        command.env("GUESTSCOPE_BIN", &agent).env("GUESTSCOPE_WORKLOADS_BIN", &workloads);
        if *judge == Judge::Situations {
            command.env(SITUATIONS, options.only.as_deref().unwrap_or("all"));
        }
        if let (Judge::Servers, Some(servers)) = (judge, &servers) {
            command.env("GUESTSCOPE_SERVERS_PYTHON", &servers.program);
        }
        // Python's torch would take our libtorch for its own by LD_LIBRARY_PATH, and cannot be imported then.
        if *judge != Judge::Servers {
            libtorch.apply(&mut command);
        }
        let finished = Run { step: &step, log: &log, limit: LIMIT }.finish(&mut command)?;
        let tally = libtest::tally(&finished.text);
        let is_well = finished.status.success() && tally.passed > 0;
        if is_well {
            step.done(format!("{} tests held", tally.passed));
        } else {
            step.failed();
        }
        holds &= is_well;
        let mut out = std::io::stdout().lock();
        for (name, text) in &tally.failures {
            writeln!(out, "\nFAILED {name}\n{}", command::tail(text))?;
        }
        writeln!(out, "{}\nwhole output: {}", table(&finished.text, *judge), log.display())?;
    }
    Ok(holds)
}

/// The tests' own table, which is the last that they print: its head is wider than the row of the fault that
/// has the same name.
fn table(text: &str, judge: Judge) -> &str {
    text.rfind(judge.head()).map_or("", |begin| &text[begin..])
}

#[cfg(test)]
mod tests {
    use super::{Judge, table};

    #[test]
    fn the_table_begins_with_its_head() {
        let rows = "\nfault          cause\nlock --size 20ms   lock\nfault --size 1024  fault\n";
        assert_eq!(table(&format!("test truth ... ok\n{rows}"), Judge::Run), rows);
        assert_eq!(table("fault: none\n", Judge::Run), "");
    }
}
