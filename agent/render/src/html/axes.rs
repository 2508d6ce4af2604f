//! Which platforms share an axis: those of similar size.
//!
//! Beside a guest that takes a hundred times as long all other bars are a pixel wide, and all other lines lie
//! on the axis. Where a guest is emulated plays no part: one that is three times as slow is read best beside
//! the others. Pure.

/// Bound on largest / smallest value of an axis. Bars have some 700 pixels: the shortest gets 70, and a
/// twentieth of it can still be seen.
const APART: f64 = 10.0;

/// Indices of `sizes`, axis by axis, the smallest sizes first; within an axis in input order. Sizes of zero
/// go with the smallest.
pub(super) fn axes(sizes: &[f64]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|a, b| sizes[*a].total_cmp(&sizes[*b]));
    let first = order.iter().position(|place| sizes[*place] > 0.0).unwrap_or(order.len());
    let mut axes: Vec<Vec<usize>> =
        split(&order[first..], sizes).into_iter().map(<[usize]>::to_vec).collect();
    match axes.first_mut() {
        Some(smallest) => smallest.extend(&order[..first]),
        None => axes.push(order),
    }
    for places in &mut axes {
        places.sort_unstable();
    }
    axes
}

/// Splits at the widest gap, as often as needed: fixed limits could part two sizes that are nearly alike.
fn split<'a>(order: &'a [usize], sizes: &[f64]) -> Vec<&'a [usize]> {
    let ratio = |a: usize, b: usize| sizes[b] / sizes[a];
    let ends = order.first().zip(order.last());
    let Some((least, most)) = ends else { return Vec::new() };
    if ratio(*least, *most) < APART {
        return vec![order];
    }
    let gap = |at: &usize| ratio(order[at - 1], order[*at]);
    let widest = (1..order.len()).max_by(|a, b| gap(a).total_cmp(&gap(b))).unwrap_or(1);
    let (smaller, larger) = order.split_at(widest);
    [split(smaller, sizes), split(larger, sizes)].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{APART, axes};

    #[test]
    fn sizes_that_are_far_apart_get_axes_of_their_own() {
        assert_eq!(axes(&[30.0, 21.0, 40.0]), [[0, 1, 2]]);
        assert_eq!(axes(&[3_000.0, 30.0, 3_800.0, 21.0]), [[1, 3], [0, 2]]);
        // Two nearly equal sizes share an axis, though one is more than ten times the smallest.
        assert_eq!(axes(&[1.0, 9.9, 10.1]), [vec![0], vec![1, 2]]);
        assert_eq!(axes(&[1.0, 4.0, 25.0, 125.0]), [[0, 1], [2, 3]]);
    }

    #[test]
    fn what_has_no_size_is_somewhere() {
        assert_eq!(axes(&[0.0, 100.0, 1.0]), [vec![0, 2], vec![1]]);
        assert_eq!(axes(&[0.0, 0.0]), [[0, 1]]);
        assert_eq!(axes(&[]), [Vec::<usize>::new()]);
    }

    proptest! {
        #[test]
        fn each_is_on_one_axis_with_those_of_its_size(sizes in proptest::collection::vec(1.0..1e9_f64, 1..30)) {
            let axes = axes(&sizes);
            let mut places = axes.concat();
            places.sort_unstable();
            prop_assert_eq!(places, (0..sizes.len()).collect::<Vec<_>>());
            let ends = |axis: &Vec<usize>| {
                let of = || axis.iter().map(|place| sizes[*place]);
                (of().fold(f64::INFINITY, f64::min), of().fold(0.0, f64::max))
            };
            prop_assert!(axes.iter().all(|axis| ends(axis).1 / ends(axis).0 < APART));
            prop_assert!(axes.windows(2).all(|pair| ends(&pair[0]).1 <= ends(&pair[1]).0));
        }
    }
}
