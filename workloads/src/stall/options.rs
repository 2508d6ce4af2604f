//! The command line of `stall`: names, defaults, help. Yields settings. It starts nothing.

use std::{ops::RangeInclusive, path::PathBuf, str::FromStr};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    value_parser,
};

use super::{
    Kind, Peer, Wait, error::StallError, kinds::KINDS, machine::work::Amount, run::Settings,
    schedule::Schedule, size::Size,
};
use crate::{output::OutputOptions, suggest};

const EXAMPLES: &str = "\
Examples:
  guestscope-workloads stall sleep --size 20ms --every 10 --log truth.jsonl
  guestscope-workloads stall touch --size 4MiB --requests 500
  sudo guestscope-workloads stall quota --size 20ms --spread 50 --seed 7
  sudo guestscope run -- guestscope-workloads stall lock --size 10ms --and bounce:4

One request of every N is hit, in its phase `work`. A line of the log is one injected fault:
  {\"kind\":\"sleep\",\"request\":3,\"start_ns\":...,\"asked_ns\":20000000,\"ns\":20061000,\"wall_ns\":...,
   \"cpu_ns\":...,\"run_delay_ns\":...}
start_ns is on CLOCK_MONOTONIC, ns (and count) what the injector measured. The last three are
what the kernel's books say of the requests' thread meanwhile: elapsed, on a CPU, waiting for one.";

/// Options of `stall`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StallOptions {
    /// What a request is hit by
    #[arg(value_name = "KIND", value_parser = kind_parser())]
    kind: &'static Kind,
    /// How large the fault is: a time, or a number where the kind counts [default: see `list`]
    #[arg(long, visible_alias = "count", value_name = "SIZE")]
    size: Option<Size>,
    /// How far sizes may lie from that, in percent of it, by the seed
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = value_parser!(u64).range(0..=90))]
    spread: u64,
    /// One more fault for the same requests, after the first; may be repeated
    #[arg(long, value_name = "KIND[:SIZE]")]
    and: Vec<Addition>,
    /// Hit one request of so many, at a place among them that the seed decides [default: 10, with --smoke 3]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000))]
    every: Option<u64>,
    /// Requests, one after the other [default: 200, with --smoke 6]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000_000))]
    requests: Option<u64>,
    /// Requests before those, marked `warmup` and never hit [default: 5, with --smoke 1]
    #[arg(long, value_name = "K", value_parser = value_parser!(u64).range(0..=1_000_000))]
    warmup: Option<u64>,
    /// The work of each request: its CPU time here, or a number of rounds, the same on every machine
    #[arg(long, value_name = "TIME|ROUNDS", default_value_t = Size::Time { ns: 5_000_000 })]
    work: Size,
    /// Decides which requests are hit, and by how much
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Write what was injected here, a line of JSON per fault
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Let the log also tell of each request that is spared: its elapsed time, its CPU time, and how long it
    /// waited for a CPU
    #[arg(long, requires = "log")]
    log_spared: bool,
    /// For kinds with files: a folder on a disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    folder: PathBuf,
    /// For helper-late and gpu-neighbour: how the request waits for its helper, or for the GPU
    #[arg(long, value_enum, default_value_t = Wait::Spin)]
    wait: Wait,
    /// For slow-peer: what the request reads from
    #[arg(long, value_enum, default_value_t = Peer::Socket)]
    peer: Peer,
    #[command(flatten)]
    pub output: OutputOptions,
    /// Only check that it runs: 6 requests after 1 for warm-up, two of them hit
    #[arg(long)]
    smoke: bool,
}

/// `KIND` or `KIND:SIZE`.
#[derive(Clone, Debug)]
struct Addition {
    kind: &'static Kind,
    size: Option<Size>,
}

#[derive(Debug, thiserror::Error)]
enum NotAnAddition {
    #[error("no such kind; {}", near.map_or_else(
        || "`guestscope-workloads list` shows them".to_owned(),
        |near| format!("a similar one exists: '{near}'"),
    ))]
    Kind { near: Option<&'static str> },
    #[error(transparent)]
    Size(#[from] super::size::NotASize),
}

impl NotAnAddition {
    fn unknown(name: &str) -> Self {
        Self::Kind { near: suggest::nearest(name, KINDS.iter().map(|kind| kind.name)) }
    }
}

impl FromStr for Addition {
    type Err = NotAnAddition;

    fn from_str(text: &str) -> Result<Self, NotAnAddition> {
        let (name, size) = text.split_once(':').map_or((text, None), |(name, size)| (name, Some(size)));
        let kind = super::find(name).ok_or_else(|| NotAnAddition::unknown(name))?;
        let size = size.map(str::parse).transpose()?;
        Ok(Self { kind, size })
    }
}

impl StallOptions {
    /// The settings. `progress` says whether a bar may be drawn.
    pub fn settings(&self, progress: bool) -> Result<Settings, StallError> {
        let faults = std::iter::once((self.kind, self.size));
        let (requests, warmup, every) = if self.smoke { (6, 1, 3) } else { (200, 5, 10) };
        let every = self.every.unwrap_or(every);
        Ok(Settings {
            faults: faults.chain(self.and.iter().map(|one| (one.kind, one.size))).collect(),
            schedule: Schedule { seed: self.seed, every, spread_percent: self.spread },
            requests: self.requests.unwrap_or(requests),
            warmup: self.warmup.unwrap_or(warmup),
            work: amount(self.work)?,
            log: self.log.clone(),
            log_spared: self.log_spared,
            folder: self.folder.clone(),
            wait: self.wait,
            peer: self.peer,
            progress,
        })
    }
}

/// Bounds of a request's work: 10 us to 10 s, or 1,000 rounds (about as much) to as many as take hours.
const WORK_NS: RangeInclusive<u64> = 10_000..=10_000_000_000;
const WORK_ROUNDS: RangeInclusive<u64> = 1_000..=1_000_000_000_000;

fn amount(work: Size) -> Result<Amount, StallError> {
    let refused = |expected: String| StallError::Work { expected, given: work.to_string() };
    let between = |range: RangeInclusive<u64>, size: fn(u64) -> Size| {
        refused(format!("between {} and {}", size(*range.start()), size(*range.end())))
    };
    match work {
        Size::Time { ns } if WORK_NS.contains(&ns) => Ok(Amount::Lasting { ns }),
        Size::Time { .. } => Err(between(WORK_NS, |ns| Size::Time { ns })),
        Size::Count(rounds) if WORK_ROUNDS.contains(&rounds) => Ok(Amount::Rounds(rounds)),
        Size::Count(_) => Err(between(WORK_ROUNDS, Size::Count)),
        Size::Bytes(_) => Err(refused("a time or a number of rounds".to_owned())),
    }
}

fn kind_parser() -> impl TypedValueParser<Value = &'static Kind> {
    let values = KINDS.iter().map(|kind| PossibleValue::new(kind.name).help(kind.what));
    PossibleValuesParser::new(values)
        .try_map(|name| super::find(&name).ok_or_else(|| NotAnAddition::unknown(&name)))
}
