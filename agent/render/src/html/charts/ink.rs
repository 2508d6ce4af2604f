//! Inks of charts: an ink stands for a class of the style sheet, so that one chart suits light and dark
//! pages, paper, and readers who cannot distinguish colours.
//!
//! plotters uses colours only. Each ink has a unique colour, which is replaced by the class after drawing;
//! shapes in a cause's colour get the cause's hatch.

use std::fmt::Write as _;

use guestscope_contract::Account;
use maud::{Markup, PreEscaped};
use plotters::style::RGBColor;

use super::{
    hatch::{Hatch, Place},
    line_looks,
};
use crate::{
    analyze::{Cause, Overlay},
    looks,
};

/// A colour by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// Text and axes.
    Text,
    /// Lines behind the data.
    Grid,
    /// Outlines without a cause: a phase's frame.
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
            Ink::Cause(cause) => Self::numbers(2, cause.place() as u8),
            Ink::Platform(index) => Self::numbers(3, place_of_line(index)),
            Ink::Band(index) => Self::numbers(4, place_of_line(index)),
        }
    }
}

/// Platforms that look alike share a class.
const fn place_of_line(index: usize) -> u8 {
    (index % line_looks::LOOKS) as u8
}

/// The class for an ink's colour, which is given as six hexadecimal digits.
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

/// The drawing with classes for the colours of inks, and hatches.
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
            if let Some(hatch) = hatched(before, &class) {
                let end = rest.find('>').map_or(rest.len(), |at| at + 1);
                out.push_str(&rest[..end]);
                let _ = write!(out, "<path class=\"hatch\" d=\"{hatch}\"/>");
                rest = &rest[end..];
            }
        } else {
            out.push_str(before);
            out.push_str(&after[..3]);
            rest = &after[3..];
        }
    }
    out.push_str(rest);
    out
}

/// The hatch's path for the `<rect` tag that `text` ends in the middle of; none if the cause has no hatch.
fn hatched(text: &str, class: &str) -> Option<String> {
    let (_, hatch) = look(Cause::all().nth(class.strip_prefix("cause")?.parse().ok()?)?);
    let tag = text.rsplit_once("<rect ")?.1;
    if tag.contains('>') {
        return None;
    }
    let number = |name: &str| tag.split_once(&format!("{name}=\""))?.1.split_once('"')?.0.parse().ok();
    let place =
        Place { x: number("x")?, y: number("y")?, width: number("width")?, height: number("height")? };
    Some(hatch.path(place)).filter(|path| !path.is_empty())
}

/// Colour and hatch of a cause; those that are large beside each other differ in both. A helper's cause has
/// its account's colour.
pub(super) const fn look(cause: Cause) -> (&'static str, Hatch) {
    match cause {
        Cause::Account(account) => of_account(account),
        Cause::Suspended => ("#b8aea8", Hatch::Level),
        Cause::Queue => ("#c9a0e0", Hatch::Cross),
        Cause::Handoff => ("#d8ccc4", Hatch::Up),
        Cause::Steal => ("#7a5fc7", Hatch::Down),
        Cause::InDriver => ("#2f8f88", Hatch::Upright),
        Cause::Pause => ("#8d8d8d", Hatch::Cross),
        Cause::Stopped => ("#5f6b73", Hatch::Down),
        Cause::AddressSpace => ("#b5651d", Hatch::Cross),
        Cause::Helper(account) => match of_account(account) {
            (colour, Hatch::Dots) => (colour, Hatch::Up),
            (colour, _) => (colour, Hatch::Dots),
        },
        Cause::Overlay(Overlay::Spin) => ("#9fc0ea", Hatch::Dots),
        Cause::Overlay(Overlay::Fault) => ("#6fa0dc", Hatch::Up),
        Cause::Overlay(Overlay::Syscall) => ("#86b0e4", Hatch::Level),
        Cause::Overlay(Overlay::Irq) => ("#3d6aa5", Hatch::Upright),
    }
}

const fn of_account(account: Account) -> (&'static str, Hatch) {
    let look = looks::of(account);
    (look.page, look.hatch)
}

/// A swatch of a cause, for a legend.
pub(in crate::html) fn swatch(cause: Cause) -> Markup {
    let hatch = look(cause).1.path(Place { x: 0, y: 0, width: 48, height: 32 });
    PreEscaped(format!(
        "<svg class=\"swatch\" viewBox=\"0 0 48 32\" aria-hidden=\"true\">\
         <rect width=\"48\" height=\"32\" class=\"fill-cause{}\"/><path class=\"hatch\" d=\"{hatch}\"/></svg>",
        cause.place()
    ))
}

#[cfg(test)]
mod tests {
    use super::{inked, look};
    use crate::analyze::Cause;

    #[test]
    fn colours_of_inks_become_classes_and_others_stay() {
        let svg = r##"<rect fill="#020003" stroke="none"/><text fill="#ABCDEF">fill="#02</text>"##;
        let expected = r##"<rect class="fill-cause3" stroke="none"/><text fill="#ABCDEF">fill="#02</text>"##;
        assert_eq!(inked(svg), expected);
    }

    #[test]
    fn bars_of_causes_are_hatched_if_they_are_wide_enough() {
        let bar = |width: i32, ink: &str| {
            inked(&format!(
                r##"<rect x="0" y="16" width="{width}" height="16" fill="#{ink}" stroke="none"/><text/>"##
            ))
        };
        let expected = r#"<rect x="0" y="16" width="16" height="16" class="fill-cause1" stroke="none"/><path class="hatch" d="M0 32l16 -16"/><text/>"#;
        assert_eq!(bar(16, "020001"), expected);
        assert!(!bar(3, "020001").contains("hatch") && !bar(16, "010002").contains("hatch"));
    }

    #[test]
    fn no_two_causes_look_alike() {
        let mut looks: Vec<_> = Cause::all().map(|cause| (cause, look(cause))).collect();
        while let Some((cause, own)) = looks.pop() {
            let same = looks.iter().find(|(_, other)| *other == own);
            assert_eq!(same, None, "as {}", cause.name());
        }
    }

    /// Narrow bars show their colour alone, on a light page and on a dark one.
    #[test]
    fn every_colour_stands_out_from_both_papers() {
        let light = |color: &str| -> f64 {
            let part = |at: usize| {
                let share = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
                if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        let contrast = |a: f64, b: f64| (a.max(b) + 0.05) / (a.min(b) + 0.05);
        let css = include_str!("../page/style.css");
        let papers: Vec<&str> = css.split("--paper: ").skip(1).map(|rest| &rest[..7]).collect();
        assert_eq!(papers.len(), 2, "{papers:?}");
        for (color, _) in Cause::all().map(look) {
            for paper in &papers {
                assert!(contrast(light(color), light(paper)) >= 1.5, "{color} on {paper}");
            }
        }
    }
}
