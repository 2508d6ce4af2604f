//! Sizes of faults as people write them: `20ms`, `500us`, `1s`, `64`, `4MiB`. Yields nanoseconds, or a
//! number. A kind's unit says which of the two it takes.

use std::{fmt, str::FromStr};

use super::{error::StallError, machine::mapping::page_bytes};

/// Size as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Time { ns: u64 },
    Count(u64),
    Bytes(u64),
}

/// Unit of a kind's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Time,
    Moves,
    /// Pages of memory; bytes are rounded up to pages.
    Pages,
}

#[derive(Debug, thiserror::Error)]
#[error("a size is a time like 20ms, 500us, 1.5s, or a number like 64, or of bytes like 4MiB")]
pub struct NotASize;

/// Suffix, its factor in the smallest unit, and whether it is a time.
const SUFFIXES: [(&str, u64, bool); 7] = [
    ("ns", 1, true),
    ("us", 1_000, true),
    ("ms", 1_000_000, true),
    ("s", 1_000_000_000, true),
    ("KiB", 1 << 10, false),
    ("MiB", 1 << 20, false),
    ("GiB", 1 << 30, false),
];

impl FromStr for Size {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        if suffix.is_empty() {
            return number.parse().map(Self::Count).map_err(|_| NotASize);
        }
        let known = SUFFIXES.iter().find(|known| known.0 == suffix);
        let (_, each, is_time) = known.ok_or(NotASize)?;
        let total = scaled(number, *each).ok_or(NotASize)?;
        Ok(if *is_time { Self::Time { ns: total } } else { Self::Bytes(total) })
    }
}

/// `1.5` times 1,000,000, exactly; digits below one are cut off.
fn scaled(number: &str, each: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(each)?;
    if number.contains('.') && fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let part = part * u128::from(each) / 10_u128.pow(fraction.len() as u32);
    whole.checked_add(u64::try_from(part).ok()?)
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { ns } => {
                let fits = SUFFIXES.iter().rev().filter(|known| known.2).find(|known| ns % known.1 == 0);
                let (suffix, each, _) = fits.unwrap_or(&SUFFIXES[0]);
                write!(f, "{}{suffix}", ns / each)
            }
            Self::Count(count) => write!(f, "{count}"),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
        }
    }
}

impl Unit {
    /// The size as a number of this unit.
    pub fn number(self, kind: &'static str, size: Size) -> Result<u64, StallError> {
        match (self, size) {
            (Self::Time, Size::Time { ns }) => Ok(ns),
            (Self::Moves | Self::Pages, Size::Count(count)) => Ok(count),
            (Self::Pages, Size::Bytes(bytes)) => Ok(bytes.div_ceil(page_bytes() as u64)),
            _ => Err(StallError::Unit { kind, expected: self.what(), given: size.to_string() }),
        }
    }

    /// A number of this unit as a size.
    pub fn size(self, number: u64) -> Size {
        match self {
            Self::Time => Size::Time { ns: number },
            Self::Moves | Self::Pages => Size::Count(number),
        }
    }

    pub fn what(self) -> &'static str {
        match self {
            Self::Time => "a time",
            Self::Moves => "a number of moves",
            Self::Pages => "a number of pages",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::{Size, Unit};

    #[rstest]
    #[case("20ms", Size::Time { ns: 20_000_000 })]
    #[case("500us", Size::Time { ns: 500_000 })]
    #[case("1s", Size::Time { ns: 1_000_000_000 })]
    #[case("1.5s", Size::Time { ns: 1_500_000_000 })]
    #[case("0.25ms", Size::Time { ns: 250_000 })]
    #[case("7ns", Size::Time { ns: 7 })]
    #[case("64", Size::Count(64))]
    #[case("4MiB", Size::Bytes(4 << 20))]
    fn sizes_are_read(#[case] text: &str, #[case] expected: Size) {
        assert_eq!(text.parse::<Size>().ok(), Some(expected));
    }

    #[rstest]
    #[case("")]
    #[case("ms")]
    #[case("20 ms")]
    #[case("-1ms")]
    #[case("1.ms")]
    #[case(".5ms")]
    #[case("1.2.3ms")]
    #[case("1.5")]
    #[case("20min")]
    #[case("20MS")]
    #[case("99999999999999999999s")]
    #[case("18446744073709551615s")]
    fn what_is_no_size_is_refused(#[case] text: &str) {
        assert!(text.parse::<Size>().is_err(), "{text}");
    }

    #[rstest]
    #[case(Unit::Time, "64", "the size of `x` is a time: 64")]
    #[case(Unit::Moves, "4MiB", "the size of `x` is a number of moves: 4194304 bytes")]
    #[case(Unit::Pages, "20ms", "the size of `x` is a number of pages: 20ms")]
    fn a_unit_takes_only_its_own(#[case] unit: Unit, #[case] size: &str, #[case] expected: &str) {
        let error = unit.number("x", size.parse().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = text.parse::<Size>();
        }

        #[test]
        fn a_size_is_read_as_it_is_shown(ns in any::<u64>(), count in any::<u64>()) {
            for size in [Size::Time { ns }, Size::Count(count)] {
                prop_assert_eq!(size.to_string().parse::<Size>().ok(), Some(size));
            }
        }
    }
}
