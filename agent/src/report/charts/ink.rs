//! What charts are drawn with: an ink stands for a class of the style sheet, so that one chart fits light and dark pages,
//! paper, and eyes that tell no colours apart.
//!
//! plotters knows colours only. Each ink has a colour that nothing else uses, and after the drawing that colour is
//! replaced by the class.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped};
use plotters::style::RGBColor;

use super::lines;
use crate::analyze::Cause;

/// An ink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// Text and axes.
    Text,
    /// Lines behind the data.
    Grid,
    /// What is nobody's: a phase's frame.
    Frame,
    /// The page, to stand out from what lies below.
    Paper,
    /// A cause.
    Cause(Cause),
    /// A platform by its place, the baseline being 0.
    Platform(usize),
    /// The band around a platform's line.
    Band(usize),
}

impl Ink {
    const fn numbers(kind: u8, index: u8) -> RGBColor {
        RGBColor(kind, 0, index)
    }

    pub(super) fn color(self) -> RGBColor {
        match self {
            Ink::Text => Self::numbers(1, 0),
            Ink::Grid => Self::numbers(1, 1),
            Ink::Frame => Self::numbers(1, 2),
            Ink::Paper => Self::numbers(1, 3),
            Ink::Cause(cause) => Self::numbers(2, place(cause) as u8),
            Ink::Platform(index) => Self::numbers(3, place_of_line(index)),
            Ink::Band(index) => Self::numbers(4, place_of_line(index)),
        }
    }
}

/// Platforms that look alike share a class.
const fn place_of_line(index: usize) -> u8 {
    (index % lines::LOOKS) as u8
}

fn place(cause: Cause) -> usize {
    Cause::all().position(|known| known == cause).unwrap_or(0)
}

/// The class of an ink's colour, as six hexadecimal digits.
fn class(digits: &str) -> Option<String> {
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let (kind, zero, index) = (byte(0)?, byte(2)?, byte(4)?);
    let name = match (kind, index) {
        (1, 0) => "text".to_owned(),
        (1, 1) => "grid".to_owned(),
        (1, 2) => "frame".to_owned(),
        (1, 3) => "paper".to_owned(),
        (2, _) => format!("cause{index}"),
        (3, _) => format!("platform{index}"),
        (4, _) => format!("band{index}"),
        _ => return None,
    };
    (zero == 0).then_some(name)
}

/// The drawing with classes for the colours of inks.
pub(super) fn inked(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(at) = rest.find("=\"#") {
        let (before, after) = rest.split_at(at);
        let known = ["fill", "stroke"].into_iter().find(|name| before.ends_with(name));
        let class = after.get(3..9).and_then(class).filter(|_| after.as_bytes().get(9) == Some(&b'"'));
        if let Some((name, class)) = known.zip(class) {
            out.push_str(&before[..before.len() - name.len()]);
            let _ = write!(out, "class=\"{name}-{class}\"");
            rest = &after[10..];
        } else {
            out.push_str(before);
            out.push_str(&after[..3]);
            rest = &after[3..];
        }
    }
    out.push_str(rest);
    out
}

/// Colour and hatch of each cause, in the order of [`Cause::all`]; those that are large beside each other differ in both.
const LOOKS: [(&str, Hatch); 23] = [
    ("#4878b0", Hatch::None),    // cpu
    ("#e0504a", Hatch::Up),      // runq
    ("#a8227f", Hatch::Cross),   // throttled
    ("#8c6a4f", Hatch::Dots),    // block_io
    ("#3f9a4a", Hatch::Level),   // net
    ("#8fce85", Hatch::Upright), // poll
    ("#e8b93e", Hatch::Down),    // lock
    ("#55b3ad", Hatch::None),    // gpu
    ("#f4959f", Hatch::Dots),    // fault
    ("#cfcfcf", Hatch::None),    // sleep
    ("#7a7370", Hatch::Up),      // other
    ("#b8aea8", Hatch::Level),   // suspended
    ("#c9a0e0", Hatch::Cross),   // queue
    ("#222222", Hatch::Down),    // steal
    ("#555555", Hatch::Cross),   // pause
    ("#e0504a", Hatch::Dots),    // helper.runq
    ("#a8227f", Hatch::Dots),    // helper.throttled
    ("#8c6a4f", Hatch::Up),      // helper.block_io
    ("#f4959f", Hatch::Up),      // helper.fault
    ("#9fc0ea", Hatch::Dots),    // cpu.spin
    ("#6fa0dc", Hatch::Up),      // cpu.fault
    ("#86b0e4", Hatch::Level),   // cpu.syscall
    ("#2c5080", Hatch::Upright), // cpu.irq
];

#[derive(Clone, Copy, Debug)]
enum Hatch {
    None,
    Up,
    Down,
    Cross,
    Level,
    Upright,
    Dots,
}

impl Hatch {
    /// A tile of 16 by 16.
    const fn path(self) -> &'static str {
        match self {
            Hatch::None => "",
            Hatch::Up => "M-4 4L4 -4M0 16L16 0M12 20L20 12",
            Hatch::Down => "M-4 12L4 20M0 0L16 16M12 -4L20 4",
            Hatch::Cross => "M0 16L16 0M0 0L16 16",
            Hatch::Level => "M0 4H16M0 12H16",
            Hatch::Upright => "M4 0V16M12 0V16",
            Hatch::Dots => "M3 4h3M11 12h3",
        }
    }
}

fn look(cause: Cause) -> (&'static str, Hatch) {
    LOOKS[place(cause) % LOOKS.len()]
}

/// The patterns that fills refer to, and the classes that refer to them.
pub(in crate::report) fn definitions() -> Markup {
    let mut patterns = String::new();
    let mut classes = String::new();
    for (index, cause) in Cause::all().enumerate() {
        let (color, hatch) = look(cause);
        let _ = write!(
            patterns,
            "<pattern id=\"cause{index}\" width=\"16\" height=\"16\" patternUnits=\"userSpaceOnUse\">\
             <rect width=\"16\" height=\"16\" fill=\"{color}\"/>\
             <path d=\"{}\" stroke=\"#fff\" stroke-opacity=\".75\" stroke-width=\"2.5\" fill=\"none\"/></pattern>",
            hatch.path()
        );
        let _ = write!(classes, ".fill-cause{index}{{fill:url(#cause{index})}}");
    }
    lines::classes(&mut classes);
    PreEscaped(format!(
        "<style>{classes}</style><svg width=\"0\" height=\"0\" class=\"defs\" aria-hidden=\"true\"><defs>{patterns}</defs></svg>"
    ))
}

/// A swatch of a cause, for a legend.
pub(in crate::report) fn swatch(cause: Cause) -> Markup {
    let index = place(cause);
    PreEscaped(format!(
        "<svg class=\"swatch\" viewBox=\"0 0 32 32\" aria-hidden=\"true\"><rect width=\"32\" height=\"32\" class=\"fill-cause{index}\"/></svg>"
    ))
}

#[cfg(test)]
mod tests {
    use super::{LOOKS, inked};
    use crate::analyze::Cause;

    #[test]
    fn colours_of_inks_become_classes_and_others_stay() {
        let svg = r##"<rect fill="#020003" stroke="none"/><text fill="#ABCDEF">fill="#02</text>"##;
        let expected = r##"<rect class="fill-cause3" stroke="none"/><text fill="#ABCDEF">fill="#02</text>"##;
        assert_eq!(inked(svg), expected);
    }

    #[test]
    fn every_cause_has_a_look() {
        assert_eq!(Cause::all().count(), LOOKS.len());
    }
}
