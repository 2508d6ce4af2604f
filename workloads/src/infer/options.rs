//! The command line of the workloads that run a model of any scale: names, defaults, help. Yields settings.
//! It starts nothing.

use std::path::PathBuf;

use clap::{Args, value_parser};

use super::{
    Settings, Task,
    sizing::{Precision, Scale},
};
use crate::{
    error::Error,
    load::options::{Defaults, LoadOptions},
    output::OutputOptions,
};

/// Help for options of `infer ic`: its inputs are pictures, and `--scale` makes those smaller, not the model.
pub const IC_DATA: &str = "Take the *.jpg and *.jpeg files of this folder, sorted by name, instead of generated pictures; \
                           those that cannot be used are left out";
pub const IC_SCALE: &str =
    "Keep so much of the pictures' sides, above 0 and at most 1: fewer pixels, another work";

pub const IC_HELP: &str = "\
Examples:
  guestscope-workloads infer ic --smoke --scale 0.25
  guestscope-workloads infer ic --requests 200 --batch 8 --threads 2
  guestscope-workloads infer ic --scenario server --qps 10 --duration 60s --target-latency 130ms
  guestscope-workloads infer ic --scenario server --find-peak --histogram latency.hgrm
  guestscope-workloads infer ic --data ~/imagenet/val --weights resnet50.safetensors --json

The weights file holds the state_dict of torchvision's resnet50 under its own names. In Python:
  safetensors.torch.save_file(torchvision.models.resnet50(weights=\"DEFAULT\").state_dict(), FILE)";

pub const NLP_HELP: &str = "\
Examples:
  guestscope-workloads infer nlp --smoke --scale 0.1
  guestscope-workloads infer nlp --requests 100 --threads 2
  guestscope-workloads infer nlp --scenario server --qps 0.2 --target-latency 10s --requests 100
  guestscope-workloads infer nlp --data questions/ --weights bert.safetensors --vocab vocab.txt

A sample is a file: a question in the first line, its passage behind it. Words are cut into pieces
by a vocabulary of 30,522 tokens that the seed decides, special tokens where BERT has them; a
passage that exceeds 384 tokens is shown in windows of that length, 128 tokens apart. --data takes
*.txt files. A weights file holds the state_dict of Hugging Face's BertForQuestionAnswering under
its own names: bert.embeddings.word_embeddings.weight, ..., qa_outputs.bias. Trained ones mean
something only with the vocabulary that they were trained with: --vocab takes BERT's vocab.txt. The
full model takes 1.6 GB of memory for each worker.";

pub const RS_HELP: &str = "\
Examples:
  guestscope-workloads infer rs --smoke --scale 0.01
  guestscope-workloads infer rs --requests 2000 --batch 4 --threads 2
  guestscope-workloads infer rs --scenario server --qps 50 --target-latency 30ms --duration 60s

A sample is a file of 100 to 700 records, one a line, in the form of Criteo's Kaggle data: 40 columns
divided by tabs, or 39 without the first. --data takes *.tsv and *.txt files. A weights file holds the
state_dict of the reference under its own names: emb_l.0.weight, bot_l.0.weight, top_l.0.weight, ...
The full model takes 2.3 GB of memory for each worker.";

pub const SR_HELP: &str = "\
Examples:
  guestscope-workloads infer sr --smoke --scale 0.1
  guestscope-workloads infer sr --requests 1200 --threads 2
  guestscope-workloads infer sr --scenario offline --batch 8 --workers 2

A sample is a recording: a WAV file of one channel of 16-bit numbers at 16 kHz, generated ones last
15 s. --data takes *.wav files. A weights file holds the state_dict of MLPerf's reference under its
own names: encoder.pre_rnn.lstm.weight_ih_l0, ..., prediction.embed.weight, ..., joint_net.3.bias.
Seeded weights are drawn so that most steps yield no symbol, as in speech.";

/// Options of workloads that run a model.
#[derive(Debug, Args)]
pub struct ModelOptions {
    /// Threads of libtorch inside one operator [default: as many as this process may use]
    #[arg(long, value_name = "T", value_parser = value_parser!(u32).range(1..=4096))]
    pub(crate) threads: Option<u32>,
    /// Decides generated inputs, weights and arrivals: the same number, the same work
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Take the input files of this folder, sorted by name, instead of generated ones; those that cannot be
    /// used are left out
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Different inputs to make; requests use them in turn [default: 64, nlp 256, sr 32, with --smoke 4]
    #[arg(long, value_name = "N", conflicts_with = "data", value_parser = value_parser!(u32).range(1..=MOST_INPUTS))]
    inputs: Option<u32>,
    /// Take trained weights instead of seeded ones
    #[arg(long, value_name = "FILE.safetensors")]
    weights: Option<PathBuf>,
    /// Keep so much of the model's tables and layers, above 0 and at most 1: less memory, another work
    #[arg(long, value_name = "F", default_value_t = Scale::FULL)]
    scale: Scale,
    /// The numbers that the model computes with
    #[arg(long, value_enum, default_value_t = Precision::Fp32)]
    precision: Precision,
    #[command(flatten)]
    pub output: OutputOptions,
    /// Only check that it runs: 3 requests after 1 for warm-up, 4 generated inputs
    #[arg(long)]
    smoke: bool,
    #[command(flatten)]
    pub load: LoadOptions,
}

/// Options of a workload whose requests are texts.
#[derive(Debug, Args)]
pub struct TextOptions {
    /// Cut the words of --data by this vocabulary of one token a line, instead of one that the seed decides
    #[arg(long, value_name = "vocab.txt", requires = "data")]
    pub vocab: Option<PathBuf>,
    #[command(flatten)]
    pub model: ModelOptions,
}

impl ModelOptions {
    /// The settings. `threads` is the default number of threads; `progress` says whether a bar may be drawn.
    pub fn settings(&self, task: Task, threads: u32, progress: bool) -> Result<Settings, Error> {
        let (requests, warmup) = if self.smoke { (3, 1) } else { (1000, 10) };
        Ok(Settings {
            plan: self.load.plan(Defaults { requests, warmup }, self.seed, progress)?,
            batch: self.load.batch(),
            threads: self.threads.unwrap_or(threads),
            seed: self.seed,
            data: self.data.clone(),
            generated: self.inputs.unwrap_or(if self.smoke { SMOKE_INPUTS } else { task.inputs() }),
            weights: self.weights.clone(),
            vocabulary: None,
            scale: self.scale,
            precision: self.precision,
        })
    }
}

/// Generated inputs with --smoke.
const SMOKE_INPUTS: u32 = 4;
/// Limit of --inputs: the names of all inputs are listed, and looked for before the run. No set of MLPerf is
/// as large.
const MOST_INPUTS: i64 = 1_000_000;
