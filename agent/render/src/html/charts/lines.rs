//! Lines of platforms, their bands and their names.
//!
//! Each platform has a unique look: a colour, a dash and a mark. Dash and mark alone identify it, for paper
//! and for readers who cannot distinguish colours. Names are in a column at the right, without overlap.

use std::fmt::Write as _;

use plotters::{
    element::{Circle, PathElement, Polygon, Rectangle, Text, TriangleMarker},
    series::LineSeries,
    style::{
        Color as _,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{
    drawing::{Area, Drawn, Plane, TEXT, WIDTH, fit_ends, room_for, text},
    ink::Ink,
    line_looks::{DASHES, LOOKS, Look, Mark},
};

/// Radius of a mark.
const MARK: i32 = 11;
/// Approximate number of marks on a line.
const MARKS: usize = 8;
/// Distance from one name to the next, if there is room.
const STEP: i32 = TEXT as i32 + 8;
/// Length of the sample of a line that stands before its name.
const SAMPLE: i32 = 74;
/// Gaps from the plot's edge to the sample, and from the sample to the name.
const SPACE: [i32; 2] = [24, 10];

/// Appends the CSS classes of all looks.
pub(super) fn classes(out: &mut String) {
    for index in 0..LOOKS {
        let Look { color, dash, mark: _ } = Look::of(index);
        let dash = DASHES[dash];
        let _ = write!(
            out,
            ".stroke-platform{index}{{stroke:var(--p{color});stroke-dasharray:{dash}}}\
             .fill-platform{index}{{fill:var(--p{color})}}\
             .fill-band{index}{{fill:var(--p{color});fill-opacity:.18}}"
        );
    }
}

/// The band of a platform: what lies between its lower and its upper line.
pub(super) fn band(
    plane: &mut Plane<'_, '_>,
    index: usize,
    low: impl Iterator<Item = (f64, f64)>,
    high: impl DoubleEndedIterator<Item = (f64, f64)>,
) -> Drawn {
    let outline: Vec<(f64, f64)> = low.chain(high.rev()).collect();
    plane.draw_series(std::iter::once(Polygon::new(outline, Ink::Band(index).color().filled())))?;
    Ok(())
}

/// The line of a platform, with its marks.
pub(super) fn line(area: &Area<'_>, plane: &mut Plane<'_, '_>, index: usize, points: &[(f64, f64)]) -> Drawn {
    let style = Ink::Platform(index).color().stroke_width(5);
    plane.draw_series(LineSeries::new(points.iter().copied(), style))?;
    // Lines that lie on each other have their marks at different points.
    let step = (points.len() / MARKS).max(1);
    for point in points.iter().skip(index % step).step_by(step) {
        let (x, y) = plane.backend_coord(point);
        mark(area, index, x, y)?;
    }
    Ok(())
}

/// Draws a mark with a rim of paper, so that it stands out from its own line.
pub(super) fn mark(area: &Area<'_>, index: usize, x: i32, y: i32) -> Drawn {
    let (rim, ink) = (Ink::Paper.color().filled(), Ink::Platform(index).color().filled());
    let square = |half: i32| [(x - half, y - half), (x + half, y + half)];
    match Look::of(index).mark {
        Mark::None => Ok(()),
        Mark::Disc => {
            area.draw(&Circle::new((x, y), MARK + 2, rim))?;
            area.draw(&Circle::new((x, y), MARK, ink))
        }
        Mark::Square => {
            area.draw(&Rectangle::new(square(MARK + 1), rim))?;
            area.draw(&Rectangle::new(square(MARK - 1), ink))
        }
        Mark::Triangle => {
            area.draw(&TriangleMarker::new((x, y), MARK + 6, rim))?;
            area.draw(&TriangleMarker::new((x, y), MARK + 2, ink))
        }
    }
}

/// The end of a line, in the drawing's own units.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'a> {
    /// Platform index.
    pub(super) index: usize,
    pub(super) x: i32,
    pub(super) y: i32,
    /// Name of the platform.
    pub(super) label: &'a str,
}

/// Edges of the plot, in the drawing's own units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges {
    pub(super) right: i32,
    pub(super) top: i32,
    /// Where the axis is.
    pub(super) bottom: i32,
}

/// Fraction of a chart's width that the names of its lines need.
pub(super) fn room_for_ends<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    f64::from(SPACE[0] + SAMPLE + SPACE[1] + room_for(names)) / f64::from(WIDTH)
}

