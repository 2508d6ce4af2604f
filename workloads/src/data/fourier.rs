//! The inverse Fourier transform of a square of complex numbers, for the generator of images. Its roots of
//! unity come from the half-angle formula, so only from square roots, which IEEE 754 rounds correctly: the
//! result is the same to the bit on every machine. It is not fast: about 10 ms for 512 x 512, once per image.

use std::ops::{Add, Mul, Sub};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    pub re: f64,
    pub im: f64,
}

impl Add for Complex {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

/// The transform for one side length, a power of two.
pub struct Inverse {
    side: usize,
    /// `exp(2 pi i k / side)` for the first half of the k.
    roots: Vec<Complex>,
}

impl Inverse {
    /// # Panics
    /// When `side` is not a power of two, or below 4.
    pub fn new(side: usize) -> Self {
        assert!(side.is_power_of_two() && side >= 4, "side: {side}");
        Self { side, roots: roots(side) }
    }

    /// Transforms rows, then columns, in place and without a factor: `data[y * side + x]` becomes the sum
    /// over all (u, v) of `data[v * side + u] * exp(2 pi i (u x + v y) / side)`.
    pub fn square(&self, data: &mut [Complex]) {
        assert_eq!(data.len(), self.side * self.side, "not a square of the side");
        for row in data.chunks_exact_mut(self.side) {
            self.line(row);
        }
        transpose(data, self.side);
        for column in data.chunks_exact_mut(self.side) {
            self.line(column);
        }
        transpose(data, self.side);
    }

    /// Radix 2, decimation in time: bit-reversed order first, then butterflies of growing span.
    fn line(&self, line: &mut [Complex]) {
        let shift = usize::BITS - self.side.trailing_zeros();
        for i in 0..self.side {
            let j = i.reverse_bits() >> shift;
            if i < j {
                line.swap(i, j);
            }
        }
        let mut half = 1;
        while half < self.side {
            let step = self.side / (2 * half);
            for block in line.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                    let turned = *b * self.roots[k * step];
                    (*a, *b) = (*a + turned, *a - turned);
                }
            }
            half *= 2;
        }
    }
}

/// The first half of the roots of unity of order `side`. From the roots of order n those of order 2n: the
/// even ones are the same, the odd ones are the even ones turned by half a step.
fn roots(side: usize) -> Vec<Complex> {
    let mut roots = vec![Complex { re: 1.0, im: 0.0 }, Complex { re: 0.0, im: 1.0 }];
    let mut step = roots[1];
    while roots.len() < side / 2 {
        let re = (f64::midpoint(1.0, step.re)).sqrt();
        step = Complex { re, im: step.im / (2.0 * re) };
        roots = roots.iter().flat_map(|root| [*root, *root * step]).collect();
    }
    roots
}

fn transpose(data: &mut [Complex], side: usize) {
    for y in 0..side {
        for x in y + 1..side {
            data.swap(y * side + x, x * side + y);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::{Complex, Inverse, roots};
    use crate::data::random::Random;

    #[test]
    fn roots_are_those_of_the_c_library() {
        for (k, root) in roots(512).iter().enumerate() {
            let angle = TAU * k as f64 / 512.0;
            assert!((root.re - angle.cos()).abs() < 1e-15, "{k}: {root:?}");
            assert!((root.im - angle.sin()).abs() < 1e-15, "{k}: {root:?}");
        }
    }

    #[test]
    fn agrees_with_the_sum_written_out() {
        const SIDE: usize = 8;
        let mut random = Random::new(1, 1);
        let input: Vec<Complex> = (0..SIDE * SIDE)
            .map(|_| Complex { re: random.roughly_normal(), im: random.roughly_normal() })
            .collect();
        let mut output = input.clone();
        Inverse::new(SIDE).square(&mut output);
        for y in 0..SIDE {
            for x in 0..SIDE {
                let mut expected = Complex::default();
                for v in 0..SIDE {
                    for u in 0..SIDE {
                        let angle = TAU * (u * x + v * y) as f64 / SIDE as f64;
                        expected =
                            expected + input[v * SIDE + u] * Complex { re: angle.cos(), im: angle.sin() };
                    }
                }
                let difference = expected - output[y * SIDE + x];
                assert!(
                    difference.re.abs() < 1e-12 && difference.im.abs() < 1e-12,
                    "{x},{y}: {difference:?}"
                );
            }
        }
    }
}
