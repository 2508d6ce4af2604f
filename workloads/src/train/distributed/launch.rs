//! A whole job on this machine: a parameter server and its workers, each a process of this program. Yields
//! all their reports. It computes nothing, and ends them all when one of them fails.

use std::{
    ffi::OsString,
    fmt::Write as _,
    process::ExitStatus,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::Value;

use super::{
    DEVICE_PHASES,
    error::DistributedError,
    pace::{self, Pace},
};
use crate::{
    child::{Child, ChildError, LOOK_EVERY},
    digest::Digest,
    error::Error,
    platform::TorchOptions,
    report::to_json,
    train::{
        Settings,
        report::{OPTIMIZER, PRECISION},
    },
};

/// Line by which the server says where it listens.
const LISTENING: &str = "listening on ";
/// Start of the lines by which a part warns.
const WARNING: &str = "warning: ";
/// Time beyond the peers' own limit, for starting and for saying why they end.
const ROOM: Duration = Duration::from_secs(10);

/// A job to start.
#[derive(Clone, Debug)]
pub struct All {
    /// Number of workers.
    pub workers: u32,
    /// Whether each gradient is applied as it comes.
    pub asynchronous: bool,
    /// Address of the server, as its workers reach it; port 0 is any.
    pub listen: String,
    /// Words in front of each part's own command; `{}` in them is the part's number, 0 for the server.
    pub through: Vec<OsString>,
    /// Time after which a peer that has not come, or has said nothing, is gone.
    pub limit: Duration,
    /// Time after which a worker that has parameters and has pushed no gradient is late.
    pub worker_limit: Duration,
}

/// Result of a finished job.
#[derive(Debug, Serialize)]
pub struct Launched {
    /// Identity for guestscope's manifest.
    #[serde(flatten)]
    pub identity: Identity,
    /// Images per second of all workers together.
    pub images_per_s: f64,
    /// Elapsed time of the whole job, ns.
    pub elapsed_ns: u64,
    /// Reports of the workers, by rank.
    pub worker_reports: Vec<Value>,
    /// Report of the parameter server.
    pub server_report: Value,
    /// Warnings of the parts, each with the part's name.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// Identity of a job: what was run.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    /// Name on the command line.
    pub name: String,
    /// Model name for people.
    pub model: &'static str,
    /// Number of trainable parameters.
    pub parameters: u64,
    /// Images per step of each worker.
    pub batch: u64,
    /// Intra-op threads of libtorch in each worker.
    pub threads: u32,
    /// Seed of the first parameters.
    pub seed: u64,
    /// Precision of all numbers.
    pub precision: &'static str,
    /// Name of the optimizer.
    pub optimizer: &'static str,
    /// Learning rate of the optimizer.
    pub learning_rate: f64,
    /// Kind of data: `synthetic`, `folder`, `tfrecord` or `tar`.
    pub data: String,
    /// Threads of each worker that read and prepared pictures, if any did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaders: Option<u32>,
    /// Whether the kernel was asked to forget the files first.
    pub drop_caches: bool,
    /// Measured steps of each worker.
    pub steps: u64,
    /// Warm-up steps of each worker.
    pub warmup: u64,
    /// Number of workers.
    pub workers: u32,
    /// Whether each gradient was applied as it came.
    pub asynchronous: bool,
    /// Hash of the exact bits of the server's final parameters.
    pub parameters_hash: String,
    /// Hash of the work: equal for two jobs that computed the same from the same images.
    pub work_hash: Digest,
    /// Hash of all losses and the parameters; None for asynchronous jobs, which depend on timing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_hash: Option<Digest>,
}

impl All {
    /// Words in front of that part's command.
    fn through_of(&self, part: u32) -> Vec<OsString> {
        let number = part.to_string();
        let words = self.through.iter().map(|word| word.to_string_lossy().replace("{}", &number).into());
        words.collect()
    }
}

/// Runs the job.
pub fn run(settings: &Settings, all: &All, torch: &TorchOptions) -> Result<Launched, Error> {
    if !cfg!(feature = "torch") {
        return Err(Error::NoTorch { workload: "train" });
    }
    let start = Instant::now();
    let (lines, heard) = channel();
    let name = "the parameter server";
    let command = Child::through(&all.through_of(0), name)?;
    let server = Child::start_by(command, name, &server_words(settings, all), Some(lines))?;
    let mut children = vec![server];
    let address = loop {
        match heard.recv_timeout(LOOK_EVERY) {
            Ok(line) => {
                if let Some(address) = line.strip_prefix(LISTENING) {
                    break address.to_owned();
                }
            }
            Err(RecvTimeoutError::Timeout) if start.elapsed() < all.limit + ROOM => {}
            Err(_) => return Err(early(children.remove(0))?.into()),
        }
    };
    let mut pace = Pace::of(settings);
    for rank in 0..all.workers {
        let mut words = worker_words(settings, all, torch, &address, rank);
        words.extend(pace.is_seen().then(|| pace::ASKED.into()));
        let name = format!("worker {rank}");
        let command = Child::through(&all.through_of(rank + 1), &name)?;
        children.push(Child::start_by(command, name, &words, Some(pace.listen()))?);
    }
    wait(&mut children, all.limit, pace)?;
    let mut warnings = Vec::new();
    let mut said = children.into_iter().map(|child| {
        let name = child.name().to_owned();
        let (out, said) = child.into_said();
        warnings.extend(warning_of(&name, &said));
        serde_json::from_str::<Value>(&out)
            .map_err(|error| DistributedError::Said { name, reason: error.to_string() })
    });
    let server_report = said.next().transpose()?.unwrap_or_default();
    let worker_reports = said.collect::<Result<Vec<_>, _>>()?;
    let launched = gather(settings, all, server_report, worker_reports, start)?;
    Ok(Launched { warnings, ..launched })
}

/// A part's standard error from its first warning on: in a part that ended well, all of it is warnings.
fn warning_of(name: &str, said: &str) -> Option<String> {
    let lines = said.lines().skip_while(|line| !line.starts_with(WARNING));
    let text = lines.map(|line| line.trim_start_matches(WARNING)).collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then(|| format!("{name}: {text}"))
}

/// Waits for all parts; fails as soon as one failed and the others had time to say why they end.
fn wait(children: &mut Vec<Child>, limit: Duration, mut pace: Pace) -> Result<(), ChildError> {
    let mut first: Option<(usize, ExitStatus, Instant)> = None;
    loop {
        pace.look();
        let mut is_over = true;
        for (place, child) in children.iter_mut().enumerate() {
            match child.look()? {
                None => is_over = false,
                Some(status) if !status.success() && first.is_none() => {
                    first = Some((place, status, Instant::now()));
                }
                Some(_) => {}
            }
        }
        match first {
            Some((place, status, since)) if is_over || since.elapsed() > limit + ROOM => {
                return Err(children.swap_remove(place).failed(status));
            }
            None if is_over => {
                pace.end();
                return Ok(());
            }
            _ => thread::sleep(LOOK_EVERY),
        }
    }
}

/// Error for a server that did not say where it listens.
fn early(mut server: Child) -> Result<ChildError, ChildError> {
    let start = Instant::now();
    while start.elapsed() < ROOM {
        if let Some(status) = server.look()? {
            return Ok(server.failed(status));
        }
        thread::sleep(LOOK_EVERY);
    }
    let how = "it did not say where it listens".to_owned();
    Ok(ChildError::Ended { name: server.name().to_owned(), how })
}

fn words(settings: &Settings, limit: Duration, own: &[(&str, String)]) -> Vec<OsString> {
    let Settings { model, threads, seed, .. } = settings;
    let mut words: Vec<OsString> = vec!["train".into(), model.name.into(), "--json".into()];
    let common = [
        ("--threads", threads.to_string()),
        ("--seed", seed.to_string()),
        ("--peer-timeout", format!("{}ms", limit.as_millis())),
    ];
    for (name, value) in common.iter().chain(own) {
        words.extend([name.into(), value.into()]);
    }
    words
}

fn server_words(settings: &Settings, all: &All) -> Vec<OsString> {
    let own = [
        ("--role", "ps".to_owned()),
        ("--listen", all.listen.clone()),
        ("--workers", all.workers.to_string()),
        ("--learning-rate", settings.learning_rate.to_string()),
        ("--worker-timeout", format!("{}ms", all.worker_limit.as_millis())),
    ];
    let mut words = words(settings, all.limit, &own);
    words.extend(all.asynchronous.then(|| "--asynchronous".into()));
    words
}

fn worker_words(
    settings: &Settings,
    all: &All,
    torch: &TorchOptions,
    address: &str,
    rank: u32,
) -> Vec<OsString> {
    let own = [
        ("--role", "worker".to_owned()),
        ("--server", address.to_owned()),
        ("--rank", rank.to_string()),
        ("--batch", settings.batch.to_string()),
        ("--steps", settings.steps.to_string()),
        ("--warmup", settings.warmup.to_string()),
    ];
    let mut words = words(settings, all.limit, &own);
    if let Some(data) = &settings.data {
        words.extend(["--data".into(), data.into()]);
        words.extend(["--loaders".into(), settings.loaders.to_string().into()]);
    }
    words.extend(torch.words());
    words.extend(settings.drop_caches.then(|| "--drop-caches".into()));
    words
}

fn gather(
    settings: &Settings,
    all: &All,
    server_report: Value,
    worker_reports: Vec<Value>,
    start: Instant,
) -> Result<Launched, DistributedError> {
    let text = |report: &Value, key: &str| report[key].as_str().unwrap_or_default().to_owned();
    let mut hashes: Vec<String> =
        worker_reports.iter().map(|report| text(report, "parameters_hash")).collect();
    hashes.dedup();
    if !all.asynchronous && hashes != [text(&server_report, "parameters_hash")] {
        return Err(DistributedError::Differ { hashes: hashes.join(", ") });
    }
    let hash = |key: &str| {
        let mut digest = Digest::default();
        for report in &worker_reports {
            digest.text(&text(report, key));
        }
        digest
    };
    let mut outputs = hash("output_hash");
    outputs.text(&text(&server_report, "parameters_hash"));
    let identity = Identity {
        name: format!("train {}", settings.model.name),
        model: settings.model.what,
        parameters: settings.model.parameters,
        batch: settings.batch,
        threads: settings.threads,
        seed: settings.seed,
        precision: PRECISION,
        optimizer: OPTIMIZER,
        learning_rate: settings.learning_rate,
        data: worker_reports.first().map(|report| text(report, "data")).unwrap_or_default(),
        loaders: settings.data.is_some().then_some(settings.loaders),
        drop_caches: settings.drop_caches,
        steps: settings.steps,
        warmup: settings.warmup,
        workers: all.workers,
        asynchronous: all.asynchronous,
        parameters_hash: text(&server_report, "parameters_hash"),
        work_hash: hash("work_hash"),
        output_hash: (!all.asynchronous).then_some(outputs),
    };
    let images_per_s = worker_reports.iter().filter_map(|report| report["images_per_s"].as_f64()).sum();
    let elapsed_ns = start.elapsed().as_nanos() as u64;
    let warnings = Vec::new();
    Ok(Launched { identity, images_per_s, elapsed_ns, worker_reports, server_report, warnings })
}

impl Launched {
    /// Report for people: a line per worker, then one fact per line.
    pub fn text(&self) -> String {
        let Identity { name, model, precision, batch, threads, seed, workers, asynchronous, .. } =
            &self.identity;
        let kind = if *asynchronous { "asynchronous" } else { "synchronous" };
        let mut text = format!(
            "{name}: {model}, {precision}, {workers} workers and a parameter server, {kind}, batch {batch} and {threads} threads \
             each, seed {seed}\n"
        );
        let mut line = |what: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {what:<12} {value}");
        };
        for (rank, report) in self.worker_reports.iter().enumerate() {
            let ms =
                |phase: &str| report["phases_ns"][phase]["p50"].as_u64().unwrap_or_default() as f64 / 1e6;
            let rate = report["images_per_s"].as_f64().unwrap_or_default();
            let phases: Vec<String> = DEVICE_PHASES
                .iter()
                .filter(|phase| report["phases_ns"].get(phase).is_some())
                .map(|phase| format!("{phase} {:.3}", ms(phase)))
                .collect();
            line(&format!("worker {rank}"), format!("{rate:.1} images/s; p50 in ms: {}", phases.join(", ")));
        }
        line("total", format!("{:.2} images/s", self.images_per_s));
        line("elapsed", format!("{:.3} s for the whole job", self.elapsed_ns as f64 / 1e9));
        line("parameters", format!("{} (hash of all)", self.identity.parameters_hash));
        if let Some(hash) = self.identity.output_hash {
            line("output hash", hash.to_string());
        }
        line("work hash", self.identity.work_hash.to_string());
        text
    }

    /// Report for machines: one line of JSON.
    pub fn json(&self) -> String {
        to_json(self)
    }
}

#[cfg(test)]
mod tests {
    use super::warning_of;

    #[test]
    fn what_a_worker_warns_of_has_its_name() {
        let said =
            "started\nwarning: not all could be used: 1 file or record left out\n  a.jpg: not a JPEG\n";
        let expected = "worker 1: not all could be used: 1 file or record left out\n  a.jpg: not a JPEG";
        assert_eq!(warning_of("worker 1", said).as_deref(), Some(expected));
        assert_eq!(warning_of("worker 1", "started\n"), None);
    }
}
