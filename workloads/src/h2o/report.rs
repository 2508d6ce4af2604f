//! Report of an H2O workload: an aligned text for people, one line of JSON for machines, the description of
//! the workload for guestscope's manifest, and warnings about unreadable data. Yields text.

use std::{fmt::Write as _, fs};

use serde::Serialize;

use super::{generate, glm, mlp, net, parse, reader::Bad};
use crate::{
    digest::Digest,
    numbers::grouped,
    report::to_json,
    steps::{Steps, Timing},
};

/// A finished run.
#[derive(Debug)]
pub struct Report {
    /// Report for people: one fact per line, names aligned.
    pub text: String,
    /// Report for machines: one line of JSON, times in nanoseconds.
    pub json: String,
    /// Identity for the manifest.
    pub identity: Identity,
    pub warnings: Vec<String>,
}

/// Identity of a run: what was run.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    pub name: &'static str,
    /// Number of flights used.
    pub rows: u64,
    #[serde(flatten)]
    what: What,
    /// Work hash: equal for runs asked for the same work on the same data, on any machine and threads.
    pub work_hash: Digest,
    /// Hash of the results' exact bits.
    pub output_hash: Digest,
}

/// Facts that only some workloads have.
#[derive(Clone, Debug, Default, Serialize)]
struct What {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passes: Option<u64>,
    /// Whether the kernel was asked to forget the file before each pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    cold: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fits: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    l2: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup: Option<u64>,
}

#[derive(Serialize)]
struct Line<'a, R> {
    #[serde(flatten)]
    identity: &'a Identity,
    #[serde(flatten)]
    result: R,
    #[serde(flatten)]
    timing: Timing,
    /// Peak memory of the process; none if the kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_bytes: Option<u64>,
    bad_rows: u64,
    bad_fields: u64,
}

#[derive(Serialize)]
struct Parsed<'a> {
    rows_per_s: f64,
    bytes_per_s: f64,
    columns: &'a [parse::ColumnSummary],
}

#[derive(Serialize)]
struct Fitted {
    left_out: u64,
    iterations: u64,
    converged: bool,
    null_deviance: f64,
    deviance: f64,
    coefficients: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct Trained {
    left_out: u64,
    samples_per_s: f64,
    first_loss: f32,
    last_loss: f32,
}

#[derive(Serialize)]
struct Written {
    rows_per_s: f64,
    bytes_per_s: f64,
}

/// Aligned lines of a text.
struct Text(String);

impl Text {
    fn line(&mut self, what: &str, value: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "  {what:<12} {value}");
    }

    fn end(mut self, identity: &Identity) -> String {
        self.line("output hash", &identity.output_hash.to_string());
        self.line("work hash", &identity.work_hash.to_string());
        self.0
    }

    fn steps(&mut self, step: &'static str, steps: &Steps) {
        for (what, value) in steps.lines(step) {
            self.line(what, &value);
        }
    }
}

impl Report {
    pub fn of_generate(settings: &generate::Settings, outcome: &generate::Outcome) -> Self {
        let generate::Outcome { steps, bytes, content } = outcome;
        let mut work_hash = Digest::default();
        work_hash.text("h2o generate").u64(super::flights::GENERATOR_VERSION);
        work_hash.u64(settings.rows).u64(settings.seed);
        let identity = Identity {
            name: "h2o generate",
            rows: settings.rows,
            what: What { bytes: Some(*bytes), seed: Some(settings.seed), ..What::default() },
            work_hash,
            output_hash: *content,
        };
        let rows = grouped(settings.rows);
        let mut text = Text(format!("h2o generate: {rows} flights, seed {}\n", settings.seed));
        text.line("file", &format!("{}, {} bytes", settings.file.display(), grouped(*bytes)));
        text.steps("block", steps);
        let result = Written { rows_per_s: steps.rate(settings.rows), bytes_per_s: steps.rate(*bytes) };
        text.line("throughput", &throughput(result.rows_per_s, result.bytes_per_s));
        Self::new(text, identity, result, steps, &Bad::default())
    }

    pub fn of_parse(settings: &parse::Settings, outcome: &parse::Outcome) -> Self {
        let parse::Outcome { steps, bytes, summary, work, outputs } = outcome;
        let parse::Settings { passes, chunk_bytes, cold, .. } = settings;
        let identity = Identity {
            name: "h2o parse",
            rows: summary.rows,
            what: What {
                bytes: Some(*bytes),
                chunk_bytes: Some(*chunk_bytes),
                passes: Some(*passes),
                cold: Some(*cold),
                ..What::default()
            },
            work_hash: *work,
            output_hash: *outputs,
        };
        let (rows, columns) = (grouped(summary.rows), summary.columns.len());
        let mut text =
            Text(format!("h2o parse: {rows} flights, {columns} columns, {} bytes\n", grouped(*bytes)));
        let cache = if *cold { "the kernel was asked to forget it" } else { "in the page cache or not" };
        let chunk = *chunk_bytes / 1024;
        text.line("chunks", &format!("{} of {chunk} KiB in {passes} passes, {cache}", steps.count()));
        text.steps("chunk", steps);
        let result = Parsed {
            rows_per_s: steps.rate(summary.rows * passes),
            bytes_per_s: steps.rate(bytes * passes),
            columns: &summary.columns,
        };
        text.line("throughput", &throughput(result.rows_per_s, result.bytes_per_s));
        let missing: u64 = summary.columns.iter().map(|column| column.missing).sum();
        text.line("missing", &format!("{} values", grouped(missing)));
        Self::new(text, identity, result, steps, &summary.bad)
    }

