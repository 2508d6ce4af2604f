//! Report of a training job: the table that tf_cnn_benchmarks prints and the facts of the job, one line of
//! JSON for machines, and the description for guestscope's manifest. Yields text.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::speed::Speed;
use crate::{
    data::file_set::Skipped,
    digest::Digest,
    report::{LeftOut, Percentiles, left_out, to_json},
    steps::Steps,
};

/// Phases of a step, in order. A job on the CPU copies nothing to a device.
pub const PHASES: &[&str] = &["data", "forward", "backward", "optimizer"];
/// Phases of a step if the network lives on a device.
pub const DEVICE_PHASES: &[&str] = &["data", "h2d", "forward", "backward", "optimizer"];
/// The table has a line for the first step and every tenth, or fewer: about 100 lines at most.
const DISPLAY_EVERY: usize = 10;
const MOST_LINES: usize = 100;

/// Precision of all training, for reports and work hashes.
pub const PRECISION: &str = "fp32";
/// Optimizer of all training.
pub const OPTIMIZER: &str = "sgd";

/// Identity of a job: what was run.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    /// Name on the command line.
    pub name: String,
    /// Model name for people.
    pub model: &'static str,
    /// Number of trainable parameters.
    pub parameters: u64,
    /// Images per step.
    pub batch: u64,
    /// Intra-op threads of libtorch.
    pub threads: u32,
    /// Seed of the first parameters, synthetic images and dropout.
    pub seed: u64,
    /// Precision of all numbers.
    pub precision: &'static str,
    /// Name of the optimizer.
    pub optimizer: &'static str,
    /// Learning rate of the optimizer.
    pub learning_rate: f64,
    /// Kind of data: `synthetic`, `folder`, `tfrecord` or `tar`.
    pub data: &'static str,
    /// Threads that read and prepared pictures, if any did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaders: Option<u32>,
    /// Whether the kernel was asked to forget the files first.
    pub drop_caches: bool,
    /// Number of measured steps.
    pub steps: u64,
    /// Number of warm-up steps.
    pub warmup: u64,
    /// This worker's part of a job with a parameter server.
    #[serde(flatten)]
    pub distributed: Option<Part>,
    /// Work hash: equal for jobs that computed the same from the same images, on any machine and threads.
    pub work_hash: Digest,
    /// Hash of the exact bits of all losses, and of the final parameters and running statistics of batch
    /// normalisation; those statistics are each worker's own. None for asynchronous workers, where it depends
    /// on the order of arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_hash: Option<Digest>,
}

/// One worker's part of a job with a parameter server.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Number of workers.
    pub workers: u32,
    /// Rank of this worker, from 0.
    pub rank: u32,
    /// Whether each gradient was applied as it came.
    pub asynchronous: bool,
    /// Hash of the exact bits of the server's parameters after this worker's last step. After synchronous
    /// steps all workers have the same.
    pub parameters_hash: Digest,
}

/// Measurements of every measured step, in order.
#[derive(Debug)]
pub struct Measured {
    /// Times of the steps and their phases.
    pub steps: Steps,
    /// Mean loss over each step's batch.
    pub losses: Vec<f64>,
    /// Elapsed time of the whole job, with network construction and warm-up, ns.
    pub elapsed_ns: u64,
    /// Files that could not be used.
    pub skipped: Skipped,
    /// Number of files that the kernel could not be asked to forget.
    pub kept: usize,
}

/// A finished job.
#[derive(Debug)]
pub struct Report {
    /// What was run.
    pub identity: Identity,
    /// Measured times and losses.
    pub measured: Measured,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    identity: &'a Identity,
    images_per_s: f64,
    images_per_s_uncertainty: f64,
    images_per_s_jitter: f64,
    elapsed_ns: u64,
    step_ns: Percentiles,
    phases_ns: BTreeMap<&'static str, Percentiles>,
    first_loss: f64,
    last_loss: f64,
    skipped_files: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
    kept_files: usize,
}

impl Measured {
    /// Measurements of finished steps; `source` says which files it left out.
    #[cfg(feature = "torch")]
    pub(super) fn new(
        steps: Steps,
        losses: Vec<f64>,
        elapsed_ns: u64,
        source: super::batches::Source,
    ) -> Self {
        Self { steps, losses, elapsed_ns, skipped: source.skipped, kept: source.kept }
    }
}

