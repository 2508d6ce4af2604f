//! Values with a unit in a configuration.

use std::{fmt, time::Duration};

use serde::Deserialize;

use crate::values;

/// A time such as `500ms`, more than nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Time(pub(super) Duration);

/// A number of bytes such as `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Bytes(pub(super) u64);

/// Longest time: a year.
const LONGEST: Duration = Duration::from_hours(365 * 24);

impl Time {
    /// In ns.
    pub(super) fn ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time = values::time(&text).filter(|time| !time.is_zero() && *time <= LONGEST);
        time.map(Self).ok_or_else(|| "not a time such as 500ms, 30s, 5m or 1h".to_owned())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
        ];
        let ns = self.ns();
        let unit = UNITS.into_iter().find(|(of, _)| ns.is_multiple_of(*of)).unwrap_or((1, "ns"));
        write!(formatter, "{}{}", ns / unit.0, unit.1)
    }
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("500ms", Some("500ms"))]
    #[case("90s", Some("90s"))]
    #[case("120s", Some("2m"))]
    #[case("0s", None)]
    #[case("5", None)]
    #[case("99999h", None)]
    fn times(#[case] text: &str, #[case] told: Option<&str>) {
        assert_eq!(Time::try_from(text.to_owned()).ok().map(|time| time.to_string()).as_deref(), told);
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
}
