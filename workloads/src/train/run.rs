//! A training job that runs alone: each step is a request with the phases `data`, `forward`, `backward` and
//! `optimizer`. Yields times, losses and a hash of both the losses and the parameters that training left.

use std::time::Instant;

use tch::nn::{OptimizerConfig as _, Sgd};

use super::{
    Settings,
    batches::Source,
    learner,
    models::Network,
    report::{DEVICE_PHASES, Identity, Measured, OPTIMIZER, PHASES, PRECISION, Report},
};
use crate::{digest::Digest, error::Error, infer::seeded::WEIGHTS_VERSION, libtorch, report::left_out};

pub(super) fn run(settings: &Settings) -> Result<Report, Error> {
    let start = Instant::now();
    libtorch::set_threads(settings.threads);
    let network = Network::seeded(settings.model, settings.seed)?;
    // libtorch's own generator draws the dropout; making the network has drawn from it as well.
    tch::manual_seed(settings.seed.cast_signed());
    let mut optimizer = Sgd::default().build(&network.store, settings.learning_rate)?;
    let mut source = Source::open(settings)?;
    let names = learner::phases(PHASES, DEVICE_PHASES);
    let (steps, losses) = learner::run_steps(settings, names, |phases, _| {
        let batch = phases.run("data", || source.next_batch())?;
        let batch = learner::on_device(phases, batch)?;
        let loss = phases.run("forward", || learner::loss(&network, &batch))?;
        phases.run("backward", || {
            libtorch::catch(|| optimizer.zero_grad())?;
            loss.f_backward()?;
            libtorch::finish();
            Ok::<_, Error>(())
        })?;
        phases.run("optimizer", || {
            libtorch::catch(|| optimizer.step())?;
            let value = loss.f_double_value(&[])?;
            // The graph goes with it, and both may give memory back to the kernel: that belongs to a phase.
            drop((loss, batch));
            Ok(value)
        })
    })?;
    let elapsed_ns = start.elapsed().as_nanos() as u64;
    let output_hash = Some(output_hash(&losses, &network)?);
    let identity = Identity { output_hash, ..identity(settings, &source) };
    let measured = Measured::new(steps, losses, elapsed_ns, source);
    Ok(Report { identity, measured })
}

/// Hash of the exact bits. Taken when nothing is timed any more: FNV-1a needs a third of a second for
/// AlexNet's 61 million numbers.
pub(super) fn output_hash(losses: &[f64], network: &Network) -> Result<Digest, Error> {
    let mut hash = Digest::default();
    for loss in losses {
        hash.u64(loss.to_bits());
    }
    learner::describe(&network.store, &mut hash)?;
    Ok(hash)
}

/// Identity of the job; the caller adds what came out of it.
pub(super) fn identity(settings: &Settings, source: &Source) -> Identity {
    let Settings { model, batch, steps, warmup, threads, seed, learning_rate, .. } = *settings;
    let mut work_hash = Digest::default();
    work_hash.text("train").text(model.name).text(PRECISION).u64(batch).u64(steps).u64(warmup);
    work_hash.u64(learning_rate.to_bits()).u64(seed).u64(WEIGHTS_VERSION).u64(source.digest.value());
    // Other pictures took their place. How far the loaders read ahead does not count: only batches that were
    // learnt from have entries here.
    left_out::describe(&source.skipped, &mut work_hash);
    Identity {
        name: format!("train {}", model.name),
        model: model.what,
        parameters: model.parameters,
        batch,
        threads,
        seed,
        precision: PRECISION,
        optimizer: OPTIMIZER,
        learning_rate,
        data: source.name,
        loaders: (source.name != "synthetic").then_some(settings.loaders),
        drop_caches: settings.drop_caches,
        steps,
        warmup,
        distributed: None,
        work_hash,
        output_hash: None,
    }
}
