//! Numbers for people: three significant digits and a unit that keeps them short.
//!
//! Yields text in ASCII. No nonzero value is rounded to zero: it becomes `<0.01`.

use std::fmt::Write as _;

/// Durations from here on (115 days) are written as powers of ten: they come from damage, and must not break
/// a table.
const LONGEST_SECONDS_NS: f64 = 9_999_999.5e9;

/// Nanoseconds: `812 ns`, `6.10 us`, `61.2 ms`, `12.4 s`.
pub fn duration(ns: u64) -> String {
    const UNITS: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")];
    if ns < 1000 {
        return format!("{ns} ns");
    }
    let ns = ns as f64;
    if ns >= LONGEST_SECONDS_NS {
        return format!("{:.2e} s", ns / 1e9);
    }
    // 999.6 us is 1.00 ms: the unit is chosen after rounding.
    let unit = UNITS.iter().find(|(size, _)| ns / size < 999.5).unwrap_or(&UNITS[3]);
    format!("{} {}", digits(ns / unit.0), unit.1)
}

/// A sum of nanoseconds.
pub(crate) fn duration_of_sum(ns: u128) -> String {
    duration(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// A mean of durations, ns; negative ones count as zero.
pub fn mean_duration(ns: f64) -> String {
    duration(ns.round().max(0.0) as u64)
}

/// A duration with its sign: `+57.1 ms`.
pub fn difference(ns: i64) -> String {
    let sign = match ns {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{}", duration(ns.unsigned_abs()))
}

/// Part of a whole, 0 to 1, in per cent.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent == 0.0 => "0 %".to_owned(),
        _ if percent < 0.05 => "<0.1 %".to_owned(),
        _ if (99.95..100.05).contains(&percent) => "100 %".to_owned(),
        _ => format!("{percent:.1} %"),
    }
}

/// A mean number of events: `0.21`, `4.10`, `5,408`.
pub(super) fn mean(sum: u128, count: u64) -> String {
    let mean = sum as f64 / count.max(1) as f64;
    match mean {
        _ if sum == 0 => "0".to_owned(),
        _ if mean < 0.01 => "<0.01".to_owned(),
        _ => digits(mean),
    }
}

/// Three significant digits, at most two decimals, thousands separated.
fn digits(value: f64) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => thousands(value.round() as u64),
    }
}

/// `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 request`, `2 requests`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// Bytes, decimal: `14.2 MB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let bytes = bytes as f64;
    let unit = UNITS.iter().find(|(size, _)| bytes / size < 999.5).unwrap_or(&UNITS[3]);
    format!("{} {}", digits(bytes / unit.0), unit.1)
}

/// Events per second: `16.1/s`.
pub(super) fn rate(per_s: f64) -> String {
    if per_s > 0.0 && per_s < 0.01 { "<0.01/s".to_owned() } else { format!("{}/s", digits(per_s)) }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
/// `29.9 ms, 21.0 ms and 3.00 ms`.
pub(super) fn durations(all: &[u64]) -> String {
    let texts: Vec<String> = all.iter().map(|ns| duration(*ns)).collect();
    match texts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => texts.concat(),
    }
}
