//! Solves equations with a symmetric, positive definite matrix, by Cholesky's decomposition. Yields the
//! solution, or the column that depends on those before it. No pivots: the diagonals here are large enough.

/// A pivot below this part of the original diagonal is rounding: 308 columns round to about 1e-13.
const LEAST_PIVOT: f64 = 1e-11;

/// Error: this column is a sum of those before it, as far as 64 bits can tell.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependent(pub usize);

/// Solves `matrix` times x = `right`; x is in `right` afterwards. Reads only the diagonal of the matrix and
/// what is left of it, row by row; overwrites it.
pub fn solve(matrix: &mut [f64], right: &mut [f64]) -> Result<(), Dependent> {
    let size = right.len();
    decompose(matrix, size)?;
    for row in 0..size {
        let (solved, rest) = right.split_at_mut(row);
        let line = &matrix[row * size..];
        rest[0] = (rest[0] - dot(&line[..row], solved)) / line[row];
    }
    for row in (0..size).rev() {
        let line = &matrix[row * size..];
        let value = right[row] / line[row];
        right[row] = value;
        for (column, left) in right[..row].iter_mut().enumerate() {
            *left -= line[column] * value;
        }
    }
    Ok(())
}

/// Decomposes into a triangle on the diagonal and to the left of it.
fn decompose(matrix: &mut [f64], size: usize) -> Result<(), Dependent> {
    for row in 0..size {
        let (above, own) = matrix.split_at_mut(row * size);
        let own = &mut own[..=row];
        for column in 0..row {
            let other = &above[column * size..=column * size + column];
            own[column] = (own[column] - dot(&own[..column], &other[..column])) / other[column];
        }
        let before = own[row];
        let pivot = before - dot(&own[..row], &own[..row]);
        if pivot.is_nan() || pivot <= before * LEAST_PIVOT {
            return Err(Dependent(row));
        }
        own[row] = pivot.sqrt();
    }
    Ok(())
}

/// Dot product in four lanes, which the processor adds side by side; always in the same order.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    let (fours, rest) = one.as_chunks::<4>();
    let (other_fours, other_rest) = other.as_chunks::<4>();
    let mut lanes = [0.0; 4];
    for (one, other) in fours.iter().zip(other_fours) {
        for lane in 0..4 {
            lanes[lane] += one[lane] * other[lane];
        }
    }
    let rest: f64 = rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    lanes[0] + lanes[1] + (lanes[2] + lanes[3]) + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Dependent, solve};

    proptest! {
        /// B times its transpose plus 1 on the diagonal is positive definite, whatever B is.
        #[test]
        fn the_solution_solves(
            (size, entries, expected) in (1_usize..12).prop_flat_map(|size| (
                Just(size),
                prop::collection::vec(-2.0..2.0, size * size),
                prop::collection::vec(-5.0..5.0, size),
            ))
        ) {
            let at = |row: usize, column: usize| {
                let product: f64 =
                    (0..size).map(|k| entries[row * size + k] * entries[column * size + k]).sum();
                product + f64::from(u8::from(row == column))
            };
            let mut matrix: Vec<f64> = (0..size * size).map(|i| at(i / size, i % size)).collect();
            let mut right: Vec<f64> =
                (0..size).map(|row| (0..size).map(|k| at(row, k) * expected[k]).sum()).collect();
            // The part right of the diagonal must not matter.
            for row in 0..size {
                matrix[row * size + row + 1..(row + 1) * size].fill(f64::NAN);
            }
            prop_assert_eq!(solve(&mut matrix, &mut right), Ok(()));
            for (found, expected) in right.iter().zip(&expected) {
                let distance: f64 = found - expected;
                prop_assert!(distance.abs() < 1e-8, "{} {}", found, expected);
            }
        }
    }

    #[test]
    fn a_dependent_column_is_named() {
        // The third row is the sum of the first two.
        let mut matrix = [2.0, 0.0, 0.0, 1.0, 3.0, 0.0, 3.0, 4.0, 7.0];
        assert_eq!(solve(&mut matrix, &mut [1.0, 1.0, 1.0]), Err(Dependent(2)));
        assert_eq!(solve(&mut [0.0], &mut [1.0]), Err(Dependent(0)));
        assert_eq!(solve(&mut [f64::NAN], &mut [1.0]), Err(Dependent(0)));
    }
}
