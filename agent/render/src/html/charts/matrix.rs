//! Moves of threads from CPU to CPU: a cell with the count for each pair.

use maud::Markup;
use plotters::{
    element::{Rectangle, Text},
    style::{
        Color as _,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{
    drawing::{CHARACTER, ChartError, draw, text},
    ink::Ink,
};

/// Most CPUs that fit.
pub(in crate::html) const MOST_CPUS: usize = 24;
const LEFT: i32 = 170;
const TOP: i32 = 80;

/// The chart: counts by row (from) and column (to), in the order of `cpus`.
pub(in crate::html) fn matrix(cpus: &[u32], counts: &[Vec<u64>], label: &str) -> Result<Markup, ChartError> {
    let cell = (1_500 / cpus.len().max(1) as i32).clamp(80, 150);
    let height = TOP + cell * cpus.len() as i32 + 20;
    let width = LEFT + cell * cpus.len() as i32 + 20;
    let most = counts.iter().flatten().copied().max().unwrap_or(0).max(1) as f64;
    let center = || text().pos(Pos::new(HPos::Center, VPos::Center));
    draw(width, height, &format!("Moves of {label} from CPU (row) to CPU (column)"), |area| {
        area.draw(&Text::new(
            "from \u{2193} to \u{2192}",
            (0, TOP / 2),
            text().pos(Pos::new(HPos::Left, VPos::Center)),
        ))?;
        for (row, (cpu, counts)) in cpus.iter().zip(counts).enumerate() {
            let (y, x_of_row) = (TOP + row as i32 * cell, LEFT + row as i32 * cell);
            area.draw(&Text::new(format!("CPU {cpu}"), (LEFT - 90, y + cell / 2), center()))?;
            area.draw(&Text::new(format!("{cpu}"), (x_of_row + cell / 2, TOP / 2), center()))?;
            for (column, &count) in counts.iter().enumerate() {
                let x = LEFT + column as i32 * cell;
                let place = [(x + 2, y + 2), (x + cell - 2, y + cell - 2)];
                let strength = if count > 0 { 0.15 + 0.85 * count as f64 / most } else { 0.0 };
                area.draw(&Rectangle::new(place, Ink::Platform(0).color().mix(strength * 0.5).filled()))?;
                area.draw(&Rectangle::new(place, Ink::Grid.color().stroke_width(2)))?;
                if count > 0 {
                    area.draw(&Text::new(short(count, cell), (x + cell / 2, y + cell / 2), center()))?;
                }
            }
        }
        Ok(())
    })
}

/// The number as text that fits its cell: in thousands or millions where it is long.
fn short(count: u64, cell: i32) -> String {
    let texts =
        [(1, ""), (1_000, "k"), (1_000_000, "M")].map(|(unit, name)| format!("{}{name}", count / unit));
    let fits = |text: &&String| text.len() as i32 * CHARACTER <= cell;
    texts.iter().find(fits).unwrap_or(&texts[2]).clone()
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_stay_in_their_cells() {
        assert_eq!(short(12_345, 150), "12345");
        assert_eq!((short(123_456, 80), short(1_234_567, 80)), ("123k".into(), "1234k".into()));
        assert_eq!(short(123_456_789, 80), "123M");
    }
}
