//! The network against its definition in 64 bits, the gradient against finite differences of that, and
//! results independent of threads.

use rstest::rstest;

use super::{Layer, Net, needed_bytes, parameters};
use crate::data::random::Random;

/// Runs `work` on a thread of its own, because the caller of a team belongs to it for good.
fn alone<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(work).join().unwrap()
}

/// A network with random samples, and biases that are not zero.
fn net(units: &[usize], batch: usize, threads: u32) -> Net {
    let mut net = Net::new(units, batch, 3, threads).unwrap();
    let mut random = Random::new(5, 0);
    net.inputs.fill_with(|| random.uniform(-1.0, 1.0));
    net.expected.fill_with(|| f32::from(u8::from(random.uniform(0.0, 1.0) > 0.5)));
    for layer in &mut net.layers {
        layer.biases.fill_with(|| random.uniform(-0.5, 0.5));
    }
    net
}

/// The mean loss by its definition, with one parameter moved by `step`.
fn loss(net: &Net, moved: Option<(usize, bool, usize)>, step: f64) -> f64 {
    let mut total = 0.0;
    for sample in 0..net.batch {
        let mut values: Vec<f64> = net.inputs.chunks(net.batch).map(|line| f64::from(line[sample])).collect();
        for (number, layer) in net.layers.iter().enumerate() {
            let parameter = |is_bias: bool, at: usize| {
                let value = if is_bias { layer.biases[at] } else { layer.weights[at] };
                f64::from(value) + if moved == Some((number, is_bias, at)) { step } else { 0.0 }
            };
            let unit = |output: usize| {
                let sum = values
                    .iter()
                    .enumerate()
                    .map(|(input, value)| value * parameter(false, output * layer.inputs + input));
                let sum = sum.sum::<f64>() + parameter(true, output);
                if number + 1 == net.layers.len() { sum } else { sum.max(0.0) }
            };
            values = (0..layer.outputs).map(unit).collect();
        }
        let probability = 1.0 / (1.0 + (-values[0]).exp());
        let expected = f64::from(net.expected[sample]);
        total -= expected * probability.ln() + (1.0 - expected) * (1.0 - probability).ln();
    }
    total / net.batch as f64
}

/// One sample has its own loops; also one thread, and more threads than units.
#[rstest]
#[case(1, 1)]
#[case(1, 2)]
#[case(4, 2)]
#[case(9, 3)]
fn the_gradient_is_that_of_the_loss(#[case] batch: usize, #[case] threads: u32) {
    alone(move || {
        let mut net = net(&[7, 6, 5, 1], batch, threads);
        let found = f64::from(net.forward());
        assert!((found - loss(&net, None, 0.0)).abs() < 1e-6, "{found}");
        net.backward();
        let mut largest = 0.0_f64;
        for (number, layer) in net.layers.iter().enumerate() {
            let weights = layer.weight_gradients.iter().enumerate().map(|(at, found)| (false, at, *found));
            let biases = layer.bias_gradients.iter().enumerate().map(|(at, found)| (true, at, *found));
            for (is_bias, at, found) in weights.chain(biases) {
                let moved = Some((number, is_bias, at));
                let expected = (loss(&net, moved, 1e-6) - loss(&net, moved, -1e-6)) / 2e-6;
                assert!((f64::from(found) - expected).abs() < 1e-6, "{moved:?}: {found} {expected}");
                largest = largest.max(expected.abs());
            }
        }
        assert!(largest > 0.01, "it depends on something: {largest}");
    });
}

#[test]
fn a_step_goes_downhill_by_its_rate() {
    alone(|| {
        let mut net = net(&[7, 6, 1], 8, 2);
        let before = net.forward();
        net.backward();
        let expected: Vec<f32> = net.layers[0]
            .weights
            .iter()
            .zip(&net.layers[0].weight_gradients)
            .map(|(weight, gradient)| weight - 0.5 * gradient)
            .collect();
        net.update(0.5);
        assert_eq!(net.layers[0].weights, expected);
        assert!(net.forward() < before);
    });
}

/// A thread's sums do not depend on where its block begins.
#[rstest]
#[case(1)]
#[case(16)]
fn threads_change_no_bit(#[case] batch: usize) {
    let trained = |threads: u32| {
        alone(move || {
            let mut net = net(&[40, 33, 1], batch, threads);
            let losses: Vec<u32> = (0..5)
                .map(|_| {
                    let loss = net.forward();
                    net.backward();
                    net.update(0.1);
                    loss.to_bits()
                })
                .collect();
            (losses, net.layers.into_iter().flat_map(|Layer { weights, .. }| weights).collect::<Vec<f32>>())
        })
    };
    let one = trained(1);
    assert_eq!(one, trained(1), "the same twice");
    assert_eq!(one, trained(2));
    assert_eq!(one, trained(3));
}

#[test]
fn sizes_are_counted() {
    assert_eq!(parameters(&[3, 4, 1]), 3 * 4 + 4 + 4 + 1);
    assert_eq!(needed_bytes(&[3, 4, 1], 2), 4 * (2 * 21 + 2 * 8 * 2));
}