/// Chart height at which no name lies over another.
pub(super) const fn room_for_lines(lines: usize) -> i32 {
    lines as i32 * STEP + 120
}

/// Names all lines in a column, right of the plot: a piece of the line, then the name, with a thin line from
/// where the line ends.
pub(super) fn ends(area: &Area<'_>, ends: &mut [End<'_>], plot: Edges) -> Drawn {
    let Edges { right, top, bottom } = plot;
    ends.sort_by_key(|end| (end.y, end.index));
    let wanted: Vec<i32> = ends.iter().map(|end| end.y).collect();
    let column = right + SPACE[0];
    let name_at = column + SAMPLE + SPACE[1];
    // The axis has names of its own below it.
    for (End { index, x, y: end, label }, y) in ends.iter().zip(apart(&wanted, top, bottom - STEP / 2)) {
        area.draw(&PathElement::new(vec![(*x, *end), (column, y)], Ink::Frame.color().stroke_width(1)))?;
        let style = Ink::Platform(*index).color().stroke_width(5);
        area.draw(&PathElement::new(vec![(column, y), (column + SAMPLE, y)], style))?;
        mark(area, *index, column + SAMPLE / 2, y)?;
        let style = text().pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(fit_ends(label, WIDTH - name_at), (name_at, y), style))?;
    }
    Ok(())
}

/// Heights from the top, as near as possible to the sorted `wanted` ones, a step apart and between the
/// limits. Steps shrink where there is no room.
fn apart(wanted: &[i32], top: i32, bottom: i32) -> Vec<i32> {
    let gaps = wanted.len().saturating_sub(1) as i32;
    let step = STEP.min((bottom - top) / gaps.max(1));
    let mut next = top;
    let mut heights: Vec<i32> = wanted
        .iter()
        .map(|&wanted| {
            let height = wanted.max(next);
            next = height + step;
            height
        })
        .collect();
    // Heights beyond the bottom move back up, and push those above them.
    let mut most = bottom;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(most);
        most = *height - step;
    }
    heights
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Ink, LOOKS, Look, STEP, apart, classes, room_for_lines};

    #[test]
    fn two_dozen_platforms_look_different_without_colours_too() {
        const { assert!(LOOKS >= 24) };
        let looks: Vec<Look> = (0..LOOKS).map(Look::of).collect();
        let colourless: BTreeSet<(usize, u8)> =
            looks.iter().map(|look| (look.dash, look.mark as u8)).collect();
        let unmarked: BTreeSet<(usize, usize)> = looks.iter().map(|look| (look.dash, look.color)).collect();
        assert_eq!((colourless.len(), unmarked.len()), (LOOKS, LOOKS));
        let colors: BTreeSet<(u8, u8, u8)> = (0..LOOKS)
            .map(|index| Ink::Platform(index).color())
            .map(|color| (color.0, color.1, color.2))
            .collect();
        assert_eq!(colors.len(), LOOKS);
    }

    #[test]
    fn every_look_has_its_classes() {
        let mut css = String::new();
        classes(&mut css);
        for index in 0..LOOKS {
            for class in ["stroke-platform", "fill-platform", "fill-band"] {
                assert!(css.contains(&format!(".{class}{index}{{")), "{class}{index}");
            }
        }
    }

    #[test]
    fn names_move_no_further_than_they_must() {
        assert_eq!(apart(&[100, 300], 0, 900), [100, 300]);
        assert_eq!(apart(&[100, 104, 108], 0, 900), [100, 100 + STEP, 100 + 2 * STEP]);
        assert_eq!(apart(&[895, 899], 0, 900), [900 - STEP, 900]);
        assert_eq!(apart(&[], 0, 900), Vec::<i32>::new());
    }

    proptest! {
        /// Names stay in order, inside, and do not overlap.
        #[test]
        fn names_do_not_overlap(mut wanted in proptest::collection::vec(0..800_i32, 1..60)) {
            wanted.sort_unstable();
            // Less what the axis, its names and the margins take.
            let bottom = room_for_lines(wanted.len()).max(900) - 80 - STEP / 2 - 10;
            let heights = apart(&wanted, 20, bottom);
            prop_assert!(heights.iter().all(|height| (20..=bottom).contains(height)), "{heights:?}");
            prop_assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= STEP), "{heights:?}");
        }
    }
}
