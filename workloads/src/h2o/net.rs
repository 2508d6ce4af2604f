//! A network of dense layers (ReLU between them, one logistic output) that learns by gradient descent, on a
//! team of threads. Yields losses and changed weights. Matrices of activations have a row per unit and a
//! column per sample of the batch, so that a thread's units are one block of memory.

use super::{
    dense::{View, multiply},
    error::H2oError,
    team::Team,
};
use crate::data::random::Random;

/// One dense layer.
#[derive(Debug)]
struct Layer {
    inputs: usize,
    outputs: usize,
    /// Weights, a row per output.
    weights: Vec<f32>,
    biases: Vec<f32>,
    weight_gradients: Vec<f32>,
    bias_gradients: Vec<f32>,
    /// Outputs of the layer, for each sample.
    activations: Vec<f32>,
    /// Gradient of the loss by the layer's outputs, before ReLU.
    deltas: Vec<f32>,
}

/// The layers and the samples of one step.
pub struct Net {
    team: Team,
    batch: usize,
    layers: Vec<Layer>,
    /// Predictors, a row each; the caller fills them before `forward`.
    pub inputs: Vec<f32>,
    /// Expected outputs, 0 or 1.
    pub expected: Vec<f32>,
}

/// Number of weights and biases between layers of `units` units.
pub fn parameters(units: &[usize]) -> u64 {
    units.windows(2).map(|pair| (pair[0] as u64 + 1) * pair[1] as u64).sum()
}

/// Memory of a network of `units` units, bytes.
pub fn needed_bytes(units: &[usize], batch: usize) -> u64 {
    let samples = units.iter().map(|count| 2 * *count as u64 * batch as u64).sum::<u64>();
    4 * (2 * parameters(units) + samples)
}

impl Net {
    /// `units` has the layers from the predictors to the last hidden one; one output follows. Weights are
    /// uniform between plus and minus the root of 6 / (inputs + outputs).
    pub fn new(units: &[usize], batch: usize, seed: u64, threads: u32) -> Result<Self, H2oError> {
        let team = Team::new(threads)?;
        let layers = units.windows(2).zip(0..).map(|(pair, layer)| {
            let mut new = Layer::empty(pair[0], pair[1], batch);
            let bound = (6.0 / (new.inputs + new.outputs) as f32).sqrt();
            // Filled by the threads that use them, so that the memory is on their node; with a stream per
            // row, so that the result does not depend on the thread.
            team.rows(&mut new.weights, new.inputs, |first, block| {
                for (row, weights) in block.chunks_exact_mut(pair[0]).enumerate() {
                    let mut random = Random::new(seed, ((layer + 1) << 32) | (first + row) as u64);
                    weights.fill_with(|| random.uniform(-bound, bound));
                }
            });
            new
        });
        let layers = layers.collect();
        let (inputs, expected) = (vec![0.0; units[0] * batch], vec![0.0; batch]);
        Ok(Self { team, batch, layers, inputs, expected })
    }

    /// Computes the mean loss over the batch.
    pub fn forward(&mut self) -> f32 {
        let batch = self.batch;
        let last = self.layers.len() - 1;
        for number in 0..self.layers.len() {
            let (before, rest) = self.layers.split_at_mut(number);
            let input = before.last().map_or(&self.inputs, |layer| &layer.activations);
            let Layer { inputs, weights, biases, activations, .. } = &mut rest[0];
            let (weights, input) = (View::new(weights, *inputs), View::new(input, batch));
            self.team.rows(activations, batch, |first, block| {
                let rows = first..first + block.len() / batch;
                multiply(weights, rows.clone(), input, block);
                for (line, bias) in block.chunks_exact_mut(batch).zip(&biases[rows]) {
                    for value in line {
                        let sum = *value + bias;
                        *value = if number == last { sum } else { sum.max(0.0) };
                    }
                }
            });
        }
        let outputs = &self.layers[last].activations;
        let losses = outputs.iter().zip(&self.expected).map(|(output, expected)| loss(*output, *expected));
        losses.sum::<f32>() / batch as f32
    }

    /// Computes the gradients of that loss, layer by layer from the last.
    pub fn backward(&mut self) {
        let batch = self.batch;
        let last = self.layers.len() - 1;
        let Layer { activations, deltas, .. } = &mut self.layers[last];
        for ((delta, output), expected) in deltas.iter_mut().zip(activations).zip(&self.expected) {
            *delta = (1.0 / (1.0 + (-*output).exp()) - expected) / batch as f32;
        }
        for number in (0..=last).rev() {
            let (before, rest) = self.layers.split_at_mut(number);
            let layer = &mut rest[0];
            let deltas = View::new(&layer.deltas, batch);
            let input = before.last().map_or(&self.inputs, |layer| &layer.activations);
            let turned = View::new(input, batch).turned();
            self.team.rows(&mut layer.weight_gradients, layer.inputs, |first, block| {
                multiply(deltas, first..first + block.len() / layer.inputs, turned, block);
            });
            self.team.rows(&mut layer.bias_gradients, 1, |first, block| {
                for (sum, line) in block.iter_mut().zip(layer.deltas[first * batch..].chunks_exact(batch)) {
                    *sum = line.iter().sum();
                }
            });
            let Some(Layer { activations, deltas: before, .. }) = before.last_mut() else { continue };
            let weights = View::new(&layer.weights, layer.inputs).turned();
            self.team.rows(before, batch, |first, block| {
                multiply(weights, first..first + block.len() / batch, deltas, block);
                for (delta, activation) in block.iter_mut().zip(&activations[first * batch..]) {
                    if *activation <= 0.0 {
                        *delta = 0.0;
                    }
                }
            });
        }
    }

    /// Moves all parameters against their gradient, by `rate` times it.
    pub fn update(&mut self, rate: f32) {
        let descend = |first: usize, block: &mut [f32], gradients: &[f32]| {
            for (value, gradient) in block.iter_mut().zip(&gradients[first..]) {
                *value -= rate * gradient;
            }
        };
        for Layer { inputs, weights, biases, weight_gradients, bias_gradients, .. } in &mut self.layers {
            self.team.rows(weights, *inputs, |first, block| {
                descend(first * *inputs, block, weight_gradients);
            });
            self.team.rows(biases, 1, |first, block| descend(first, block, bias_gradients));
        }
    }
}

/// Cross-entropy of `expected` and the logit `output`: never infinite, unlike log(0).
fn loss(output: f32, expected: f32) -> f32 {
    output.max(0.0) - output * expected + (-output.abs()).exp().ln_1p()
}

impl Layer {
    /// A layer of zeros, in memory that no thread has touched yet.
    fn empty(inputs: usize, outputs: usize, batch: usize) -> Self {
        let zeros = |count: usize| vec![0.0; count];
        Self {
            inputs,
            outputs,
            weights: zeros(inputs * outputs),
            biases: zeros(outputs),
            weight_gradients: zeros(inputs * outputs),
            bias_gradients: zeros(outputs),
            activations: zeros(outputs * batch),
            deltas: zeros(outputs * batch),
        }
    }
}

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;
