//! Every developer command of this repository: `cargo xtask VERB`.
//!
//! `demo` and `test` take a fresh Debian or Ubuntu with cargo, git and root all the way; `check` and `jaeger`
//! are parts of them. One file per verb, one per thing that has to be had. Nothing here is needed to use
//! guestscope.

mod apt;
mod arm64;
mod artifact;
mod bench;
mod build;
mod cache;
mod check;
mod command;
mod decoders;
mod demo;
mod deny;
mod failure;
mod fuzz;
mod guide;
mod item;
mod jaeger;
mod kernel;
mod lab;
mod lanes;
mod libtorch;
mod models;
mod pins;
mod process;
mod profile;
mod progress;
mod prometheus;
mod python;
mod pytorch;
mod redact;
mod setup;
mod studies;
mod test;
mod tidy;
mod toolchain;
mod truth;
mod typos;
mod vm;
mod workspace;
mod xtask;

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::xtask::Xtask;

/// Every developer command of guestscope.
///
/// Each verb fetches what it needs, once, into a cache ($GUESTSCOPE_CACHE, else ~/.cache/guestscope).
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Debug, Subcommand)]
enum Verb {
    /// Set up, build, and observe a real job: 200 inferences of ResNet-50, with traces in Jaeger
    Demo {
        /// Do without Jaeger
        #[arg(long, conflicts_with = "keep")]
        no_jaeger: bool,
        /// Leave a Jaeger that is started here running afterwards
        #[arg(long)]
        keep: bool,
    },
    /// Build the agent and the workloads, and say where they are
    Build {
        /// The workloads alone, for `--device cuda`: against the PyTorch of this machine, which has to go
        /// with our tch
        #[arg(long)]
        cuda: bool,
        /// The Python that has this PyTorch [default: python3 on PATH]
        #[arg(long, value_name = "PATH", requires = "cuda")]
        python: Option<PathBuf>,
    },
    /// Set up and run everything that can be tested on this machine
    Test,
    /// Formatting, lints on the host and on the BPF target, and the rules of this repository
    Check,
    /// Measure what observing costs, against empty programs and other tools, as ratios with intervals
    Bench {
        /// What to measure; all of it if nothing is named
        #[arg(value_name = "PART")]
        parts: Vec<bench::Part>,
        /// Rounds of each variant
        #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u8).range(2..=50))]
        rounds: u8,
        /// How long `soak` and `resident` last
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(3..=10_080))]
        minutes: u16,
        /// Requests a second of the service of `soak`, and of the programs of `resident`
        #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(1..=20_000))]
        rate: u16,
    },
    /// Run every workload of the studies once under the agent: medians, speed, and where the time went
    Studies {
        /// Rows of `guestscope-workloads list` by a prefix of their names, like "train" or "infer ic"; all if
        /// none is named
        #[arg(value_name = "ROW")]
        names: Vec<String>,
        /// As large as in the studies: hours, and 16 GB of disk meanwhile. Without it long rows are cut, and
        /// say so
        #[arg(long)]
        full: bool,
        /// Threads of the workloads [default: as many as there are CPUs]
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096))]
        threads: Option<u16>,
    },
    /// Inject known faults again and again, and see whether they are named with their sizes
    Truth {
        /// Who has to name them; all if none is given
        #[arg(value_name = "JUDGE")]
        judges: Vec<truth::Judge>,
        /// Faults, comparisons or runs of each kind [default: 100, 20 and 20]
        #[arg(long, visible_alias = "runs", value_name = "NUMBER")]
        #[arg(value_parser = clap::value_parser!(u16).range(1..=10_000))]
        repetitions: Option<u16>,
        /// These situations only, with commas between their names
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
        /// Each kind once
        #[arg(long, conflicts_with = "repetitions")]
        short: bool,
    },
    /// Give hostile bytes to the decoders named, or thousands of hostile run folders to the verbs that read
    /// them
    ///
    /// None may crash, wait or take 300 MB.
    Fuzz {
        /// Files of fuzz/fuzz_targets, or `decoders` for all of them; each gets --minutes of new inputs
        #[arg(value_name = "TARGET", conflicts_with_all = ["mutated", "crafted", "seed", "only"])]
        targets: Vec<String>,
        /// How long each target is fuzzed
        #[arg(long, default_value_t = 5, requires = "targets")]
        #[arg(value_parser = clap::value_parser!(u16).range(1..=10_080))]
        minutes: u16,
        /// Good folders, changed at random; each goes to two verbs
        #[arg(long, default_value_t = 10_000)]
        mutated: u32,
        /// Folders made to do harm; each goes to all verbs
        #[arg(long, default_value_t = 1_000)]
        crafted: u32,
        /// The same seed gives the same folders
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Only this one, as a fault names it
        #[arg(long, value_name = "crafted:NUMBER|mutated:NUMBER")]
        only: Option<String>,
    },
    /// Run the agent and its kernel tests on other kernels, in virtual machines, and on this one
    Vm {
        /// Rows of xtask/kernels.toml; all of them if none is named
        #[arg(value_name = "KERNEL")]
        names: Vec<String>,
        /// Whether every hook and program loads, and one test: minutes instead of an hour
        #[arg(long)]
        short: bool,
        /// Only tests whose names contain this
        #[arg(long, value_name = "TEST", conflicts_with = "short")]
        filter: Option<String>,
        /// Keep the logs of what is as it should be, too
        #[arg(long)]
        keep_logs: bool,
    },
    /// Run the same work on many platforms of this machine, in turns, for `guestscope compare`
    Lab {
        /// What to run: see xtask/plans
        #[arg(value_name = "PLAN.toml")]
        plan: PathBuf,
        /// Only say what is still to be run, in its order
        #[arg(long)]
        dry_run: bool,
    },
    /// Start a Jaeger, or find the one that runs, and say where it is
    Jaeger {
        /// Leave it running in the background instead of waiting for Enter
        #[arg(long)]
        keep: bool,
    },
}

