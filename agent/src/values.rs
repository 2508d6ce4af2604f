//! Values of options that several commands take.

use std::{fmt, time::Duration};

use serde::Deserialize;

/// A number of bytes such as `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Deserialize)]
#[serde(try_from = "String")]
pub struct Bytes(pub u64);

/// Parses a whole number with a unit.
pub(crate) fn time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let ns_of_unit = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    Some(Duration::from_nanos(number.saturating_mul(ns_of_unit)))
}

/// Parses a time that is not zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let time = time(text).ok_or_else(|| "not a time such as 30s, 5m or 1h".to_owned())?;
    if time.is_zero() { Err("must be more than nothing".to_owned()) } else { Ok(time) }
}

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || "not a number of bytes such as 512MiB or 2GiB".to_owned();
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit: u64 = match &text[digits.len()..] {
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(unit).filter(|bytes| *bytes > 0).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")];
        let unit = UNITS.into_iter().find(|(of, _)| self.0.is_multiple_of(*of)).unwrap_or((1 << 10, "KiB"));
        write!(formatter, "{}{}", self.0 / unit.0, unit.1)
    }
}

/// Parses a part of something: `1/100`, `1%`, `0.01`; more than nothing and at most all.
pub(crate) fn part(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let part = match (text.split_once('/'), text.strip_suffix('%')) {
        (Some((of, all)), _) => number(of).zip(number(all)).map(|(of, all)| of / all),
        (None, Some(percent)) => number(percent).map(|percent| percent / 100.0),
        (None, None) => number(text),
    };
    let part = part.ok_or_else(|| "not a part such as 1/100, 1% or 0.01".to_owned())?;
    if part > 0.0 && part <= 1.0 { Ok(part) } else { Err("must be more than 0 and at most 1".to_owned()) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("30s", Some(30))]
    #[case("5m", Some(300))]
    #[case("1h", Some(3600))]
    #[case("0s", None)]
    #[case("30", None)]
    #[case("s", None)]
    #[case("off", None)]
    #[case("-1s", None)]
    fn durations(#[case] text: &str, #[case] seconds: Option<u64>) {
        assert_eq!(duration(text).ok(), seconds.map(Duration::from_secs));
    }

    #[rstest]
    #[case("1GiB", Some("1GiB"))]
    #[case("1536MiB", Some("1536MiB"))]
    #[case("0GiB", None)]
    #[case("1GB", None)]
    #[case("99999999999TiB", None)]
    #[case("GiB", None)]
    fn bytes(#[case] text: &str, #[case] told: Option<&str>) {
        assert_eq!(Bytes::try_from(text.to_owned()).ok().map(|bytes| bytes.to_string()).as_deref(), told);
    }

    #[rstest]
    #[case("1/100", Some(0.01))]
    #[case("1%", Some(0.01))]
    #[case("0.25", Some(0.25))]
    #[case("1", Some(1.0))]
    #[case("0", None)]
    #[case("2", None)]
    #[case("1/0", None)]
    #[case("nan", None)]
    #[case("-1%", None)]
    #[case("a tenth", None)]
    #[case("1/2/3", None)]
    fn parts(#[case] text: &str, #[case] expected: Option<f64>) {
        assert_eq!(part(text).ok(), expected);
    }
}
