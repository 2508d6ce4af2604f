//! The shared part of all training jobs between data and update: a network that computes loss, gradients, and
//! parameters as one row of numbers. Yields tensors and numbers. The caller provides batches and updates.

use std::collections::BTreeMap;

use tch::{Device, Kind, Reduction, Tensor, nn::VarStore};

use super::{Settings, batches::Tensors, error::TrainError, models::Network};
use crate::{
    beside::WARMUP,
    digest::Digest,
    error::Error,
    libtorch, memory,
    steps::{Phases, Steps},
};

/// A label that counts for nothing; no image has it.
const IGNORED: i64 = -100;
/// Numbers copied at once to be hashed: 4 MB.
const PIECE: i64 = 1 << 20;

/// The mean loss over a batch, as a tensor that gradients come from.
pub fn loss(network: &Network, batch: &Tensors) -> Result<Tensor, Error> {
    let logits = network.train(&batch.images)?;
    let likelihoods = logits.f_log_softmax(-1, Kind::Float)?;
    let loss = likelihoods.f_nll_loss(&batch.labels, None::<Tensor>, Reduction::Mean, IGNORED)?;
    libtorch::finish();
    Ok(loss)
}

/// A batch where the network is; where that is no CPU, copied in a phase `h2d`.
pub fn on_device(phases: &mut Phases, batch: Tensors) -> Result<Tensors, Error> {
    if libtorch::device() == Device::Cpu {
        return Ok(batch);
    }
    phases.run("h2d", || {
        let send = libtorch::send;
        let copy = Tensors { images: send(&batch.images)?, labels: send(&batch.labels)? };
        libtorch::finish();
        Ok(copy)
    })
}

/// The phase names for this device: on a CPU nothing is copied to a device.
pub fn phases(
    on_cpu: &'static [&'static str],
    elsewhere: &'static [&'static str],
) -> &'static [&'static str] {
    if libtorch::device() == Device::Cpu { on_cpu } else { elsewhere }
}

/// Runs all steps of `settings`, warm-up first; `step` gets its number among all of them and returns its
/// loss. Returns the measured steps and their losses.
pub fn run_steps(
    settings: &Settings,
    phases: &'static [&'static str],
    mut step: impl FnMut(&mut Phases, u64) -> Result<f64, Error>,
) -> Result<(Steps, Vec<f64>), Error> {
    let Settings { steps: count, warmup, progress, .. } = *settings;
    let mut shown = progress.show(warmup + count, "steps");
    let (mut discarded, mut steps) = (Steps::new(phases), Steps::new(phases));
    let mut losses = Vec::new();
    for number in 0..warmup + count {
        let (all, name, what, own) = match number.checked_sub(warmup) {
            None => (&mut discarded, WARMUP, "warm-up step", number),
            Some(own) => (&mut steps, "step", "step", own),
        };
        let loss = all.step(name, own, |phases| step(phases, number))?;
        if !loss.is_finite() {
            // The table counts from 1 as well.
            return Err(TrainError::Diverged { what: what.to_owned(), step: own + 1, loss }.into());
        }
        if number >= warmup {
            losses.push(loss);
        }
        shown.step();
    }
    shown.end();
    Ok((steps, losses))
}

/// All trainable numbers, tensor after tensor in the order in which the network made them.
pub fn parameters(store: &VarStore) -> Result<Vec<f32>, Error> {
    gather(&store.trainable_variables())
}

/// Gradients of the last backward pass, in the order of `parameters`; copied from a device in a phase `d2h`.
pub fn gradients(store: &VarStore) -> Result<Vec<f32>, Error> {
    let gradients = store.trainable_variables().iter().map(Tensor::f_grad).collect::<Result<Vec<_>, _>>()?;
    let _phase = libtorch::copying("d2h");
    gather(&gradients)
}

/// Replaces the parameters by `values`.
pub fn set_parameters(store: &VarStore, values: &[f32]) -> Result<(), Error> {
    let mut rest = values;
    for mut tensor in store.trainable_variables() {
        let (own, others) = rest.split_at_checked(tensor.numel()).ok_or_else(|| Error::Torch {
            reason: format!("{} numbers are too few for this model", values.len()),
        })?;
        let source = Tensor::f_from_slice(own)?.f_view(tensor.size().as_slice())?;
        tch::no_grad(|| tensor.f_copy_(&source))?;
        rest = others;
    }
    libtorch::finish();
    Ok(())
}

/// Hash of the exact bits of numbers.
pub fn hash(values: &[f32]) -> Digest {
    let mut digest = Digest::default();
    for value in values {
        digest.f32(*value);
    }
    digest
}

/// Adds every number that training changes to `hash`: the parameters, and the running statistics of batch
/// normalisation, which `trainable_variables` leaves out. By name, since the store has no order; in pieces,
/// so that a job that had memory for the gradients of a whole batch does not run out of it at the end.
pub fn describe(store: &VarStore, hash: &mut Digest) -> Result<(), Error> {
    let variables: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
    for (name, tensor) in variables {
        hash.text(&name);
        let all = tensor.f_detach()?.f_flatten(0, -1)?;
        let count = all.size()[0];
        for begin in (0..count).step_by(PIECE as usize) {
            for value in gather(&[all.f_narrow(0, begin, PIECE.min(count - begin))?])? {
                hash.f32(value);
            }
        }
    }
    Ok(())
}

fn gather(tensors: &[Tensor]) -> Result<Vec<f32>, Error> {
    let mut values = memory::zeros::<f32>(tensors.iter().map(Tensor::numel).sum())?;
    let mut rest = values.as_mut_slice();
    for tensor in tensors {
        let (own, others) = rest.split_at_mut(tensor.numel());
        let tensor = tensor.f_to_device(Device::Cpu)?.f_contiguous()?;
        libtorch::catch(|| tensor.copy_data(own, own.len()))?;
        rest = others;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tch::Tensor;

    use super::describe;
    use crate::{
        digest::Digest,
        train::{Model, models::Network},
    };

    fn hash(network: &Network) -> Digest {
        let mut hash = Digest::default();
        describe(&network.store, &mut hash).unwrap();
        hash
    }

    /// One number gains as much as another one loses, so the sum of the tensor stays the same.
    #[rstest]
    #[case::parameter("fc.weight", 0)]
    #[case::running_mean("layer4.2.bn3.running_mean", 3)]
    #[case::running_variance("bn1.running_var", 62)]
    #[case::second_piece("layer4.0.conv2.weight", 1_500_000)]
    fn every_number_counts(#[case] name: &str, #[case] place: i64) {
        let network = Network::seeded(Model::find("resnet50").unwrap(), 1).unwrap();
        let before = hash(&network);
        assert_eq!(hash(&network), before);
        let all = network.store.variables()[name].detach().flatten(0, -1);
        let add = |place, value: f64| {
            let _ = all.narrow(0, place, 1).f_add_(&Tensor::from(value)).unwrap();
        };
        let sum = || all.sum(tch::Kind::Double).double_value(&[]);
        let (first, summed) = (all.double_value(&[place]), sum());
        add(place, 0.25);
        add(place + 1, -0.25);
        assert!(all.double_value(&[place]) > first && (sum() - summed).abs() < 1e-6);
        assert_ne!(hash(&network), before);
    }
}
