//! The look of each platform's line: a colour, a dash and a mark.

/// Dashes in platform order; the first is a solid line.
pub(super) const DASHES: [&str; COLORS] =
    ["none", "18 6", "4 6", "18 6 4 6", "30 8", "10 4", "4 12", "30 6 4 6 4 6"];

/// Number of platform colours in the style sheet, from `--p0`.
pub(super) const COLORS: usize = 8;

/// Number of platforms with different looks; further ones repeat them.
pub(super) const LOOKS: usize = DASHES.len() * Mark::ALL.len();

/// Marker on some points of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    Disc,
    Square,
    Triangle,
}

impl Mark {
    const ALL: [Mark; 4] = [Mark::None, Mark::Disc, Mark::Square, Mark::Triangle];
}

/// Look of a platform's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) color: usize,
    pub(super) dash: usize,
    pub(super) mark: Mark,
}

impl Look {
    /// Platforms with the same dash differ in mark and colour.
    pub(super) const fn of(index: usize) -> Self {
        let turn = index / COLORS % Mark::ALL.len();
        Self { color: (index + 3 * turn) % COLORS, dash: index % COLORS, mark: Mark::ALL[turn] }
    }
}