/// Gives whether all is well.
fn run(verb: &Verb) -> Result<bool> {
    let mut xtask = Xtask::open()?;
    match verb.clone() {
        Verb::Demo { no_jaeger, keep } => demo::verb(&mut xtask, demo::Options { jaeger: !no_jaeger, keep }),
        Verb::Build { cuda: false, .. } => build::verb(&xtask, build::Options::Cpu),
        Verb::Build { cuda: true, python } => build::verb(&xtask, build::Options::Cuda { python }),
        Verb::Test => test::verb(&mut xtask),
        Verb::Check => check::verb(&xtask),
        Verb::Bench { parts, rounds, minutes, rate } => {
            let soak = bench::Soak { minutes: minutes.into(), rate: rate.into() };
            bench::verb(&mut xtask, &parts, usize::from(rounds), soak)
        }
        Verb::Studies { names, full, threads } => {
            studies::verb(&mut xtask, &studies::Options { names, full, threads })
        }
        Verb::Truth { judges, repetitions, only, short } => {
            truth::verb(&mut xtask, &truth::Options { judges, repetitions, only, short })
        }
        Verb::Fuzz { targets, minutes, .. } if !targets.is_empty() => {
            decoders::verb(&xtask, &targets, minutes.into())
        }
        Verb::Fuzz { mutated, crafted, seed, only, .. } => {
            fuzz::verb(&mut xtask, &fuzz::Options { mutated, crafted, seed, only })
        }
        Verb::Vm { names, short, filter, keep_logs } => {
            vm::verb(&mut xtask, &vm::Options { names, short, filter, keep_logs, limit: None })
        }
        Verb::Lab { plan, dry_run } => lab::verb(&mut xtask, &lab::Options { plan, dry_run }),
        Verb::Jaeger { keep } => jaeger::verb(&mut xtask, keep).map(|()| true),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse().verb) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            // Nothing is left to do where even stderr is closed.
            drop(writeln!(std::io::stderr(), "{}", failure::render(&error)));
            ExitCode::from(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Arguments;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
