//! The steps of a training job, each a request with the phases `data`, `forward`, `backward` and `optimizer`. Yields times,
//! losses and a hash of both the losses and the parameters that training left.

use std::time::Instant;

use tch::{
    Kind, Reduction, Tensor,
    nn::{Optimizer, OptimizerConfig as _, Sgd},
};

use super::{
    Settings,
    batches::Source,
    error::TrainError,
    models::Network,
    report::{Identity, Measured, PHASES, Report},
};
use crate::{
    digest::Digest,
    error::Error,
    infer::{libtorch, seeded::WEIGHTS_VERSION},
    progress,
};

/// A label that counts for nothing; no image has it.
const IGNORED: i64 = -100;

struct Job<'a> {
    settings: &'a Settings,
    network: Network,
    optimizer: Optimizer,
    source: Source,
}

pub(super) fn run(settings: &Settings) -> Result<Report, Error> {
    let start = Instant::now();
    libtorch::set_threads(settings.threads);
    let network = Network::seeded(settings.model, settings.seed)?;
    // What is dropped out is drawn by libtorch's own generator; making the network has drawn from it as well.
    tch::manual_seed(settings.seed.cast_signed());
    let optimizer = Sgd::default().build(&network.store, settings.learning_rate)?;
    let source = Source::open(settings)?;
    let mut job = Job { settings, network, optimizer, source };
    let measured = job.steps(start)?;
    Ok(Report { identity: job.identity(&measured)?, measured })
}

impl Job<'_> {
    fn steps(&mut self, start: Instant) -> Result<Measured, Error> {
        let Settings { steps, warmup, progress, .. } = *self.settings;
        let bar = progress.then(|| progress::bar(warmup + steps, "steps"));
        let advance = || {
            if let Some(bar) = &bar {
                bar.inc(1);
            }
        };
        let mut discarded = Measured::default();
        for number in 0..warmup {
            self.step("warmup", number, &mut discarded)?;
            advance();
        }
        let mut measured = Measured::default();
        for number in 0..steps {
            self.step("step", number, &mut measured)?;
            advance();
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        measured.elapsed_ns = start.elapsed().as_nanos() as u64;
        measured.skipped = std::mem::take(&mut self.source.skipped);
        measured.kept = self.source.kept;
        Ok(measured)
    }

    fn step(&mut self, name: &str, number: u64, measured: &mut Measured) -> Result<(), Error> {
        let start = Instant::now();
        let request = guestscope_marker::request(name, number);
        let (batch, data_ns) = phase(0, || self.source.next_batch())?;
        let (loss, forward_ns) = phase(1, || {
            let logits = self.network.train(&batch.images)?;
            Ok(logits.f_log_softmax(-1, Kind::Float)?.f_nll_loss(
                &batch.labels,
                None::<Tensor>,
                Reduction::Mean,
                IGNORED,
            )?)
        })?;
        let ((), backward_ns) = phase(2, || {
            libtorch::catch(|| self.optimizer.zero_grad())?;
            Ok(loss.f_backward()?)
        })?;
        let (value, optimizer_ns) = phase(3, || {
            libtorch::catch(|| self.optimizer.step())?;
            Ok(loss.f_double_value(&[])?)
        })?;
        drop(request);
        measured.step_ns.push(start.elapsed().as_nanos() as u64);
        for (all, ns) in measured.phase_ns.iter_mut().zip([data_ns, forward_ns, backward_ns, optimizer_ns]) {
            all.push(ns);
        }
        measured.losses.push(value);
        if value.is_finite() {
            return Ok(());
        }
        // The table counts from 1 as well.
        let what = if name == "step" { name } else { "warm-up step" }.to_owned();
        Err(TrainError::Diverged { what, step: number + 1, loss: value }.into())
    }

    fn identity(&self, measured: &Measured) -> Result<Identity, Error> {
        let Settings { model, batch, steps, warmup, threads, seed, learning_rate, .. } = *self.settings;
        let mut work_hash = Digest::default();
        work_hash.text("train").text(model.name).text("fp32").u64(batch).u64(steps).u64(warmup);
        work_hash.u64(learning_rate.to_bits()).u64(seed).u64(WEIGHTS_VERSION).u64(self.source.digest.value());
        let mut output_hash = Digest::default();
        for loss in &measured.losses {
            output_hash.u64(loss.to_bits());
        }
        // The sum of each tensor: all of 60 million numbers would take longer than a step.
        for tensor in self.network.store.trainable_variables() {
            output_hash.u64(tensor.f_sum(Kind::Double)?.f_double_value(&[])?.to_bits());
        }
        Ok(Identity {
            name: format!("train {}", model.name),
            model: model.what,
            parameters: model.parameters,
            batch,
            threads,
            seed,
            precision: "fp32",
            optimizer: "sgd",
            learning_rate,
            data: self.source.name,
            loaders: (self.source.name == "folder").then_some(self.settings.loaders),
            drop_caches: self.settings.drop_caches,
            steps,
            warmup,
            work_hash,
            output_hash,
        })
    }
}

/// Runs `work` as the phase of that number; its result, and how long it took.
fn phase<T>(number: usize, work: impl FnOnce() -> Result<T, Error>) -> Result<(T, u64), Error> {
    let start = Instant::now();
    let guard = guestscope_marker::phase(PHASES[number]);
    let result = work();
    drop(guard);
    let ns = start.elapsed().as_nanos() as u64;
    result.map(|value| (value, ns))
}
