//! Products of dense matrices on the calling thread. Large ones go to `matrixmultiply` (kernels for the
//! processor's features, found at run time); products with a single column are loops here, because packing
//! only slows down a matrix that is read once. Always the same order of additions, so always the same bits.
//!
//! matrixmultiply was weighed against faer and gemm: 3 crates, not 78 and 37, and libtorch's binding has it.

use std::ops::Range;

/// A matrix to read, row by row or transposed.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    values: &'a [f32],
    /// Width of the matrix in memory.
    width: usize,
    is_turned: bool,
}

impl<'a> View<'a> {
    /// Rows of `width` values, one behind the other.
    pub fn new(values: &'a [f32], width: usize) -> Self {
        Self { values, width, is_turned: false }
    }

    /// The transposed matrix.
    #[must_use]
    pub fn turned(self) -> Self {
        Self { is_turned: !self.is_turned, ..self }
    }

    /// Number of rows and of columns.
    fn shape(&self) -> (usize, usize) {
        let height = self.values.len() / self.width.max(1);
        if self.is_turned { (self.width, height) } else { (height, self.width) }
    }

    /// Distance to the next row and to the next column, in values.
    fn strides(&self) -> (isize, isize) {
        let width = self.width as isize;
        if self.is_turned { (1, width) } else { (width, 1) }
    }
}

/// The given rows of `one` times `other`, into `result` (rows of the width of `other`).
pub fn multiply(one: View<'_>, rows: Range<usize>, other: View<'_>, result: &mut [f32]) {
    let ((height, depth), (other_height, width)) = (one.shape(), other.shape());
    assert!(rows.start <= rows.end && rows.end <= height && depth == other_height, "matrices do not fit");
    assert_eq!(result.len(), rows.len() * width, "the result does not fit");
    match (depth, width, one.is_turned) {
        (1, ..) => outer(&one.values[rows], other.values, result),
        (_, 1, false) => times_vector(&one.values[rows.start * depth..], other.values, result),
        (_, 1, true) => turned_times_vector(one, rows.start, other.values, result),
        _ => general(one, rows, other, result),
    }
}

/// Outer product of a column and a row.
fn outer(column: &[f32], row: &[f32], result: &mut [f32]) {
    for (value, line) in column.iter().zip(result.chunks_exact_mut(row.len())) {
        for (to, factor) in line.iter_mut().zip(row) {
            *to = value * factor;
        }
    }
}

fn times_vector(matrix: &[f32], vector: &[f32], result: &mut [f32]) {
    for (to, line) in result.iter_mut().zip(matrix.chunks_exact(vector.len())) {
        *to = dot(line, vector);
    }
}

/// Adds up whole lines of the matrix in the order of memory.
fn turned_times_vector(matrix: View<'_>, first: usize, vector: &[f32], result: &mut [f32]) {
    result.fill(0.0);
    for (line, factor) in matrix.values.chunks_exact(matrix.width).zip(vector) {
        for (to, value) in result.iter_mut().zip(&line[first..]) {
            *to += value * factor;
        }
    }
}

/// Dot product in sixteen lanes, which the processor adds side by side.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    let (lines, rest) = one.as_chunks::<16>();
    let (other_lines, other_rest) = other.as_chunks::<16>();
    let mut lanes = [0.0_f32; 16];
    for (one, other) in lines.iter().zip(other_lines) {
        for lane in 0..16 {
            lanes[lane] += one[lane] * other[lane];
        }
    }
    let rest: f32 = rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    lanes.iter().sum::<f32>() + rest
}

fn general(one: View<'_>, rows: Range<usize>, other: View<'_>, result: &mut [f32]) {
    let ((_, depth), (_, width)) = (one.shape(), other.shape());
    let ((row, column), (other_row, other_column)) = (one.strides(), other.strides());
    let start = one.values.as_ptr().wrapping_offset(row * rows.start as isize);
    // SAFETY: `multiply` has compared the shapes: of `one` the rows up to `rows.end` exist with `depth`
    // columns, `other` has `depth` rows of `width` columns, both by the strides of their own memory; `result`
    // has `rows.len()` lines of `width` values and, being borrowed for writing, overlaps neither.
    unsafe {
        matrixmultiply::sgemm(
            rows.len(),
            depth,
            width,
            1.0,
            start,
            row,
            column,
            other.values.as_ptr(),
            other_row,
            other_column,
            0.0,
            result.as_mut_ptr(),
            width as isize,
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{View, multiply};
    use crate::data::random::Random;

    /// The product by its definition, in 64 bits.
    fn expected(one: View<'_>, row: usize, other: View<'_>, column: usize) -> f64 {
        let at = |view: View<'_>, row: usize, column: usize| {
            let (down, right) = view.strides();
            f64::from(view.values[row * down as usize + column * right as usize])
        };
        (0..one.shape().1).map(|k| at(one, row, k) * at(other, k, column)).sum()
    }

    proptest! {
        #[test]
        fn products_are_those_of_the_definition(
            height in 1_usize..40, depth in 1_usize..40, width in 1_usize..20,
            from in 0_usize..40, to in 0_usize..=40, turned in any::<[bool; 2]>(), seed in any::<u64>(),
        ) {
            let mut random = Random::new(seed, 0);
            let mut values =
                |count: usize| (0..count).map(|_| random.uniform(-1.0, 1.0)).collect::<Vec<f32>>();
            let (one, other) = (values(height * depth), values(depth * width));
            let view = |values, [height, width]: [usize; 2], is_turned: bool| {
                if is_turned { View::new(values, height).turned() } else { View::new(values, width) }
            };
            let one = view(&one, [height, depth], turned[0]);
            let other = view(&other, [depth, width], turned[1]);
            let rows = from.min(height)..to.clamp(from, height.max(from)).min(height).max(from.min(height));
            let mut result = vec![f32::NAN; rows.len() * width];
            multiply(one, rows.clone(), other, &mut result);
            for (i, found) in result.iter().enumerate() {
                let expected = expected(one, rows.start + i / width, other, i % width);
                prop_assert!((f64::from(*found) - expected).abs() < 1e-5, "{} {}", found, expected);
            }
        }
    }

    #[test]
    #[should_panic(expected = "matrices do not fit")]
    fn what_does_not_fit_is_refused() {
        let values = [0.0; 6];
        multiply(View::new(&values, 3), 0..2, View::new(&values, 3), &mut [0.0; 6]);
    }
}
