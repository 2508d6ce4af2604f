//! Values with a unit in a configuration.

use std::{fmt, time::Duration};

use serde::Deserialize;

use crate::values;

/// A time such as `500ms`, more than nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Time(pub(super) Duration);

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
}
