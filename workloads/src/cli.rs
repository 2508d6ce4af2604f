//! The command line: names, defaults, help. Yields the settings of a workload and writes its report to standard
//! output. It computes nothing.

use std::{
    io::{self, Write as _},
    ops::RangeInclusive,
    path::PathBuf,
    thread,
};

use clap::{Args, Parser, Subcommand, value_parser};

use crate::{
    catalog,
    error::Error,
    h2o::options::H2oCommand,
    infer::{self, Loop, Settings},
    load::{
        error::LoadError,
        histogram::Latencies,
        options::{Defaults, LoadOptions},
    },
    report::{Report, WORKLOAD_FILE, to_json, write_workload_file},
    stall::{self, machine::work::Amount, options::StallOptions, size::Size},
    train::{self, options::TrainOptions},
};

const EXAMPLES: &str = "\
Examples:
  guestscope-workloads list
  guestscope-workloads infer ic --requests 200
  sudo guestscope run -- guestscope-workloads infer ic --requests 200 --threads 2";

const IC_EXAMPLES: &str = "\
Examples:
  guestscope-workloads infer ic --smoke
  guestscope-workloads infer ic --requests 200 --batch 8 --threads 2
  guestscope-workloads infer ic --scenario server --qps 10 --duration 60s --target-latency 130ms
  guestscope-workloads infer ic --scenario server --find-peak --histogram latency.hgrm
  guestscope-workloads infer ic --data ~/imagenet/val --weights resnet50.safetensors --json

