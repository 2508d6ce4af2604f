//! The command line of `train`: names, defaults, help. Yields settings. It starts nothing.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    value_parser,
};

use super::{
    MODELS, Model, Settings, Share,
    distributed::{
        error::DistributedError,
        options::{OF_SERVER, PeerOptions, Way, refuse},
    },
};
use crate::{
    output::OutputOptions,
    platform::{MachineOptions, TorchOptions},
    progress::Progress,
};

const EXAMPLES: &str = "\
Examples:
  guestscope-workloads train mnist --smoke
  guestscope-workloads train resnet50 --batch 32 --threads 2
  guestscope-workloads train alexnet --data ~/imagenet/train --loaders 4 --drop-caches
  guestscope-workloads train resnet50 --workers 2
  guestscope-workloads train resnet50 --workers 2 --listen 10.0.0.1:0 --through 'ip netns exec part-{}'
  guestscope-workloads train resnet50 --role ps --listen 0.0.0.0:7070 --workers 2 --asynchronous
  guestscope-workloads train resnet50 --role worker --server 10.0.0.1:7070 --rank 0
  sudo guestscope run -- guestscope-workloads train inception3 --steps 20

Ten steps for warm-up and a hundred measured ones, as in the studies. A step is a request with the
phases data, forward, backward and optimizer; that of a worker with a parameter server has pull,
data, forward, backward and push.";

/// Options of `train`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TrainOptions {
    /// What is trained
    #[arg(value_name = "MODEL", value_parser = model_parser())]
    model: &'static Model,
    /// Images per step [default: 32; alexnet and alexnet-tf 512, mnist 64; with --smoke 2]
    #[arg(long, value_name = "B", value_parser = value_parser!(u64).range(1..=65_536))]
    batch: Option<u64>,
    /// Steps to measure [default: 100, with --smoke 2]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=100_000_000))]
    steps: Option<u64>,
    /// Steps before those, marked `warmup` and left out of all statistics [default: 10, with --smoke 1]
    #[arg(long, value_name = "K", value_parser = value_parser!(u64).range(0..=1_000_000))]
    warmup: Option<u64>,
    /// Threads of libtorch inside one operator [default: as many as this process may use]
    #[arg(long, value_name = "T", value_parser = value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// Decides the first parameters, synthetic images and what is dropped out: the same number, the same work
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Learning rate of stochastic gradient descent [default: 0.01]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    learning_rate: Option<f64>,
    /// Instead of synthetic images take the JPEG files of this folder, one folder below it for each class; or
    /// its shards (*.tfrecord or *.tar, see `guestscope-workloads shards`), or one shard
    #[arg(long, value_name = "DIR|FILE")]
    data: Option<PathBuf>,
    /// Threads that read and prepare pictures [default: 2]
    #[arg(long, value_name = "L", requires = "data", value_parser = value_parser!(u32).range(1..=256))]
    loaders: Option<u32>,
    /// Have the pictures read from the disk: the kernel is asked to forget what it has of them
    #[arg(long, requires = "data")]
    drop_caches: bool,
    #[command(flatten)]
    pub output: OutputOptions,
    /// Only check that it runs: two steps of two images
    #[arg(long)]
    smoke: bool,
    /// The part that this process takes in a job of several.
    #[command(flatten)]
    pub peers: PeerOptions,
    /// Device and threads of libtorch.
    #[command(flatten)]
    pub torch: TorchOptions,
    /// CPUs, and a second job.
    #[command(flatten)]
    pub machine: MachineOptions,
}

impl TrainOptions {
    /// The part of a job that this process takes. Refuses options that another part decides.
    ///
    /// # Errors
    ///
    /// Options do not go together.
    pub fn way(&self) -> Result<Way, DistributedError> {
        let Self { batch, steps, warmup, data, learning_rate, .. } = self;
        let way = self.peers.way()?;
        match &way {
            Way::Serve(_) => refuse(
                "with --role ps: its workers say it",
                &[
                    ("--batch", batch.is_some()),
                    ("--steps", steps.is_some()),
                    ("--warmup", warmup.is_some()),
                    ("--data", data.is_some()),
                ],
            )?,
            Way::Work(_) => refuse(OF_SERVER, &[("--learning-rate", learning_rate.is_some())])?,
            Way::Alone | Way::Launch(_) => {}
        }
        Ok(way)
    }

    /// The settings. `threads` are as many as may be used, `may_draw` says whether a bar may be drawn.
    pub fn settings(&self, threads: u32, may_draw: bool) -> Settings {
        let progress = match (self.peers.tells_steps(), may_draw) {
            (true, _) => Progress::Lines,
            (false, true) => Progress::Bar,
            (false, false) => Progress::Hidden,
        };
        let (batch, steps, warmup) = if self.smoke { (2, 2, 1) } else { (self.model.batch, 100, 10) };
        Settings {
            model: self.model,
            batch: self.batch.unwrap_or(batch),
            steps: self.steps.unwrap_or(steps),
            warmup: self.warmup.unwrap_or(warmup),
            threads: self.threads.unwrap_or(threads),
            seed: self.seed,
            learning_rate: self.learning_rate.unwrap_or(0.01),
            data: self.data.clone(),
            loaders: self.loaders.unwrap_or(2),
            drop_caches: self.drop_caches,
            share: Share::ALL,
            progress,
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a number above 0".to_owned()),
    }
}

fn model_parser() -> impl TypedValueParser<Value = &'static Model> {
    let values = MODELS.iter().map(|model| PossibleValue::new(model.name).help(model.what));
    PossibleValuesParser::new(values).try_map(|name| Model::find(&name).ok_or("no such model"))
}
