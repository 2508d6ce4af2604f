//! Initial values of a model's parameters, drawn from a seed and the name of each tensor: the same on every
//! machine and in any order, since libtorch's generator is not used.

use tch::{Tensor, nn::VarStore};

use crate::{data::random::Random, digest::Digest, error::Error};

/// Goes up when the same seed gives other weights than before.
pub const WEIGHTS_VERSION: u64 = 1;

/// Values drawn before they are copied into a tensor: the largest table of DLRM has 162 million.
const CHUNK: i64 = 1 << 20;

/// Values of one tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// Uniform between the two.
    Uniform(f32, f32),
    Constant(f32),
}

/// Decides the values by a tensor's name and shape.
pub type Rule = fn(&str, &[i64]) -> Initial;

/// Fills every tensor of `store`, a model of convolutions.
pub fn fill(store: &VarStore, seed: u64) -> Result<(), Error> {
    fill_by(store, seed, convolutional)
}

/// Fills every tensor of `store` by `rule`.
pub fn fill_by(store: &VarStore, seed: u64, rule: Rule) -> Result<(), Error> {
    for (name, mut tensor) in store.variables() {
        match rule(&name, &tensor.size()) {
            Initial::Constant(value) => {
                let _ = tch::no_grad(|| tensor.f_fill_(f64::from(value)))?;
            }
            Initial::Uniform(low, high) => draw(&name, &tensor, seed, low, high)?,
        }
    }
    Ok(())
}

fn draw(name: &str, tensor: &Tensor, seed: u64, low: f32, high: f32) -> Result<(), Error> {
    let mut stream = Digest::default();
    stream.text(name);
    let mut random = Random::new(seed, stream.value());
    let all = tensor.f_detach()?.f_view(-1)?;
    let count = all.size()[0];
    for begin in (0..count).step_by(CHUNK as usize) {
        let length = CHUNK.min(count - begin);
        let values: Vec<f32> = (0..length).map(|_| random.uniform(low, high)).collect();
        all.f_narrow(0, begin, length)?.f_copy_(&Tensor::f_from_slice(&values)?)?;
    }
    Ok(())
}

/// He's uniform initialisation for convolutions, so that activations keep their size through the depth; batch
/// normalisation as before training. The last normalisation of a block starts at 0.25: 16 blocks then raise
/// the variance by (1 + 1/16)^16 = 2.6 instead of 2^16, and the softmax stays a distribution.
pub fn convolutional(name: &str, shape: &[i64]) -> Initial {
    let bound = match (name, shape.len()) {
        (_, 2) => (1.0 / fan_in(shape)).sqrt(),
        (_, 4) => (6.0 / fan_in(shape)).sqrt(),
        _ if name.ends_with("bn3.weight") => return Initial::Constant(0.25),
        _ if name.ends_with(".running_var") || name.ends_with(".weight") => return Initial::Constant(1.0),
        _ => return Initial::Constant(0.0),
    } as f32;
    Initial::Uniform(-bound, bound)
}

/// For attention and recurrent layers: matrices and tables by the length of their rows, as PyTorch
/// initialises a linear layer. Normalisation and bias values differ from element to element, so that mixing
/// up two tensors changes a result.
pub fn dense(name: &str, shape: &[i64]) -> Initial {
    flat(name, shape, 1.0)
}

/// For layers with rectifiers between them, which halve the variance: He's rule. With PyTorch's, all
/// probabilities of DLRM lie between 0.50 and 0.51.
pub fn rectified(name: &str, shape: &[i64]) -> Initial {
    flat(name, shape, 6.0)
}

/// For RNN-T, whose gates hardly move under the other rules: the encoder's output would differ by 0.06 from
/// step to step, with this rule by 0.26 (standard deviation at full scale).
pub fn transducer(name: &str, shape: &[i64]) -> Initial {
    flat(name, shape, 20.0)
}

/// Matrices are uniform between plus and minus the root of `gain` / row length.
fn flat(name: &str, shape: &[i64], gain: f64) -> Initial {
    match shape.len() {
        2 => {
            let bound = (gain / fan_in(shape)).sqrt() as f32;
            Initial::Uniform(-bound, bound)
        }
        _ if name.ends_with(".weight") => Initial::Uniform(0.9, 1.1),
        _ => Initial::Uniform(-0.1, 0.1),
    }
}

fn fan_in(shape: &[i64]) -> f64 {
    shape.iter().skip(1).product::<i64>() as f64
}
