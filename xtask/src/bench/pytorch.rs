//! Our workloads compared with PyTorch, torchvision and Pillow: the same inputs, weights and threads, in
//! turns.
//!
//! The first row says that both compute the same, by the workloads' tests that run PyTorch: if they differ,
//! speeds mean nothing, and the verb fails. After that `beside.py` is the other side. Ratios are of speeds,
//! round by round: above 1 ours is faster.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    Bench, Row, built,
    ratio::{Ratio, median},
    turns::{self, Outcome},
};
use crate::{artifact, command, libtorch::Libtorch, python::Python, test::libtest};

const SCRIPT: &str = include_str!("beside.py");
/// Variable with a Python that has all packages already.
const PYTHON: &str = "GUESTSCOPE_TORCHVISION_PYTHON";
/// Work of both sides in a round, in turns of `turn_ms`.
struct Work {
    /// Requests or steps before the measured ones.
    warmup: u32,
    /// Measured requests or steps.
    count: u32,
    turn_ms: u64,
}

/// 10 s of pictures. The end of a turn interrupts one in ten, which does not change a median.
const PICTURES: Work = Work { warmup: 5, count: 150, turn_ms: 700 };
/// 20 s of text.
const TEXTS: Work = Work { warmup: 1, count: 10, turn_ms: 3_000 };
/// 35 s of training.
const STEPS: Work = Work { warmup: 1, count: 4, turn_ms: 6_000 };
/// The tests that run PyTorch or torchvision themselves; other tests compare with numbers that those printed
/// once.
const ASKING: [&str; 3] = [
    "full_models_agree_with_pytorch",
    "agrees_with_the_whole_of_torchvision",
    "all_outputs_are_torchvisions",
];
/// Number of those tests: the last one has a case for each of three networks.
const ASKED: u64 = 5;
/// Limit for building and running the tests, which takes 5 minutes on two cores.
const LIMIT: Duration = Duration::from_mins(30);

/// Freed memory stays in the process, on both sides. By default it depends on the memory after it whether
/// malloc returns it: 5,383 first touches per picture in our process and 20 in Python's, an eighth of the
/// time.
const KEPT: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "33554432"), ("MALLOC_TRIM_THRESHOLD_", "2147483647")];

struct Beside<'a> {
    bench: &'a Bench<'a>,
    python: PathBuf,
    script: PathBuf,
    folder: PathBuf,
    threads: String,
}

/// Inference, training and preparation.
pub(crate) fn rows(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let folder = bench.folder()?.join("pytorch");
    std::fs::create_dir_all(&folder)?;
    let python = match built(PYTHON)? {
        Some(python) => python,
        None => Python::with_torch(bench.xtask)?.program,
    };
    let script = folder.join("beside.py");
    std::fs::write(&script, SCRIPT)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let beside = Beside { bench, python, script, folder, threads };
    beside.prepare()?;
    let mut rows = vec![beside.outputs()?];
    rows.extend(beside.image()?);
    rows.push(beside.text()?);
    rows.push(beside.train()?);
    Ok(rows)
}

