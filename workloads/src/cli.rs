//! The command line: names, defaults, help. Yields the settings of a workload and writes its report to
//! standard output. It computes nothing.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    ops::RangeInclusive,
    path::PathBuf,
    thread,
};

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use serde::Serialize;

use crate::{
    catalog,
    child::WORKLOAD_FILE,
    error::Error,
    h2o::options::H2oCommand,
    infer::{
        self, Loop, Settings, Task,
        options::{IC_DATA, IC_HELP, IC_SCALE, ModelOptions, NLP_HELP, RS_HELP, SR_HELP, TextOptions},
    },
    load::{
        error::LoadError,
        histogram::Latencies,
        options::{Defaults, LoadOptions},
    },
    output::{OutputOptions, say},
    platform::{Asked, MachineOptions, Platform, TorchOptions},
    report::{Report, to_json, write_workload_file},
    stall::{self, machine::work::Amount, options::StallOptions, size::Size},
    suggest,
    train::{
        self,
        distributed::{self, options::Way},
        options::TrainOptions,
        pack::{self, PackOptions},
    },
};

const EXAMPLES: &str = "\
Examples:
  guestscope-workloads list
  guestscope-workloads infer ic --requests 200
  sudo guestscope run -- guestscope-workloads infer ic --requests 200 --threads 2";

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
    /// Pack pictures into shards for `train --data`: TFRecord files or tar files
    Shards(PackOptions),
    /// Run requests of known work, and hit some of them with faults of known kind and size
    Stall(StallOptions),
    /// Take the GPU for as long as numbers on standard input say: the other process of `stall gpu-neighbour`
    #[command(hide = true)]
    GpuNeighbour,
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
    /// Image classification: ResNet-50 v1.5 (25,557,032 parameters) on JPEG files
    #[command(
        after_help = IC_HELP,
        mut_arg("data", |data| data.help(IC_DATA)),
        mut_arg("scale", |scale| scale.help(IC_SCALE))
    )]
    Ic(ModelOptions),
    /// Natural language: BERT-Large (334,094,338 parameters) on questions about passages, as in SQuAD
    #[command(after_help = NLP_HELP)]
    Nlp(TextOptions),
    /// Recommendation: DLRM as of Criteo's Kaggle data (540,677,217 parameters) on records of clicks
    #[command(after_help = RS_HELP)]
    Rs(ModelOptions),
    /// Speech recognition: RNN-T (45,323,037 parameters) on recordings of 15 s
    #[command(after_help = SR_HELP)]
    Sr(ModelOptions),
    /// A busy loop of known length in the same three phases: the load without a model
    Loop(LoopOptions),
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
    #[command(flatten)]
    output: OutputOptions,
    /// Only check that it runs: 3 requests after 1 for warm-up
    #[arg(long)]
    smoke: bool,
    #[command(flatten)]
    load: LoadOptions,
}

impl Cli {
    /// Takes a command line apart, the name of the program first. An error may be a request for help.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        Self::try_parse_from(&words).map_err(|mistake| {
            let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            suggest::improve(mistake, &Self::command(), &words)
        })
    }

    /// Runs the command.
    pub fn run(self) -> Result<(), Error> {
        match self.command {
            Command::List { json: true } => print(&(to_json(&catalog::rows()) + "\n")),
            Command::List { json: false } => print(&catalog::table()),
            Command::Infer(Infer::Ic(options)) => run_model(Task::Ic, &options, None),
            Command::Infer(Infer::Nlp(options)) => run_model(Task::Nlp, &options.model, options.vocab),
            Command::Infer(Infer::Sr(options)) => run_model(Task::Sr, &options, None),
            Command::Infer(Infer::Rs(options)) => run_model(Task::Rs, &options, None),
            Command::Infer(Infer::Loop(options)) => {
                options.refuse_torch()?;
                let run = || infer::synthetic::run(&options.settings()?);
                // Its workers have no threads of their own.
                finish_on(Some(1), run, options.output, &options.load)
            }
            Command::Train(options) => run_train(&options),
            Command::Shards(options) => {
                let packed = pack::run(&options, may_draw())?;
                print(&options.output.choose(|| packed.text(), || packed.json()))
            }
            Command::Stall(options) => run_stall(&options),
            Command::GpuNeighbour => {
                let (mut orders, mut answers) = (io::stdin().lock(), io::stdout().lock());
                Ok(stall::machine::gpu_neighbour::serve(&mut orders, &mut answers)?)
            }
            Command::H2o(command) => run_h2o(&command),
        }
    }
}

