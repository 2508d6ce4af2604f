//! A worker: pulls parameters, computes a gradient from its own share of the batches, and pushes it. Yields
//! the report of a training job.
//!
//! The computing thread drives its connection by itself, so that a phase `pull` or `push` holds all that the
//! transfer takes; another thread (`attendance`) tells the server meanwhile that the worker lives.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
    time::timeout,
};
use tonic::Status;

use super::{
    DEVICE_PHASES, PHASES, Worker,
    attendance::{Attendance, Gone},
    client::Client,
    error::DistributedError,
    messages::{Join, PROTOCOL, Row, Wanted, to_bytes},
};
use crate::{
    digest::Digest,
    error::Error,
    libtorch,
    train::{
        Settings, Share,
        batches::Source,
        learner,
        models::Network,
        report::{Identity, Measured, Part, Report},
        run as alone,
    },
};

/// Time after a failed call in which the heartbeat thread may hear the reason.
const REASON: Duration = Duration::from_secs(1);

/// Runs the worker as `settings` and `worker` say.
pub(super) fn run(settings: &Settings, worker: &Worker) -> Result<Report, Error> {
    let start = Instant::now();
    libtorch::set_threads(settings.threads);
    let join = Join {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model: settings.model.name.to_owned(),
        seed: settings.seed,
        rank: worker.rank,
        steps: settings.warmup + settings.steps,
        batch: settings.batch,
    };
    let attendance = Attendance::start(&worker.server, join, worker.limit)?;
    let welcome = attendance.welcome;
    let settings = Settings {
        share: Share { rank: worker.rank, of: welcome.workers },
        learning_rate: welcome.learning_rate,
        ..settings.clone()
    };
    let report = Peer::new(&settings, worker, &attendance).and_then(|mut peer| peer.train(&settings, start));
    attendance.leave(report.as_ref().err().map(ToString::to_string));
    report
}

/// The connection for parameters and gradients.
struct Peer {
    runtime: Runtime,
    client: Client,
    gone: watch::Receiver<Option<Gone>>,
    address: String,
    rank: u32,
    asynchronous: bool,
    length: usize,
}

impl Peer {
    fn new(settings: &Settings, worker: &Worker, attendance: &Attendance) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(DistributedError::Runtime)?;
        let mut gone = attendance.gone.clone();
        let client = runtime.block_on(async {
            tokio::select! {
                client = Client::connect(&worker.server, worker.limit) => client,
                // If the job has ended, refused connections would be retried until the limit.
                reason = over(&mut gone) => Err(reason.error(&worker.server)),
            }
        })?;
        Ok(Self {
            runtime,
            client,
            gone,
            address: worker.server.clone(),
            rank: worker.rank,
            asynchronous: attendance.welcome.asynchronous,
            length: settings.model.parameters as usize,
        })
    }

    fn train(&mut self, settings: &Settings, start: Instant) -> Result<Report, Error> {
        let network = Network::seeded(settings.model, settings.seed)?;
        let mut source = Source::open(settings)?;
        let mut version = 0;
        let names = learner::phases(PHASES, DEVICE_PHASES);
        let (steps, losses) = learner::run_steps(settings, names, |phases, number| {
            phases.run_traced("pull", |header| {
                let values;
                (version, values) = self.pull(self.wanted(number), header)?;
                // Not in `set_parameters`: after the last step no request is open.
                let _phase = libtorch::copying("h2d");
                learner::set_parameters(&network.store, &values)
            })?;
            let batch = phases.run("data", || source.next_batch())?;
            let batch = learner::on_device(phases, batch)?;
            tch::manual_seed(seed_of(settings, number).cast_signed());
            let loss = phases.run("forward", || learner::loss(&network, &batch))?;
            let value = phases.run("backward", || {
                for mut tensor in network.store.trainable_variables() {
                    libtorch::catch(|| tensor.zero_grad())?;
                }
                loss.f_backward()?;
                let value = loss.f_double_value(&[])?;
                // The graph goes with it, and both may give memory back to the kernel: with ResNet-50 that
                // took up to 37 ms of a step, outside all phases.
                drop((loss, batch));
                Ok::<_, Error>(value)
            })?;
            if value.is_finite() {
                phases.run_traced("push", |header| self.push(&network, version, header))?;
            }
            Ok(value)
        })?;
        let total = settings.warmup + settings.steps;
        let (_, values) = self.pull(self.wanted(total), "")?;
        learner::set_parameters(&network.store, &values)?;
        let part = Part {
            workers: settings.share.of,
            rank: self.rank,
            asynchronous: self.asynchronous,
            parameters_hash: learner::hash(&values),
        };
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        let output_hash = (!self.asynchronous).then(|| alone::output_hash(&losses, &network)).transpose()?;
        let identity = Identity { output_hash, ..identity(settings, &source, part) };
        Ok(Report { identity, measured: Measured::new(steps, losses, elapsed_ns, source) })
    }

    /// The version that a step starts from: any if asynchronous, else that of all earlier gradients.
    fn wanted(&self, step: u64) -> u64 {
        if self.asynchronous { 0 } else { step }
    }

    fn pull(&mut self, version: u64, header: &str) -> Result<(u64, Vec<f32>), Error> {
        let Self { runtime, client, gone, rank, length, .. } = self;
        let call = client.pull(Wanted { rank: *rank, version }, Row::new(*length)?, header);
        let result = runtime.block_on(unless_gone(gone, call));
        result.map_err(|gone| gone.error(&self.address).into())
    }

    fn push(&mut self, network: &Network, version: u64, header: &str) -> Result<(), Error> {
        let row = to_bytes(&learner::gradients(&network.store)?)?;
        let Self { runtime, client, gone, rank, .. } = self;
        let call = client.push(row, *rank, version, header);
        let result = runtime.block_on(unless_gone(gone, call));
        result.map(drop).map_err(|gone| gone.error(&self.address).into())
    }
}

/// Result of `call`, unless the server is gone first.
async fn unless_gone<T>(
    gone: &mut watch::Receiver<Option<Gone>>,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Gone> {
    let mut heard = gone.clone();
    let status = tokio::select! {
        result = call => match result {
            Ok(value) => return Ok(value),
            Err(status) => status,
        },
        reason = over(&mut heard) => return Err(reason),
    };
    // A broken connection says less than the server did.
    match timeout(REASON, over(gone)).await {
        Ok(reason) if matches!(Gone::of(&status), Gone::Lost(_)) => Err(reason),
        _ => Err(Gone::of(&status)),
    }
}

/// Waits until the job is over; returns why.
async fn over(gone: &mut watch::Receiver<Option<Gone>>) -> Gone {
    let reason = gone.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
    reason.unwrap_or_else(|| Gone::Lost("nobody listens to it any more".to_owned()))
}

/// Seed of the step's dropout: the same no matter what else libtorch's generator was used for.
pub fn seed_of(settings: &Settings, step: u64) -> u64 {
    let mut digest = Digest::default();
    digest.u64(settings.seed).u64(u64::from(settings.share.rank)).u64(step);
    digest.value()
}

fn identity(settings: &Settings, source: &Source, part: Part) -> Identity {
    let Identity { mut work_hash, .. } = alone::identity(settings, source);
    work_hash.text("worker").u64(u64::from(part.workers)).u64(u64::from(part.rank));
    work_hash.u64(u64::from(part.asynchronous));
    Identity { distributed: Some(part), work_hash, ..alone::identity(settings, source) }
}