    pub fn of_glm(settings: &glm::Settings, outcome: &glm::Outcome) -> Self {
        let glm::Outcome { steps, fit, rows, left_out, bad, work, outputs } = outcome;
        let identity = Identity {
            name: "h2o glm",
            rows: *rows as u64,
            what: What {
                fits: Some(settings.fits),
                l2: Some(settings.l2),
                parameters: Some(fit.coefficients.len() as u64),
                ..What::default()
            },
            work_hash: *work,
            output_hash: *outputs,
        };
        let (count, width) = (grouped(*rows as u64), fit.coefficients.len());
        let mut text =
            Text(format!("h2o glm: binomial, {count} flights, {width} coefficients, l2 {}\n", settings.l2));
        text.line("left out", &format!("{} flights that lack something", grouped(*left_out)));
        let ended = if fit.is_converged { "converged" } else { "not converged" };
        text.line("iterations", &format!("{} of each of {} fits, {ended}", fit.iterations, settings.fits));
        text.line("deviance", &format!("{:.3} of {:.3}", fit.deviance, fit.null_deviance));
        text.steps("iteration", steps);
        text.line("elapsed", &format!("{:.3} s", steps.elapsed_s()));
        let named = fit.names.iter().zip(&fit.coefficients);
        let result = Fitted {
            left_out: *left_out,
            iterations: fit.iterations,
            converged: fit.is_converged,
            null_deviance: fit.null_deviance,
            deviance: fit.deviance,
            coefficients: named.map(|(name, value)| (name.clone(), (*value).into())).collect(),
        };
        Self::new(text, identity, result, steps, bad)
    }

    pub fn of_mlp(settings: &mlp::Settings, outcome: &mlp::Outcome) -> Self {
        let mlp::Outcome { steps, units, rows, left_out, bad, first_loss, last_loss, work, outputs } =
            outcome;
        let parameters = net::parameters(units);
        let identity = Identity {
            name: "h2o mlp",
            rows: *rows as u64,
            what: What {
                seed: Some(settings.data.seed),
                units: Some(units.clone()),
                parameters: Some(parameters),
                batch: Some(settings.batch),
                threads: Some(settings.threads),
                steps: Some(settings.steps),
                warmup: Some(settings.warmup),
                ..What::default()
            },
            work_hash: *work,
            output_hash: *outputs,
        };
        let shape = units.iter().map(ToString::to_string).collect::<Vec<_>>().join("-");
        let threads = if settings.threads == 1 { "thread" } else { "threads" };
        let mut text =
            Text(format!("h2o mlp: {shape}, batch {}, {} {threads}\n", settings.batch, settings.threads));
        text.line("steps", &format!("{} after {} for warm-up", settings.steps, settings.warmup));
        let weights = format!("{} bytes of {} parameters", grouped(parameters * 4), grouped(parameters));
        text.line("weights", &format!("{weights}; {}", cache()));
        text.steps("step", steps);
        let samples_per_s = steps.rate(steps.count() * settings.batch as u64);
        text.line("throughput", &format!("{samples_per_s:.1} samples/s"));
        text.line("loss", &format!("{first_loss:.5} in the first step, {last_loss:.5} in the last"));
        let (first_loss, last_loss) = (*first_loss, *last_loss);
        let result = Trained { left_out: *left_out, samples_per_s, first_loss, last_loss };
        Self::new(text, identity, result, steps, bad)
    }

    fn new(mut text: Text, identity: Identity, result: impl Serialize, steps: &Steps, bad: &Bad) -> Self {
        let (bad_rows, bad_fields) = (bad.rows, bad.fields);
        let (timing, peak_bytes) = (steps.timing(), peak_bytes());
        if let Some(bytes) = peak_bytes {
            text.line("memory", &format!("{:.1} MB at most", bytes as f64 / 1e6));
        }
        let json = to_json(&Line { identity: &identity, result, timing, peak_bytes, bad_rows, bad_fields });
        Self { text: text.end(&identity), json, identity, warnings: warnings(bad) }
    }
}

fn throughput(rows_per_s: f64, bytes_per_s: f64) -> String {
    format!("{:.1} MB/s, {} flights/s", bytes_per_s / 1e6, grouped(rows_per_s as u64))
}

fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Size of the last-level cache, to compare the weights with.
fn cache() -> String {
    // The last level has the highest index; machines have three levels, some two or four.
    let level = |index: u32| {
        let size = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        fs::read_to_string(size).ok().map(|size| size.trim().to_owned())
    };
    match (0..6).filter_map(level).next_back() {
        Some(size) => format!("the last-level cache has {size}"),
        None => "the last-level cache is not known here".to_owned(),
    }
}

fn warnings(bad: &Bad) -> Vec<String> {
    if bad.rows == 0 && bad.fields == 0 {
        return Vec::new();
    }
    let mut warning = format!(
        "not all could be read: rows left out {}, fields taken as missing {}",
        grouped(bad.rows),
        grouped(bad.fields)
    );
    for line in &bad.first {
        // Writing to a String cannot fail.
        let _ = write!(warning, "\n  {line}");
    }
    vec![warning]
}