impl Report {
    /// Report for people: the table, then one fact per line.
    pub fn text(&self) -> String {
        let Identity { name, model, precision, batch, threads, seed, data, learning_rate, .. } =
            &self.identity;
        let threads = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        let mut text =
            format!("{name}: {model}, {precision}, batch {batch}, {data} data, {threads}, seed {seed}\n");
        self.table(&mut text);
        let mut line = |what: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {what:<12} {value}");
        };
        let Identity { steps, warmup, parameters, .. } = &self.identity;
        line("parameters", format!("{parameters}, sgd with a learning rate of {learning_rate}"));
        line("steps", format!("{steps} after {warmup} for warm-up"));
        line("elapsed", format!("{:.3} s for the whole job", self.measured.elapsed_ns as f64 / 1e9));
        if let Some(Part { workers, rank, asynchronous, parameters_hash }) = &self.identity.distributed {
            let kind = if *asynchronous { "asynchronous" } else { "synchronous" };
            line("worker", format!("{rank} of {workers}, {kind}"));
            line("parameters", format!("{parameters_hash} (hash of all)"));
        }
        for (what, value) in self.measured.steps.lines("step") {
            line(what, value);
        }
        if let Some(hash) = self.identity.output_hash {
            line("output hash", hash.to_string());
        }
        line("work hash", self.identity.work_hash.to_string());
        if let Some((what, value)) = left_out::line(&self.measured.skipped) {
            line(what, value);
        }
        if self.measured.kept > 0 {
            line(
                "cached",
                format!("{} files that the kernel could not be asked to forget", self.measured.kept),
            );
        }
        text
    }

    /// Names the first of the files left out, if any.
    pub fn warning(&self) -> Option<String> {
        left_out::warning(&self.measured.skipped)
    }

    fn table(&self, text: &mut String) {
        let (batch, step_ns) = (self.identity.batch, self.measured.steps.step_ns());
        let _ = writeln!(text, "Step\tImg/sec\ttotal_loss");
        let every = DISPLAY_EVERY.max(step_ns.len() / MOST_LINES);
        for step in (1..=step_ns.len()).filter(|step| *step == 1 || step.is_multiple_of(every)) {
            let Speed { images_per_s, uncertainty, jitter } = Speed::of(batch, &step_ns[..step]);
            let loss = self.measured.losses[step - 1];
            let _ = writeln!(
                text,
                "{step}\timages/sec: {images_per_s:.1} +/- {uncertainty:.1} (jitter = {jitter:.1})\t{loss:.3}"
            );
        }
        let rule = "-".repeat(64);
        let total = Speed::of(batch, step_ns).images_per_s;
        let _ = writeln!(text, "{rule}\ntotal images/sec: {total:.2}\n{rule}");
    }

    /// Report for machines: one line of JSON, times in nanoseconds.
    pub fn json(&self) -> String {
        let Measured { steps, losses, elapsed_ns, skipped, kept } = &self.measured;
        let step_ns = steps.step_ns();
        let Speed { images_per_s, uncertainty, jitter } = Speed::of(self.identity.batch, step_ns);
        let phases = steps.names().iter().zip(steps.phase_ns());
        to_json(&Line {
            identity: &self.identity,
            images_per_s,
            images_per_s_uncertainty: uncertainty,
            images_per_s_jitter: jitter,
            elapsed_ns: *elapsed_ns,
            step_ns: Percentiles::of(step_ns),
            phases_ns: phases.map(|(name, ns)| (*name, Percentiles::of(ns))).collect(),
            first_loss: losses.first().copied().unwrap_or(0.0),
            last_loss: losses.last().copied().unwrap_or(0.0),
            skipped_files: skipped.len(),
            left_out: left_out::listed(skipped),
            kept_files: *kept,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Identity, Measured, PHASES, Report};
    use crate::{digest::Digest, steps::Steps};

    fn report() -> Report {
        let identity = Identity {
            name: "train resnet50".to_owned(),
            model: "ResNet-50 v1.5",
            parameters: 25_557_032,
            batch: 32,
            threads: 2,
            seed: 3,
            precision: "fp32",
            optimizer: "sgd",
            learning_rate: 0.01,
            data: "folder",
            loaders: Some(2),
            drop_caches: true,
            steps: 20,
            warmup: 10,
            distributed: None,
            work_hash: Digest::default(),
            output_hash: Some(Digest::default()),
        };
        let step_ns: Vec<u64> = (0..20).map(|step| 1_000_000_000 + step * 10_000_000).collect();
        let part = |share: u64| step_ns.iter().map(|ns| ns * share / 100).collect();
        let steps = Steps::of(PHASES, step_ns.clone(), vec![part(5), part(30), part(60), part(4)]);
        let losses = (0..20).map(|step| 7.0 - f64::from(step) / 10.0).collect();
        let skipped = [("/data/x\u{1b}[2J.jpg".into(), "not a JPEG".to_owned())].into();
        let elapsed_ns = 35_000_000_000;
        Report { identity, measured: Measured { steps, losses, elapsed_ns, skipped, kept: 1 } }
    }

    #[test]
    fn people_read_tf_cnn_benchmarks_table() {
        insta::assert_snapshot!(report().text());
    }

    #[test]
    fn machines_read_one_line() {
        insta::assert_snapshot!(report().json());
    }

    #[test]
    fn files_that_were_left_out_are_named() {
        insta::assert_snapshot!(report().warning().unwrap(), @r"
        not all could be used: 1 file or record left out
          /data/x[2J.jpg: not a JPEG
        ");
    }
}
