//! Our workloads beside PyTorch, torchvision and Pillow: the same inputs, weights and threads, in turns.
//!
//! The first row says that both compute the same, by the tests of the workloads that ask PyTorch itself: speeds of programs
//! that do not are nobody's concern, so the verb fails then. After that `beside.py` is the
//! other side. Ratios are of speeds, by the median request of each round: above 1 ours is faster.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    Bench, Row, built, json_of,
    ratio::{Ratio, median},
};
use crate::{artifact, command, libtorch::Libtorch, python::Python, test::libtest};

const SCRIPT: &str = include_str!("beside.py");
/// Names a Python that has all of it already.
const PYTHON: &str = "GUESTSCOPE_TORCHVISION_PYTHON";
/// Per round, after the warm-up: 2 s of pictures, 10 s of text, 30 s of training on two cores.
const PICTURES: &str = "50";
const TEXTS: &str = "5";
const STEPS: &str = "2";
/// The tests that run PyTorch or torchvision themselves; the others know numbers that those printed once.
const ASKING: [&str; 3] = [
    "full_models_agree_with_pytorch",
    "agrees_with_the_whole_of_torchvision",
    "all_outputs_are_torchvisions",
];
/// For building the tests and running them: 5 minutes on two cores.
const LIMIT: Duration = Duration::from_mins(30);

/// Memory that is freed stays in the process, on both sides. By its defaults malloc gives it back or not by what happens to lie
/// behind it: 5,383 first touches per picture in our process and 20 in Python's, an eighth of the time.
const KEPT: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "33554432"), ("MALLOC_TRIM_THRESHOLD_", "2147483647")];

/// One of the two sides.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Ours,
    Theirs,
}

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
    /// Pictures, a text and weights, once.
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

    /// Its libtorch is not ours.
    fn python(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.env_remove("LD_LIBRARY_PATH").envs(KEPT).arg(&self.script).arg(verb).arg(&self.folder);
        command
    }

    fn theirs(&self, verb: &str, count: &str) -> Result<Value> {
        json_of(self.python(verb).arg(&self.threads).arg(count))
    }

    fn ours(&self, words: &[&str], files: &[(&str, &str)]) -> Result<Value> {
        let mut command = Command::new(&self.bench.workloads);
        command.envs(KEPT).args(words).args(["--json", "--threads", &self.threads]);
        for (option, name) in files {
            command.arg(option).arg(self.folder.join(name));
        }
        json_of(&mut command)
    }

    /// Of all models at full scale, as the tests compare them.
    fn outputs(&self) -> Result<Row> {
        let xtask = self.bench.xtask;
        let mut tests = artifact::workloads_cargo(xtask, "test", Some(&Libtorch::ensure(xtask)?));
        tests.args(["--features", "torchvision-tests", "--no-fail-fast"]);
        tests.args(["--test", "pytorch", "--test", "torchvision", "--test", "trained"]);
        // Each test has one thread, and its Python another. Cargo runs them in a folder of their own.
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
        let measured = format!("{} tests passed", libtest::tally(&text).passed);
        step.done(&measured);
        let what = "outputs of ResNet-50, InceptionV3, AlexNet, BERT, RNN-T, DLRM";
        Ok(Row::alone(what, measured, "as their tests say, 1e-4"))
    }

    fn image(&self) -> Result<Vec<Row>> {
        let mut preparing = [Vec::new(), Vec::new()];
        let label = "ResNet-50 and preparation, ours and PyTorch's";
        let measured = self.bench.alternate(label, &[Side::Ours, Side::Theirs], |side| {
            let (preprocess, inference) = if *side == Side::Ours {
                let words = ["infer", "ic", "--requests", PICTURES, "--warmup", "5"];
                let result =
                    self.ours(&words, &[("--weights", "resnet50.safetensors"), ("--data", "pictures")])?;
                (p50(&result, "preprocess")?, p50(&result, "inference")?)
            } else {
                let result = self.theirs("image", PICTURES)?;
                (number(&result, "preprocess_ns")?, number(&result, "inference_ns")?)
            };
            preparing[usize::from(*side == Side::Theirs)].push(preprocess);
            Ok(inference)
        })?;
        Ok(vec![
            self.row("ResNet-50 inference, one picture", &measured, ">= 0.95"),
            self.row("JPEG to tensor, against Pillow + torchvision", &preparing, ">= 1"),
        ])
    }

    fn text(&self) -> Result<Row> {
        let label = "BERT-Large, ours and PyTorch's";
        let measured = self.bench.alternate(label, &[Side::Ours, Side::Theirs], |side| {
            if *side == Side::Theirs {
                return number(&self.theirs("text", TEXTS)?, "inference_ns");
            }
            let words = ["infer", "nlp", "--requests", TEXTS, "--warmup", "1"];
            p50(&self.ours(&words, &[("--weights", "bert.safetensors"), ("--data", "texts")])?, "inference")
        })?;
        Ok(self.row("BERT-Large inference, one window of 384", &measured, ">= 0.95"))
    }

    fn train(&self) -> Result<Row> {
        let label = "training of ResNet-50, ours and PyTorch's";
        let measured = self.bench.alternate(label, &[Side::Ours, Side::Theirs], |side| {
            if *side == Side::Theirs {
                return number(&self.theirs("train", STEPS)?, "step_ns");
            }
            let words = ["train", "resnet50", "--batch", "32", "--steps", STEPS, "--warmup", "1"];
            let result = self.ours(&words, &[])?;
            result["step_ns"]["p50"].as_f64().context("the workload said no `step_ns`")
        })?;
        Ok(self.row("ResNet-50 training, a step of 32", &measured, ">= 0.95"))
    }

    /// `ns` of ours and theirs, round by round.
    fn row(&self, what: &str, ns: &[Vec<f64>], budget: &'static str) -> Row {
        let ms = |side: usize| median(&ns[side]) / 1e6;
        Row {
            what: format!("{what}, {} threads", self.threads),
            measured: format!("{:.2} ms against {:.2}", ms(0), ms(1)),
            // Of speeds: theirs by ours, as both are times.
            ratio: Ratio::new(&ns[1], &ns[0]),
            against: "of PyTorch",
            budget,
        }
    }
}

fn p50(result: &Value, phase: &str) -> Result<f64> {
    number(&result["phases_ns"][phase], "p50")
}

fn number(result: &Value, key: &str) -> Result<f64> {
    result[key].as_f64().with_context(|| format!("no `{key}` in {result}"))
}
