//! What a training job leaves behind: the table that tf_cnn_benchmarks prints and the facts of the job, one line of JSON
//! for machines, and the description for guestscope's manifest. Yields text.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::{loader::Skipped, speed::Speed};
use crate::{
    digest::Digest,
    report::{self, Percentiles, milliseconds, to_json},
};

/// The phases of a step, in order. A job on the CPU copies nothing to a device.
pub const PHASES: [&str; 4] = ["data", "forward", "backward", "optimizer"];
/// The table has a line for the first step and for every so many, and not many more lines than that.
const DISPLAY_EVERY: usize = 10;
const MOST_LINES: usize = 100;
/// Files that are named where some were left out.
const NAMED: usize = 3;

/// What was run.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    pub name: String,
    pub model: &'static str,
    pub parameters: u64,
    /// Images per step.
    pub batch: u64,
    pub threads: u32,
    pub seed: u64,
    pub precision: &'static str,
    pub optimizer: &'static str,
    pub learning_rate: f64,
    /// `synthetic` or `folder`.
    pub data: &'static str,
    /// Threads that read and prepared pictures, if any did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaders: Option<u32>,
    /// Whether the kernel was asked to forget the files first.
    pub drop_caches: bool,
    pub steps: u64,
    pub warmup: u64,
    /// Equal for two jobs that computed the same from the same images, on whatever machine and threads.
    pub work_hash: Digest,
    /// Of all losses and of the parameters at the end, to the bit.
    pub output_hash: Digest,
}

/// Of every measured step, in order.
#[derive(Debug, Default)]
pub struct Measured {
    pub step_ns: Vec<u64>,
    pub phase_ns: [Vec<u64>; 4],
    pub losses: Vec<f64>,
    /// Of the whole job: making the network and the warm-up too.
    pub elapsed_ns: u64,
    /// Files that could not be used.
    pub skipped: Skipped,
    /// Files that the kernel could not be asked to forget.
    pub kept: usize,
}

/// A finished job.
#[derive(Debug)]
pub struct Report {
    pub identity: Identity,
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
    least_phase_share: f64,
    skipped_files: usize,
    kept_files: usize,
}

impl Measured {
    /// The share of a step's time that lies inside its phases; of the step where it is smallest.
    pub fn least_phase_share(&self) -> f64 {
        report::least_phase_share(&self.step_ns, &self.phase_ns)
    }
}

impl Report {
    /// For people: the table, then one fact per line.
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
        line("step", milliseconds(&self.measured.step_ns));
        for (phase, values) in PHASES.iter().zip(&self.measured.phase_ns) {
            line(phase, milliseconds(values));
        }
        line("output hash", self.identity.output_hash.to_string());
        line("work hash", self.identity.work_hash.to_string());
        let skipped = &self.measured.skipped;
        if !skipped.is_empty() {
            line("left out", format!("{} files that could not be used", skipped.len()));
            for (path, reason) in skipped.iter().take(NAMED) {
                // Names of files may hold what a terminal obeys.
                line("", printable(&format!("{}: {reason}", path.display())));
            }
        }
        if self.measured.kept > 0 {
            line(
                "cached",
                format!("{} files that the kernel could not be asked to forget", self.measured.kept),
            );
        }
        text
    }

    fn table(&self, text: &mut String) {
        let (batch, step_ns) = (self.identity.batch, &self.measured.step_ns);
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

    /// For machines: one line, times in nanoseconds.
    pub fn json(&self) -> String {
        let Measured { step_ns, phase_ns, losses, elapsed_ns, skipped, kept } = &self.measured;
        let Speed { images_per_s, uncertainty, jitter } = Speed::of(self.identity.batch, step_ns);
        to_json(&Line {
            identity: &self.identity,
            images_per_s,
            images_per_s_uncertainty: uncertainty,
            images_per_s_jitter: jitter,
            elapsed_ns: *elapsed_ns,
            step_ns: Percentiles::of(step_ns),
            phases_ns: PHASES.into_iter().zip(phase_ns.iter().map(|ns| Percentiles::of(ns))).collect(),
            first_loss: losses.first().copied().unwrap_or(0.0),
            last_loss: losses.last().copied().unwrap_or(0.0),
            least_phase_share: self.measured.least_phase_share(),
            skipped_files: skipped.len(),
            kept_files: *kept,
        })
    }
}

fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Identity, Measured, Report};
    use crate::digest::Digest;

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
            work_hash: Digest::default(),
            output_hash: Digest::default(),
        };
        let step_ns: Vec<u64> = (0..20).map(|step| 1_000_000_000 + step * 10_000_000).collect();
        let part = |share: u64| step_ns.iter().map(|ns| ns * share / 100).collect();
        let phase_ns = [part(5), part(30), part(60), part(4)];
        let losses = (0..20).map(|step| 7.0 - f64::from(step) / 10.0).collect();
        let skipped = [("/data/x\u{1b}[2J.jpg".into(), "not a JPEG".to_owned())].into();
        let elapsed_ns = 35_000_000_000;
        Report { identity, measured: Measured { step_ns, phase_ns, losses, elapsed_ns, skipped, kept: 1 } }
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
    fn the_least_share_is_that_of_the_worst_step() {
        assert!((report().measured.least_phase_share() - 0.99).abs() < 1e-6);
    }
}
