//! First values of a model's parameters, drawn from a seed and the name of each tensor: the same on every machine and in
//! whatever order they are made, since no generator of libtorch takes part.

use tch::{Tensor, nn::VarStore};

use crate::{data::random::Random, digest::Digest, error::Error};

/// Goes up when the same seed gives other weights than before.
pub const WEIGHTS_VERSION: u64 = 1;

/// Fills every tensor of `store`.
pub fn fill(store: &VarStore, seed: u64) -> Result<(), Error> {
    for (name, mut tensor) in store.variables() {
        let values = values(&name, &tensor.size(), seed);
        let source = Tensor::f_from_slice(&values)?.f_view(tensor.size().as_slice())?;
        tch::no_grad(|| tensor.f_copy_(&source))?;
    }
    Ok(())
}

/// He's uniform initialisation for convolutions, so that activations keep their size through the depth; batch
/// normalisation as after no training. The last normalisation of a block starts at 0.25: 16 blocks then raise the
/// variance by (1 + 1/16)^16 = 2.6 instead of 2^16, and the softmax stays a distribution.
fn values(name: &str, shape: &[i64], seed: u64) -> Vec<f32> {
    let count = shape.iter().product::<i64>() as usize;
    let fan_in = shape.iter().skip(1).product::<i64>() as f64;
    let bound = match (name, shape.len()) {
        (_, 2) => (1.0 / fan_in).sqrt(),
        (_, 4) => (6.0 / fan_in).sqrt(),
        _ if name.ends_with("bn3.weight") => return vec![0.25; count],
        _ if name.ends_with(".running_var") || name.ends_with(".weight") => return vec![1.0; count],
        _ => return vec![0.0; count],
    } as f32;
    let mut stream = Digest::default();
    stream.text(name);
    let mut random = Random::new(seed, stream.value());
    (0..count).map(|_| random.uniform(-bound, bound)).collect()
}
