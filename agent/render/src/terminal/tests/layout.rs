//! Invariants of all text: width, safety, numbers of three digits, a style decided in one place.
//!
//! Random names and times; no snapshots.

use std::path::PathBuf;

use guestscope_contract::Account;
use proptest::prelude::*;
use rstest::rstest;

use super::fixtures::{facts, is_safe, lossy, summary_of, without_escapes};
use crate::{
    analyze::{
        LiveProgress,
        samples::{Sample, Step, renamed},
    },
    phase::Request,
    terminal::{RunFacts, Style, bar, page, progress, render_summary, render_summary_json, text, units},
};

#[rstest]
#[case::nothing_yet(LiveProgress::default(), 0, "  0 requests  3.10 s")]
#[case::running(LiveProgress { requests: 1_234, warmups: 0, rate_per_s: 16.1 }, 0, "  1,234 requests  16.1/s  3.10 s")]
#[case::losing(LiveProgress { requests: 1, warmups: 3, rate_per_s: 0.0 }, 12, "  1 request after 3 warm-ups  3.10 s  12 lost")]
fn progress_line(#[case] progress: LiveProgress, #[case] lost: u64, #[case] expected: &str) {
    assert_eq!(progress::line(&progress, "3.10 s", lost), expected);
}

#[rstest]
#[case(0, "0 ns")]
#[case(999, "999 ns")]
#[case(1_000, "1.00 us")]
#[case(9_994, "9.99 us")]
#[case(9_995, "10.0 us")]
#[case(99_949, "99.9 us")]
#[case(99_950, "100 us")]
#[case(999_499, "999 us")]
#[case(999_500, "1.00 ms")]
#[case(61_234_567, "61.2 ms")]
#[case(12_400_000_000, "12.4 s")]
#[case(999_500_000_000, "1,000 s")]
#[case(9_999_999_000_000_000, "9,999,999 s")]
#[case(u64::MAX, "1.84e10 s")]
fn durations_have_three_digits(#[case] ns: u64, #[case] expected: &str) {
    assert_eq!(units::duration(ns), expected);
}

#[rstest]
#[case(0.0, "0 %")]
#[case(0.000_4, "<0.1 %")]
#[case(0.098, "9.8 %")]
#[case(0.999_4, "99.9 %")]
#[case(0.999_6, "100 %")]
#[case(1.0, "100 %")]
#[case(1.5, "150.0 %")]
fn shares(#[case] share: f64, #[case] expected: &str) {
    assert_eq!(units::percent(share), expected);
}

#[rstest]
#[case(0, 5, "0")]
#[case(1, 1_000, "<0.01")]
#[case(21, 100, "0.21")]
#[case(41, 10, "4.10")]
#[case(5_408, 1, "5,408")]
fn means(#[case] sum: u128, #[case] count: u64, #[case] expected: &str) {
    assert_eq!(units::mean(sum, count), expected);
}

#[rstest]
#[case::terminal(true, Some(90), &[("TERM", "xterm"), ("LANG", "C.UTF-8")], Style { width: 89, color: true, unicode: true })]
#[case::file(false, None, &[("TERM", "xterm"), ("LANG", "C.UTF-8")], Style { width: 100, color: false, unicode: true })]
#[case::no_color(true, Some(200), &[("TERM", "xterm"), ("NO_COLOR", "1")], Style { width: 120, color: false, unicode: false })]
#[case::empty_no_color(true, Some(100), &[("TERM", "xterm"), ("NO_COLOR", "")], Style { width: 99, color: true, unicode: false })]
#[case::dumb(true, Some(80), &[("TERM", "dumb"), ("LANG", "en_US.utf8")], Style { width: 79, color: false, unicode: false })]
#[case::no_term(true, Some(20), &[("LC_ALL", "C"), ("LANG", "C.UTF-8")], Style { width: 60, color: false, unicode: false })]
#[case::columns(false, None, &[("COLUMNS", "72")], Style { width: 71, color: false, unicode: false })]
#[case::no_columns(false, None, &[("COLUMNS", "0")], Style { width: 100, color: false, unicode: false })]
fn style_is_decided_in_one_place(
    #[case] is_terminal: bool,
    #[case] columns: Option<usize>,
    #[case] variables: &[(&str, &str)],
    #[case] expected: Style,
) {
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    assert_eq!(Style::decide(is_terminal, columns, variable), expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_names_and_times_keep_the_layout(
        names in proptest::collection::vec(any::<String>(), 1..5),
        times in proptest::collection::vec((0..guestscope_contract::ACCOUNTS, 0u64..1 << 44), 1..30),
        number in any::<u32>(),
        width in 60usize..=120,
        unicode in any::<bool>(),
    ) {
        let names: Vec<&'static str> = names.into_iter().map(|name| &*name.leak()).collect();
        let requests: Vec<Request> = times.iter().enumerate().map(|(index, &(account, ns))| {
            let spend = Step::Spend(Account::ALL[account], ns);
            let steps = vec![Step::Nest(names[index % names.len()], vec![spend.clone()]), spend];
            let number = u64::from(number) + index as u64;
            renamed(Sample::new(number, number * 1_000, steps).build(), names[index % 2 % names.len()])
        }).collect();
        let mut health = lossy();
        health.export.last_error = Some(names[0].to_owned());
        health.hooks[1].remedy = Some(names[0].to_owned());
        let facts = RunFacts { folder: Some(PathBuf::from(names[0])), service: names[0].to_owned(), command: vec![names[0].to_owned()], ..facts() };
        let style = Style { width, color: false, unicode };
        let text = render_summary(&summary_of(&requests), &health, &facts, style);
        prop_assert!(is_safe(&text));
        for line in text.lines() {
            prop_assert!(text::width(line) <= width, "{} columns: {}", width, line);
            prop_assert!(unicode || line.is_ascii());
        }
        let colored = render_summary(&summary_of(&requests), &health, &facts, Style { color: true, ..style });
        prop_assert_eq!(without_escapes(&colored), text);
        let json = render_summary_json(&summary_of(&requests), &health, &facts);
        prop_assert!(is_safe(&json) && serde_json::from_str::<serde_json::Value>(&json).is_ok());
    }

    #[test]
    fn a_bar_is_as_wide_as_asked(times in proptest::collection::vec(any::<u64>(), 13), columns in 1usize..60) {
        let mut sums = crate::analyze::Sums::default();
        for (sum, ns) in sums.time_mut().zip(&times) {
            *sum = u128::from(*ns);
        }
        let width: usize = bar::bar(&sums, columns, false).iter().map(page::Piece::width).sum();
        prop_assert_eq!(width, if sums.total_ns() == 0 { 0 } else { columns });
    }
}
