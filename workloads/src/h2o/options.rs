//! The command line of `h2o`: names, defaults, help. Yields settings, and the report of what they made.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};

use super::{error::H2oError, generate, glm, mlp, parse, report::Report, source::Data};
use crate::{output::OutputOptions, platform::MachineOptions};

const GENERATE_EXAMPLES: &str = "\
Examples:
  guestscope-workloads h2o generate flights.csv
  guestscope-workloads h2o generate --rows 152000000 --seed 7 /data/flights.csv

A million flights take about 106 MB. The study's sets have 2,000 and 152 million.";

const PARSE_EXAMPLES: &str = "\
Examples:
  guestscope-workloads h2o parse --passes 100
  guestscope-workloads h2o parse --cold /data/flights.csv
  sudo guestscope run -- guestscope-workloads h2o parse --rows 1000000";

/// Help of `--json` for `glm`: only its JSON has more than the text, the coefficients.
const GLM_JSON: &str = "Print one line of JSON instead of text, with all coefficients, as is done wherever standard output is no \
                        terminal";

const GLM_EXAMPLES: &str = "\
Examples:
  guestscope-workloads h2o glm --fits 100
  guestscope-workloads h2o glm /data/flights.csv --json
  sudo guestscope run -- guestscope-workloads h2o glm --fits 100";

const MLP_EXAMPLES: &str = "\
Examples:
  guestscope-workloads h2o mlp
  guestscope-workloads h2o mlp --size memory --threads 8
  sudo guestscope run -- guestscope-workloads h2o mlp --size memory";

#[derive(Debug, Subcommand)]
pub enum H2oCommand {
    /// Write seeded flights into a CSV file with the columns of the airline-delay data
    Generate(GenerateOptions),
    /// Parse a CSV file of flights to columns: a request per chunk, of read, parse and append
    Parse(ParseOptions),
    /// Fit a binomial GLM on one thread: a request per iteration, of gram, solve and deviance
    #[command(mut_arg("json", |json| json.help(GLM_JSON)))]
    Glm(GlmOptions),
    /// Train a network on all cores: a request per step, of data, forward, backward and optimizer
    Mlp(MlpOptions),
}

#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES)]
pub struct GenerateOptions {
    /// Takes this name when it is whole; a file that has it is replaced
    file: PathBuf,
    /// Flights [default: 2000, with --smoke 5000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=100_000_000_000))]
    rows: Option<u64>,
    /// Decides every byte
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    machine: MachineOptions,
    #[command(flatten)]
    output: OutputOptions,
    /// Only check that it runs: one block that lasts some milliseconds
    #[arg(long)]
    smoke: bool,
}

#[derive(Debug, Args)]
struct DataOptions {
    /// A CSV file with the columns of the airline-delay data; without it flights are generated, once, and
    /// kept in the user's cache
    file: Option<PathBuf>,
    /// Flights to generate
    #[arg(long, value_name = "N", default_value_t = 2_000, conflicts_with = "file",
        value_parser = value_parser!(u64).range(1..=100_000_000_000))]
    rows: u64,
    /// Decides generated flights and weights: the same number, the same work
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    machine: MachineOptions,
}

#[derive(Debug, Args)]
#[command(after_help = PARSE_EXAMPLES)]
pub struct ParseOptions {
    #[command(flatten)]
    data: DataOptions,
    /// How often to read the file
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    passes: u64,
    /// KiB to read at once
    #[arg(long, value_name = "KIB", default_value_t = 4_096, value_parser = value_parser!(u64).range(4..=1_048_576))]
    chunk: u64,
    /// Make the kernel forget the file before each pass, so that the disk is read
    #[arg(long)]
    cold: bool,
    #[command(flatten)]
    output: OutputOptions,
    /// Only check that it runs: one pass over what is there
    #[arg(long, conflicts_with = "passes")]
    smoke: bool,
}

#[derive(Debug, Args)]
#[command(after_help = GLM_EXAMPLES)]
pub struct GlmOptions {
    #[command(flatten)]
    data: DataOptions,
    /// How often to fit it, each time from the start
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    fits: u64,
    /// Iterations after which a fit ends, converged or not
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = value_parser!(u64).range(1..=1_000_000))]
    max_iterations: u64,
    /// Penalty on the squares of coefficients, per flight; 0 for none
    #[arg(long, value_name = "L", default_value_t = 1e-4, value_parser = not_negative)]
    l2: f64,
    #[command(flatten)]
    output: OutputOptions,
    /// Only check that it runs: one fit of at most 3 iterations
    #[arg(long, conflicts_with_all = ["fits", "max_iterations"])]
    smoke: bool,
}