The weights file holds the state_dict of torchvision's resnet50 under its own names. In Python:
  safetensors.torch.save_file(torchvision.models.resnet50(weights=\"DEFAULT\").state_dict(), FILE)";

const LOOP_EXAMPLES: &str = "\
Examples:
  guestscope-workloads infer loop --work 2ms --requests 500
  guestscope-workloads infer loop --scenario server --qps 150 --requests 2000 --histogram latency.hgrm
  guestscope-workloads infer loop --scenario server --find-peak --target-latency 50ms --json";

/// Runs the programs of the studies, their requests and phases marked for guestscope
#[derive(Debug, Parser)]
#[command(name = "guestscope-workloads", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an inference workload: requests of three phases, preprocess, inference and postprocess
    #[command(subcommand)]
    Infer(Infer),
    /// Train a model: steps of four phases, data, forward, backward and optimizer
    Train(TrainOptions),
    /// Run requests of known work, and hit some of them with faults of known kind and size
    Stall(StallOptions),
    /// Run the steps of the H2O study on airline delays: parse, glm, mlp
    #[command(subcommand)]
    H2o(H2oCommand),
    /// Show the workloads: what each is, and how large
    List {
        /// Print one line of JSON instead of a table
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum Infer {
    /// Image classification: ResNet-50 v1.5 (25,557,032 parameters) on JPEG files, fp32
    Ic(IcOptions),
    /// A busy loop of known length in the same three phases: the load without a model
    Loop(LoopOptions),
}

#[derive(Debug, Args)]
#[command(after_help = IC_EXAMPLES)]
struct IcOptions {
    /// Threads of libtorch inside one operator [default: as many as this process may use]
    #[arg(long, value_name = "T", value_parser = value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Decides generated pictures, weights and arrivals: the same number, the same work
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Take the *.jpg and *.jpeg files of this folder, sorted by name, instead of generated pictures
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Take trained weights instead of seeded ones
    #[arg(long, value_name = "FILE.safetensors")]
    weights: Option<PathBuf>,
    /// Print one line of JSON instead of text
    #[arg(long)]
    json: bool,
    /// Only see whether it runs: 3 requests after 1 for warm-up, 4 generated pictures instead of 64
    #[arg(long)]
    smoke: bool,
    #[command(flatten)]
    load: LoadOptions,
}

#[derive(Debug, Args)]
#[command(after_help = LOOP_EXAMPLES)]
struct LoopOptions {
    /// The work of each sample: its CPU time here, or a number of rounds, the same on every machine
    #[arg(long, value_name = "TIME|ROUNDS", default_value_t = Size::Time { ns: 5_000_000 })]
    work: Size,
    /// Decides arrivals: the same number, the same schedule
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print one line of JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadOptions,
}

impl Cli {
    /// Does what the command line says.
    pub fn run(self) -> Result<(), Error> {
        match self.command {
            Command::List { json: true } => print(&(to_json(&catalog::rows()) + "\n")),
            Command::List { json: false } => print(&catalog::table()),
            Command::Infer(Infer::Ic(options)) => {
                let settings = options.settings()?;
                finish(|| infer::ic(&settings), options.json, &options.load)
            }
            Command::Infer(Infer::Loop(options)) => {
                let settings = options.settings()?;
                finish(|| infer::synthetic::run(&settings), options.json, &options.load)
            }
            Command::Train(options) => run_train(&options),
            Command::Stall(options) => run_stall(&options),
            Command::H2o(command) => run_h2o(&command),
        }
    }
}

impl IcOptions {
    fn settings(&self) -> Result<Settings, Error> {
        let (requests, warmup, generated) = if self.smoke { (3, 1, 4) } else { (1000, 10, 64) };
        Ok(Settings {
            plan: self.load.plan(Defaults { requests, warmup }, self.seed, may_draw())?,
            batch: self.load.batch(),
            threads: self.threads.unwrap_or_else(available_threads),
            seed: self.seed,
            data: self.data.clone(),
            generated,
            weights: self.weights.clone(),
        })
    }
}

impl LoopOptions {
    fn settings(&self) -> Result<Loop, Error> {
        /// Bounds of the work, ns: below, the clock costs more than the loop.
        const WORK_NS: RangeInclusive<u64> = 1_000..=60_000_000_000;
        const WORK_ROUNDS: RangeInclusive<u64> = 1_000..=1_000_000_000_000;
        let work = match self.work {
            Size::Time { ns } if WORK_NS.contains(&ns) => Amount::Lasting { ns },
            Size::Count(rounds) if WORK_ROUNDS.contains(&rounds) => Amount::Rounds(rounds),
            given @ (Size::Time { .. } | Size::Count(_) | Size::Bytes(_)) => {
                return Err(LoadError::Work { given: given.to_string() }.into());
            }
        };
        let plan = self.load.plan(Defaults { requests: 1000, warmup: 10 }, self.seed, may_draw())?;
        Ok(Loop { plan, batch: self.load.batch(), seed: self.seed, work })
    }
}

/// Respects affinity and the CPU quota of the cgroup, as the standard library does.
fn available_threads() -> u32 {
    thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// guestscope draws a bar for the requests it sees; two bars would overwrite each other.
fn may_draw() -> bool {
    std::env::var_os(WORKLOAD_FILE).is_none()
}

fn run_train(options: &TrainOptions) -> Result<(), Error> {
    let report = train::run(&options.settings(available_threads(), may_draw()))?;
    print(&if options.json { report.json() + "\n" } else { report.text() })?;
    write_workload_file(std::env::var_os(WORKLOAD_FILE).as_deref(), &report.identity)
}

fn run_stall(options: &StallOptions) -> Result<(), Error> {
    let settings = options.settings(may_draw())?;
    let asked = stall::run::sizes(&settings)?;
    let outcome = stall::run::run(&settings)?;
    let report = stall::report::Report::new(&settings, &asked, outcome);
    print(&if options.json { report.json() + "\n" } else { report.text() })?;
    write_workload_file(std::env::var_os(WORKLOAD_FILE).as_deref(), &report.identity)
}

fn run_h2o(command: &H2oCommand) -> Result<(), Error> {
    let report = command.run(available_threads(), may_draw())?;
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    print(&if command.json() { report.json + "\n" } else { report.text })?;
    write_workload_file(std::env::var_os(WORKLOAD_FILE).as_deref(), &report.identity)
}

/// Runs it and leaves its results, the description first: whoever reads the rest may go away, or its disk be full.
fn finish(run: impl FnOnce() -> Result<Report, Error>, json: bool, load: &LoadOptions) -> Result<(), Error> {
    if let Some(path) = &load.histogram {
        Latencies::check(path)?;
    }
    let report = run()?;
    for name in report.write_workload_file(std::env::var_os(WORKLOAD_FILE).as_deref())? {
        eprintln!("warning: histogram has no room in the description for guestscope: {name}");
    }
    if let Some(path) = &load.histogram {
        report.latencies().write(path)?;
    }
    print(&if json { report.json() + "\n" } else { report.text() })
}

fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|source| Error::WriteResult { path: PathBuf::from("standard output"), source })
}
