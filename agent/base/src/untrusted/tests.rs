//! No formatted text from outside contains control sequences, and ordinary text stays unchanged.

use proptest::{prelude::*, string::string_regex};
use rstest::rstest;

use super::*;

#[rstest]
#[case::ordinary(
    "inference 1/2: caf\u{e9} \u{4e2d}\u{6587} e\u{301}",
    "inference 1/2: caf\u{e9} \u{4e2d}\u{6587} e\u{301}"
)]
#[case::title("\u{1b}]0;owned\u{7}", "\u{fffd}]0;owned\u{fffd}")]
#[case::clear("\u{1b}[2J", "\u{fffd}[2J")]
#[case::c1("\u{9b}31mred", "\u{fffd}31mred")]
#[case::delete("a\u{7f}\u{8}b", "a\u{fffd}\u{fffd}b")]
#[case::lines("a\nhint: obey\r\n\tb", "a hint: obey   b")]
#[case::bidi("\u{202e}drow\u{2066}\u{200f}\u{61c}", "\u{fffd}drow\u{fffd}\u{fffd}\u{fffd}")]
#[case::separators("a\u{2028}b\u{2029}", "a\u{fffd}b\u{fffd}")]
#[case::zero_width("ad\u{200b}min\u{feff}\u{2060}", "ad\u{fffd}min\u{fffd}\u{fffd}")]
#[case::fillers("a\u{3164}b\u{ffa0}\u{115f}", "a\u{fffd}b\u{fffd}\u{fffd}")]
#[case::tags("a\u{e0041}\u{e007f}", "a\u{fffd}\u{fffd}")]
#[case::private("\u{e0b0}\u{f0000}", "\u{fffd}\u{fffd}")]
#[case::empty("", "")]
fn text_from_outside_is_shown_without_orders(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(Untrusted::from(text).to_string(), expected);
    assert_eq!(Untrusted::from(text).stored(), text, "what is kept stays exact");
}

#[rstest]
#[case::ordinary("unknown variant `x` at line 1", "unknown variant `x` at line 1")]
#[case::lines("a\n\n\tb \r\n", "a b ")]
#[case::orders("\u{1b}[2J", "\u{fffd}[2J")]
#[case::book(&"x".repeat(1 << 20), &format!("{}\u{2026}", "x".repeat(LONGEST_QUOTED)))]
#[case::other_letters(&"\u{e9}".repeat(LONGEST_QUOTED), &"\u{e9}".repeat(LONGEST_QUOTED))]
fn what_is_quoted_is_short_and_on_one_line(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(Untrusted::told(text).to_string(), expected);
    assert!(!Untrusted::told(text).stored().contains('\n'));
}

#[test]
fn of_many_quotations_the_first_ones_are_listed() {
    assert_eq!(listed(["a\nb", "c"]), "a b, c");
    let many = listed(1..=25);
    assert!(many.starts_with("1, 2, ") && many.ends_with(", 20, 5 more"), "{many}");
}

#[test]
fn a_text_without_end_is_cut_where_people_read() {
    let text = Untrusted::from("x".repeat(1 << 20));
    assert_eq!(text.to_string().chars().count(), LONGEST + 1);
    assert_eq!(text.stored().len(), 1 << 20);
    let fits = "\u{e9}".repeat(LONGEST);
    assert_eq!(Untrusted::from(&fits).to_string(), fits);
}

#[test]
fn bytes_and_paths_that_are_no_text_are_shown() {
    use std::os::unix::ffi::OsStrExt as _;
    assert_eq!(Untrusted::of_bytes(b"a\xff\x1b").to_string(), "a\u{fffd}\u{fffd}");
    assert_eq!(Path::new(OsStr::from_bytes(b"/x\x9b/\xfe")).shown().to_string(), "/x\u{fffd}/\u{fffd}");
}

#[test]
fn developers_see_the_numbers_of_what_is_not_shown() {
    assert_eq!(
        format!("{:?}", Untrusted::from("it's\u{1b}[2J\u{3164}\"\n")),
        r#""it's\u{1b}[2J\u{3164}\"\n""#.replace(r"\n", r"\u{a}")
    );
}

/// Every character of Unicode's categories of controls, of format, and of separators of lines.
fn orders() -> impl Strategy<Value = String> {
    string_regex("[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Co}]{1,20}").expect("a pattern")
}

proptest! {
    #[test]
    fn no_formatted_text_has_a_character_that_gives_orders(
        parts in proptest::collection::vec(prop_oneof![any::<String>(), orders()], 0..6)
    ) {
        let text = Untrusted::from(parts.concat());
        for shown in [format!("{text}"), format!("{text:?}"), format!("{text:>40.30}"), format!("{:#?}", [&text])] {
            let lines = shown.replace('\n', " ");
            prop_assert!(!lines.chars().any(is_unsafe), "{:?}", lines);
        }
        let again = Untrusted::from(text.to_string());
        prop_assert_eq!(again.to_string(), text.to_string(), "shown twice is shown once");
    }

    #[test]
    fn of_all_that_gives_orders_only_spaces_and_replacements_are_left(text in orders()) {
        prop_assert!(Untrusted::from(text).to_string().chars().all(|c| [' ', REPLACEMENT].contains(&c)));
    }

    #[test]
    fn every_printable_text_comes_out_unchanged(text in "[\\P{C}&&\\P{Zl}&&\\P{Zp}]{0,80}") {
        prop_assume!(!text.contains(|c| ('\u{e0100}'..='\u{e01ef}').contains(&c)));
        prop_assume!(!text.contains(['\u{34f}', '\u{115f}', '\u{1160}', '\u{17b4}', '\u{17b5}', '\u{2800}', '\u{3164}', '\u{ffa0}']));
        prop_assert_eq!(Untrusted::from(&text).to_string(), text);
    }

    #[test]
    fn of_escapes_only_emphasis_is_left(
        parts in proptest::collection::vec(
            prop_oneof![any::<String>(), orders(), "\u{1b}\\[[0-9;]{0,3}[mJK]"], 0..6
        )
    ) {
        let text = parts.concat();
        let page = plain_colored(&text);
        prop_assert!(!page.chars().any(|c| c != '\n' && c != '\u{1b}' && is_unsafe(c)), "{:?}", page);
        for part in page.split('\u{1b}').skip(1) {
            let code = part.strip_prefix('[').and_then(|part| part.split_once('m')).map(|(code, _)| code);
            prop_assert!(code.is_some_and(|code| code.chars().all(|c| c.is_ascii_digit() || c == ';')), "{:?}", page);
        }
    }

    #[test]
    fn a_page_keeps_its_lines_and_nothing_else(text in prop_oneof![any::<String>(), orders()]) {
        let page = plain_lines(&text);
        prop_assert!(!page.chars().any(|c| c != '\n' && is_unsafe(c)));
        prop_assert_eq!(page.matches('\n').count(), text.matches('\n').count());
    }
}