#[derive(Debug, Args)]
#[command(after_help = MLP_EXAMPLES)]
pub struct MlpOptions {
    #[command(flatten)]
    data: DataOptions,
    /// The study's fast mode (memory) or slow mode (cpu)
    #[arg(long, value_enum, default_value_t = mlp::Size::Cpu)]
    size: mlp::Size,
    /// Units of each hidden row, instead of the size's
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=65_536))]
    hidden: Vec<u32>,
    /// Samples per step, instead of the size's
    #[arg(long, value_name = "B", value_parser = value_parser!(u32).range(1..=65_536))]
    batch: Option<u32>,
    /// Steps to measure [default: 1000, with --size memory 100, with --smoke 3]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    steps: Option<u64>,
    /// Steps before those, marked `warmup` and left out of all statistics [default: 5, with --smoke 1]
    #[arg(long, value_name = "K", value_parser = value_parser!(u64).range(0..=1_000_000))]
    warmup: Option<u64>,
    /// Threads [default: as many as this process may use]
    #[arg(long, value_name = "T", value_parser = value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    #[command(flatten)]
    output: OutputOptions,
    /// Only check that it runs: few steps, hidden rows of 64 units
    #[arg(long)]
    smoke: bool,
}

fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        Ok(_) | Err(_) => Err("a number from 0 up is needed".to_owned()),
    }
}

impl H2oCommand {
    /// Options for the CPUs and a second job.
    pub fn machine(&self) -> &MachineOptions {
        match self {
            Self::Generate(options) => &options.machine,
            Self::Parse(options) => &options.data.machine,
            Self::Glm(options) => &options.data.machine,
            Self::Mlp(options) => &options.data.machine,
        }
    }

    /// Number of threads that the user chose; most have one and no choice.
    pub fn threads(&self) -> Option<u32> {
        match self {
            Self::Generate(_) | Self::Parse(_) | Self::Glm(_) => Some(1),
            Self::Mlp(options) => options.threads,
        }
    }

    /// Output form of its result.
    pub fn output(&self) -> OutputOptions {
        match self {
            Self::Generate(options) => options.output,
            Self::Parse(options) => options.output,
            Self::Glm(options) => options.output,
            Self::Mlp(options) => options.output,
        }
    }

    /// Runs the workload. `threads` is how many this process may use, `progress` whether a bar may be drawn.
    pub fn run(&self, threads: u32, progress: bool) -> Result<Report, H2oError> {
        match self {
            Self::Generate(GenerateOptions { file, rows, seed, smoke, .. }) => {
                let rows = rows.unwrap_or(if *smoke { 5_000 } else { 2_000 });
                let settings = generate::Settings { file: file.clone(), rows, seed: *seed, progress };
                Ok(Report::of_generate(&settings, &generate::write(&settings)?))
            }
            Self::Parse(options) => {
                let settings = options.settings(progress);
                Ok(Report::of_parse(&settings, &parse::run(&settings)?))
            }
            Self::Glm(options) => {
                let settings = options.settings(progress);
                Ok(Report::of_glm(&settings, &glm::run(&settings)?))
            }
            Self::Mlp(options) => {
                let settings = options.settings(threads, progress);
                Ok(Report::of_mlp(&settings, &mlp::run(&settings)?))
            }
        }
    }
}

impl DataOptions {
    fn data(&self) -> Data {
        Data { file: self.file.clone(), rows: self.rows, seed: self.seed }
    }
}

impl ParseOptions {
    fn settings(&self, progress: bool) -> parse::Settings {
        let Self { data, passes, chunk, cold, .. } = self;
        let (data, chunk_bytes) = (data.data(), *chunk as usize * 1024);
        parse::Settings { data, passes: *passes, chunk_bytes, cold: *cold, progress }
    }
}

impl GlmOptions {
    fn settings(&self, progress: bool) -> glm::Settings {
        let Self { data, fits, max_iterations, l2, smoke, .. } = self;
        let max_iterations = if *smoke { 3 } else { *max_iterations };
        glm::Settings { data: data.data(), fits: *fits, max_iterations, l2: *l2, progress }
    }
}

impl MlpOptions {
    fn settings(&self, threads: u32, progress: bool) -> mlp::Settings {
        let (steps, warmup) = match (self.smoke, self.size) {
            (true, _) => (3, 1),
            (false, mlp::Size::Cpu) => (1_000, 5),
            (false, mlp::Size::Memory) => (100, 5),
        };
        let hidden = match (&self.hidden[..], self.smoke) {
            ([], true) => vec![64, 64],
            ([], false) => self.size.hidden(),
            (units, _) => units.iter().map(|count| *count as usize).collect(),
        };
        mlp::Settings {
            data: self.data.data(),
            hidden,
            batch: self.batch.map_or(self.size.batch(), |batch| batch as usize),
            steps: self.steps.unwrap_or(steps),
            warmup: self.warmup.unwrap_or(warmup),
            threads: self.threads.unwrap_or(threads),
            progress,
        }
    }
}
