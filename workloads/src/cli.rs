//! The command line: names, defaults, help. Yields the settings of a workload and writes its report to standard
//! output. It computes nothing.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    thread,
};

use clap::{Args, Parser, Subcommand, value_parser};

use crate::{
    catalog,
    error::Error,
    infer::{self, Settings},
    report::{Report, WORKLOAD_FILE, to_json, write_workload_file},
    stall::{self, options::StallOptions},
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
  guestscope-workloads infer ic --data ~/imagenet/val --weights resnet50.safetensors --json

The weights file holds the state_dict of torchvision's resnet50 under its own names. In Python:
  safetensors.torch.save_file(torchvision.models.resnet50(weights=\"DEFAULT\").state_dict(), FILE)";

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
}

#[derive(Debug, Args)]
#[command(after_help = IC_EXAMPLES)]
struct IcOptions {
    /// Requests to measure, one after the other [default: 1000, with --smoke 3]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    requests: Option<u64>,
    /// Requests before those, marked `warmup` and left out of all statistics [default: 10, with --smoke 1]
    #[arg(long, value_name = "K", value_parser = value_parser!(u64).range(0..=1_000_000))]
    warmup: Option<u64>,
    /// Pictures per request
    #[arg(long, value_name = "B", default_value_t = 1, value_parser = value_parser!(u64).range(1..=1024))]
    batch: u64,
    /// Threads of libtorch inside one operator [default: as many as this process may use]
    #[arg(long, value_name = "T", value_parser = value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Decides generated pictures and weights: the same number, the same work
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
    /// Only see whether it runs: few requests, 4 generated pictures instead of 64
    #[arg(long)]
    smoke: bool,
}

impl Cli {
    /// Does what the command line says.
    pub fn run(self) -> Result<(), Error> {
        match self.command {
            Command::List { json: true } => print(&(to_json(&catalog::rows()) + "\n")),
            Command::List { json: false } => print(&catalog::table()),
            Command::Infer(Infer::Ic(options)) => finish(&infer::ic(&options.settings())?, options.json),
            Command::Train(options) => run_train(&options),
            Command::Stall(options) => run_stall(&options),
        }
    }
}

impl IcOptions {
    fn settings(&self) -> Settings {
        let (requests, warmup, generated) = if self.smoke { (3, 1, 4) } else { (1000, 10, 64) };
        Settings {
            requests: self.requests.unwrap_or(requests),
            warmup: self.warmup.unwrap_or(warmup),
            batch: self.batch,
            threads: self.threads.unwrap_or_else(available_threads),
            seed: self.seed,
            data: self.data.clone(),
            generated,
            weights: self.weights.clone(),
            progress: may_draw(),
        }
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

fn finish(report: &Report, json: bool) -> Result<(), Error> {
    if json {
        print(&(report.json() + "\n"))?;
    } else {
        print(&report.text())?;
    }
    report.write_workload_file(std::env::var_os(WORKLOAD_FILE).as_deref())
}

fn print(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|source| Error::WriteResult { path: PathBuf::from("standard output"), source })
}