impl LoopOptions {
    /// Refuses, before anything starts, options that only libtorch uses.
    fn refuse_torch(&self) -> Result<(), Error> {
        match self.load.torch.given().next() {
            Some(option) => Err(Error::NoUse { option }),
            None => Ok(()),
        }
    }

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
        let (requests, warmup) = if self.smoke { (3, 1) } else { (1000, 10) };
        let plan = self.load.plan(Defaults { requests, warmup }, self.seed, may_draw())?;
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

fn run_model(task: Task, options: &ModelOptions, vocabulary: Option<PathBuf>) -> Result<(), Error> {
    let run = || {
        let settings = options.settings(task, available_threads(), may_draw())?;
        task.run(&Settings { vocabulary, ..settings })
    };
    finish_on(options.threads, run, options.output, &options.load)
}

fn run_train(options: &TrainOptions) -> Result<(), Error> {
    let way = options.way()?;
    // Workers that are all started here share this machine.
    let peers = if let Way::Launch(all) = &way { all.workers } else { 1 };
    let platform = platform(
        &options.machine,
        Some(&options.torch),
        options.threads.map(|threads| threads.saturating_mul(peers)),
    )?;
    let threads = (available_threads() / peers).max(1);
    let settings = options.settings(threads, may_draw());
    match way {
        Way::Alone => {
            let report = train::run(&settings)?;
            warn(report.warning());
            tell(options.output, report.text(), report.json(), &report.identity, platform)
        }
        Way::Work(worker) => {
            let report = distributed::work(&settings, &worker)?;
            warn(report.warning());
            tell(options.output, report.text(), report.json(), &report.identity, platform)
        }
        Way::Serve(server) => {
            let report = distributed::serve(&settings, &server)?;
            tell(options.output, report.text(), report.json(), &report, platform)
        }
        Way::Launch(all) => {
            let report = distributed::launch::run(&settings, &all, &options.torch)?;
            warn(report.warnings.iter().cloned());
            tell(options.output, report.text(), report.json(), &report.identity, platform)
        }
    }
}

/// Sets up what a workload runs on. The command of a second job is checked before anything starts.
fn platform(
    machine: &MachineOptions,
    torch: Option<&TorchOptions>,
    threads: Option<u32>,
) -> Result<Platform, Error> {
    Platform::new(machine, torch, threads, |words| {
        let all = std::iter::once("guestscope-workloads".into()).chain(words.iter().cloned());
        Cli::read(all).map(drop).map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            match suggest::suggested(&error) {
                Some(near) => format!("{reason}; there is '{near}'"),
                None => reason.to_owned(),
            }
        })
    })
}

/// Prints the result, writes its description if guestscope asked for one, then ends the second job.
fn tell(
    output: OutputOptions,
    text: String,
    json: String,
    identity: &impl Serialize,
    platform: Platform,
) -> Result<(), Error> {
    print(&output.choose(|| text, || json))?;
    let described = Described { identity, asked: &platform.asked };
    write_workload_file(std::env::var_os(WORKLOAD_FILE).as_deref(), &described)?;
    end(platform)
}

fn end(platform: Platform) -> Result<(), Error> {
    warn(platform.end()?);
    Ok(())
}

fn warn(warnings: impl IntoIterator<Item = String>) {
    for warning in warnings {
        say(format_args!("warning: {warning}"));
    }
}

/// The description for guestscope's manifest: the workload, and the platform options that the user gave.
#[derive(Serialize)]
struct Described<'a, T> {
    #[serde(flatten)]
    identity: &'a T,
    #[serde(flatten)]
    asked: &'a Asked,
}

fn run_stall(options: &StallOptions) -> Result<(), Error> {
    let settings = options.settings(may_draw())?;
    let asked = stall::run::sizes(&settings)?;
    let outcome = stall::run::run(&settings)?;
    let report = stall::report::Report::new(&settings, &asked, outcome);
    tell(options.output, report.text(), report.json(), &report.identity, Platform::default())
}

fn run_h2o(command: &H2oCommand) -> Result<(), Error> {
    let platform = platform(command.machine(), None, command.threads())?;
    let report = command.run(available_threads(), may_draw())?;
    warn(report.warnings);
    tell(command.output(), report.text, report.json, &report.identity, platform)
}

/// Runs the workload and writes its results, the description first: the reader of standard output may be
/// gone, or its disk full. `threads` is the number that the user chose; `run` makes its settings, which
/// depend on the CPUs that are left.
fn finish_on(
    threads: Option<u32>,
    run: impl FnOnce() -> Result<Report, Error>,
    output: OutputOptions,
    load: &LoadOptions,
) -> Result<(), Error> {
    let _claim = load.histogram.as_deref().map(Latencies::check).transpose()?;
    let threads = threads.map(|threads| threads.saturating_mul(load.workers()));
    let platform = platform(&load.machine, Some(&load.torch), threads)?;
    let report = run()?;
    let file = std::env::var_os(WORKLOAD_FILE);
    let described = report.write_workload_file(file.as_deref(), &platform.asked);
    warn(report.warning());
    let kept = load.histogram.as_deref().map_or(Ok(()), |path| report.latencies().write(path));
    // The rest is written even if this fails.
    print(&output.choose(|| report.text(), || report.json()))?;
    described?;
    kept?;
    end(platform)
}

fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|source| Error::WriteResult { path: PathBuf::from("standard output"), source })
}
