//! Values of options that several commands take.

use std::time::Duration;

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
}
