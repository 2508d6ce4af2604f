//! Hatches of causes as separate lines, for paper and for readers who cannot distinguish colours.
//!
//! Yields path data. An SVG pattern would be shorter, but Chromium prints each use of one as a picture: a
//! report of 12 platforms became a PDF of 196 MB, in a minute. Lines are printed as lines.

use std::fmt::Write as _;

/// Distance from one stroke to the next.
const TILE: i32 = 16;
/// Narrowest bar with a hatch: a narrower one would show one white stroke or none, which looks like a gap.
const LEAST: i32 = 12;

/// Hatch of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hatch {
    /// The colour alone.
    None,
    /// Lines from the lower left to the upper right.
    Up,
    /// Lines from the upper left to the lower right.
    Down,
    /// `Up` and `Down` together.
    Cross,
    /// Lines from left to right.
    Level,
    /// Lines from top to bottom.
    Upright,
    /// Dashes in rows.
    Dots,
}

/// Rectangle of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

/// The two end points.
type Stroke = [(i32, i32); 2];

impl Hatch {
    /// The strokes in a bar, as path data. They lie on one grid for all bars, so that neighbours fit
    /// together.
    pub(super) fn path(self, place: Place) -> String {
        let mut out = String::new();
        if place.width < LEAST {
            return out;
        }
        for [(x, y), (to_x, to_y)] in self.strokes(place) {
            let _ = match (to_x - x, to_y - y) {
                (across, 0) => write!(out, "M{x} {y}h{across}"),
                (0, down) => write!(out, "M{x} {y}v{down}"),
                (across, down) => write!(out, "M{x} {y}l{across} {down}"),
            };
        }
        out
    }

    fn strokes(self, place: Place) -> Vec<Stroke> {
        let Place { x, y, width, height } = place;
        let (right, bottom) = (x + width, y + height);
        let level = |step: i32| multiples(y, bottom, step, TILE / 4).map(move |at| [(x, at), (right, at)]);
        match self {
            Hatch::None => Vec::new(),
            Hatch::Up => up(place),
            Hatch::Down => down(place),
            Hatch::Cross => [up(place), down(place)].concat(),
            Hatch::Level => level(TILE / 2).collect(),
            Hatch::Upright => {
                multiples(x, right, TILE / 2, TILE / 4).map(|at| [(at, y), (at, bottom)]).collect()
            }
            Hatch::Dots => {
                // Every other row begins half a tile further right.
                let shift = |at: i32| if at.rem_euclid(TILE) < TILE / 2 { 0 } else { TILE / 2 };
                let dashes =
                    |at: i32| multiples(x, right - 3, TILE, 3 + shift(at)).map(move |from| (from, at));
                let rows = multiples(y, bottom, TILE / 2, TILE / 4);
                rows.flat_map(dashes).map(|(from, at)| [(from, at), (from + 3, at)]).collect()
            }
        }
    }
}

/// Numbers strictly between `from` and `to` that are `first` plus a multiple of `step`.
fn multiples(from: i32, to: i32, step: i32, first: i32) -> impl Iterator<Item = i32> {
    let begin = from + 1 + (first - from - 1).rem_euclid(step);
    (begin..to).step_by(step as usize)
}

/// Strokes on which x + y is a multiple of the tile.
fn up(Place { x, y, width, height }: Place) -> Vec<Stroke> {
    let (right, bottom) = (x + width, y + height);
    multiples(x + y, right + bottom, TILE, 0)
        .map(|sum| {
            let (from, to) = (x.max(sum - bottom), right.min(sum - y));
            [(from, sum - from), (to, sum - to)]
        })
        .collect()
}

/// Strokes on which y - x is a multiple of the tile.
fn down(Place { x, y, width, height }: Place) -> Vec<Stroke> {
    let (right, bottom) = (x + width, y + height);
    multiples(y - right, bottom - x, TILE, 0)
        .map(|difference| {
            let (from, to) = (x.max(y - difference), right.min(bottom - difference));
            [(from, from + difference), (to, to + difference)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Hatch, LEAST, Place, TILE};

    const ALL: [Hatch; 6] = [Hatch::Up, Hatch::Down, Hatch::Cross, Hatch::Level, Hatch::Upright, Hatch::Dots];

    #[test]
    fn a_square_has_the_strokes_of_its_name() {
        let place = Place { x: 0, y: 0, width: 2 * TILE, height: 2 * TILE };
        assert_eq!(Hatch::None.path(place), "");
        assert_eq!(Hatch::Up.path(place), "M0 16l16 -16M0 32l32 -32M16 32l16 -16");
        assert_eq!(Hatch::Down.path(place), "M16 0l16 16M0 0l32 32M0 16l16 16");
        assert_eq!(Hatch::Cross.path(place), Hatch::Up.path(place) + &Hatch::Down.path(place));
        assert_eq!(Hatch::Level.path(place), "M0 4h32M0 12h32M0 20h32M0 28h32");
        assert_eq!(Hatch::Upright.path(place), "M4 0v32M12 0v32M20 0v32M28 0v32");
        assert_eq!(Hatch::Dots.path(place), "M3 4h3M19 4h3M11 12h3M27 12h3M3 20h3M19 20h3M11 28h3M27 28h3");
    }

    #[test]
    fn what_is_narrow_has_its_colour_alone() {
        let narrow = |width: i32| Hatch::Up.path(Place { x: 0, y: 0, width, height: 40 });
        assert!(narrow(LEAST - 1).is_empty() && !narrow(LEAST).is_empty());
    }

    proptest! {
        /// Nothing is drawn outside, and every tile of a bar shows some of its hatch.
        #[test]
        fn strokes_fill_their_bar_and_stay_in_it(
            x in -40..2_000, y in -40..2_000, width in LEAST..400, height in 20..60,
        ) {
            let place = Place { x, y, width, height };
            for hatch in ALL {
                let strokes = hatch.strokes(place);
                let is_inside = |&(at, level): &(i32, i32)| {
                    (x..=x + width).contains(&at) && (y..=y + height).contains(&level)
                };
                prop_assert!(strokes.iter().flatten().all(is_inside), "{hatch:?} {strokes:?}");
                for tile in (x..=x + width - 2 * TILE).step_by(TILE as usize) {
                    let meets = |[from, to]: &[(i32, i32); 2]| from.0 <= tile + 2 * TILE && to.0 >= tile;
                    prop_assert!(strokes.iter().any(meets), "{hatch:?} at {tile}: {strokes:?}");
                }
            }
        }
    }
}