impl Beside<'_> {
    /// Makes pictures, a text and weights, once.
    fn prepare(&self) -> Result<()> {
        if self.folder.join("bert.safetensors").exists() {
            return Ok(());
        }
        let step = self.bench.xtask.progress.step("inputs and weights for both");
        let status = self.python("prepare").status().context("could not start Python")?;
        anyhow::ensure!(status.success(), "beside.py prepare: {status}");
        step.done("written");
        Ok(())
    }

    /// A command of the Python, which has its own libtorch.
    fn python(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.env_remove("LD_LIBRARY_PATH").envs(KEPT).arg(&self.script).arg(verb).arg(&self.folder);
        command
    }

    fn theirs(&self, verb: &str, work: &Work) -> Command {
        let mut command = self.python(verb);
        command.arg(&self.threads).args([work.warmup, work.count].map(|number| number.to_string()));
        command
    }

    fn ours(&self, words: &[&str], counted: &str, work: &Work, files: &[(&str, &str)]) -> Command {
        let mut command = Command::new(&self.bench.workloads);
        command.envs(KEPT).args(words).args(["--json", "--threads", &self.threads]);
        command.args(["--warmup", &work.warmup.to_string(), counted, &work.count.to_string()]);
        for (option, name) in files {
            command.arg(option).arg(self.folder.join(name));
        }
        command
    }

    /// Rounds of both sides, which take turns in being first.
    fn rounds(
        &self,
        label: &str,
        work: &Work,
        ours: &mut Command,
        theirs: &mut Command,
    ) -> Result<Vec<[Outcome; 2]>> {
        let step = self.bench.xtask.progress.step(label);
        let mut outcomes = Vec::new();
        for round in 0..self.bench.rounds {
            step.update(&format!("round {} of {}", round + 1, self.bench.rounds));
            let turn = Duration::from_millis(work.turn_ms);
            outcomes.push(if round % 2 == 0 {
                turns::take(ours, theirs, turn)?
            } else {
                let [theirs, ours] = turns::take(theirs, ours, turn)?;
                [ours, theirs]
            });
        }
        step.done(format!("{} rounds", self.bench.rounds));
        Ok(outcomes)
    }

    /// Row about the outputs of all models at full scale, compared by the tests.
    fn outputs(&self) -> Result<Row> {
        let xtask = self.bench.xtask;
        let mut tests = artifact::workloads_cargo(xtask, "test", Some(&Libtorch::ensure(xtask)?));
        tests.args(["--features", "torchvision-tests", "--no-fail-fast"]);
        tests.args(["--test", "pytorch", "--test", "torchvision", "--test", "trained"]);
        // Each test has one thread, and its Python another. Cargo runs the tests in their own folder.
        tests
            .args(["--", "--test-threads", "1"])
            .args(ASKING)
            .env(PYTHON, std::path::absolute(&self.python)?);
        let step = xtask.progress.step("outputs of all models beside PyTorch's");
        let log = xtask.log("bench-pytorch-outputs");
        let text = match (command::Run { step: &step, log: &log, limit: LIMIT }).check(&mut tests) {
            Ok(text) => text,
            Err(error) => {
                step.failed();
                return Err(error.context("outputs are not PyTorch's"));
            }
        };
        let passed = libtest::tally(&text).passed;
        if passed != ASKED {
            // A name that no test has would run nothing, and pass.
            step.failed();
            anyhow::bail!("{passed} tests that run PyTorch passed instead of {ASKED}: {}", log.display());
        }
        let measured = format!("{passed} tests passed");
        step.done(&measured);
        let what = "outputs of ResNet-50, InceptionV3, AlexNet, BERT, RNN-T, DLRM";
        Ok(Row::alone(what, measured, "as their tests say, 1e-4"))
    }

    fn image(&self) -> Result<Vec<Row>> {
        let files = [("--weights", "resnet50.safetensors"), ("--data", "pictures")];
        let mut ours = self.ours(&["infer", "ic"], "--requests", &PICTURES, &files);
        let label = "ResNet-50 and preparation, ours and PyTorch's";
        let outcomes = self.rounds(label, &PICTURES, &mut ours, &mut self.theirs("image", &PICTURES))?;
        let medians = |phase: &str, key: &str| {
            both(&outcomes, |[ours, theirs]| Ok([p50(&ours.result, phase)?, number(&theirs.result, key)?]))
        };
        Ok(vec![
            self.row("ResNet-50 inference, one picture", &medians("inference", "inference_ns")?, ">= 0.95"),
            self.row(
                "JPEG to tensor, against Pillow + torchvision",
                &medians("preprocess", "preprocess_ns")?,
                ">= 1",
            ),
        ])
    }

    fn text(&self) -> Result<Row> {
        let files = [("--weights", "bert.safetensors"), ("--data", "texts")];
        let mut ours = self.ours(&["infer", "nlp"], "--requests", &TEXTS, &files);
        let label = "BERT-Large, ours and PyTorch's";
        let outcomes = self.rounds(label, &TEXTS, &mut ours, &mut self.theirs("text", &TEXTS))?;
        Ok(self.row("BERT-Large inference, one window of 384", &each(&outcomes, &TEXTS)?, ">= 0.95"))
    }

    fn train(&self) -> Result<Row> {
        let mut ours = self.ours(&["train", "resnet50", "--batch", "32"], "--steps", &STEPS, &[]);
        let label = "training of ResNet-50, ours and PyTorch's";
        let outcomes = self.rounds(label, &STEPS, &mut ours, &mut self.theirs("train", &STEPS))?;
        Ok(self.row("ResNet-50 training, a step of 32", &each(&outcomes, &STEPS)?, ">= 0.95"))
    }

    /// `ns` of ours and theirs, round by round.
    fn row(&self, what: &str, ns: &[Vec<f64>; 2], budget: &'static str) -> Row {
        let ms = |side: usize| median(&ns[side]) / 1e6;
        Row {
            what: format!("{what}, {} threads", self.threads),
            measured: format!("{:.2} ms against {:.2}", ms(0), ms(1)),
            // Ratio of speeds: their time divided by ours.
            ratio: Ratio::new(&ns[1], &ns[0]),
            against: "of PyTorch",
            budget,
        }
    }
}

/// Values of ours and of theirs, round by round, from `of` each round.
fn both(outcomes: &[[Outcome; 2]], of: impl Fn(&[Outcome; 2]) -> Result<[f64; 2]>) -> Result<[Vec<f64>; 2]> {
    let rounds: Vec<[f64; 2]> = outcomes.iter().map(of).collect::<Result<_>>()?;
    Ok([0, 1].map(|side| rounds.iter().map(|round| round[side]).collect()))
}

/// ns of a request or step, warm-up included: the ends of turns interrupt most of them, so their own times
/// mean little.
fn each(outcomes: &[[Outcome; 2]], work: &Work) -> Result<[Vec<f64>; 2]> {
    let count = f64::from(work.warmup + work.count);
    both(outcomes, |sides| Ok([0, 1].map(|side| sides[side].worked.as_nanos() as f64 / count)))
}

fn p50(result: &Value, phase: &str) -> Result<f64> {
    number(&result["phases_ns"][phase], "p50")
}

fn number(result: &Value, key: &str) -> Result<f64> {
    result[key].as_f64().with_context(|| format!("no `{key}` in {result}"))
}
