//! Chunks do not matter, bad input is named with its line, and memory is bounded by a line.

use proptest::prelude::*;
use rstest::rstest;

use super::{Bad, Parser};
use crate::h2o::{
    columns::{MISSING, MISSING_LEVEL},
    error::H2oError,
    flights::Flights,
    schema::{CARRIER, COLUMNS, DISTANCE, YEAR, header},
};

const LINE: &str =
    "1987,10,14,3,741,730,912,849,PS,1451,NA,91,79,NA,23,11,SAN,SFO,447,NA,NA,0,NA,0,NA,NA,NA,NA,NA,YES,YES";

/// Parses all of `text`, in pieces of `piece` bytes.
fn parsed(text: &[u8], piece: usize) -> Result<Parser, H2oError> {
    let mut parser = Parser::new("flights.csv".into());
    for piece in text.chunks(piece) {
        parser.feed(piece)?;
    }
    parser.finish()?;
    Ok(parser)
}

fn with(lines: &[&str]) -> String {
    header() + &lines.join("\n") + "\n"
}

proptest! {
    #[test]
    fn where_chunks_end_does_not_matter(piece in 1_usize..3_000, feeds in any::<bool>()) {
        let mut text = header().into_bytes();
        Flights::new(1).block(0, 200, &mut text);
        if feeds {
            text = String::from_utf8(text).unwrap().replace('\n', "\r\n").into_bytes();
        }
        let (whole, pieces) = (parsed(&text, usize::MAX).unwrap(), parsed(&text, piece).unwrap());
        prop_assert_eq!(whole.columns.rows, 200);
        prop_assert_eq!(&whole.bad, &Bad::default());
        prop_assert_eq!(format!("{:?}", whole.columns), format!("{:?}", pieces.columns));
        prop_assert_eq!(whole.bad, pieces.bad);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..50) {
        let text = [header().as_bytes(), &bytes].concat();
        let parser = parsed(&text, piece).unwrap();
        prop_assert!(parser.columns.rows <= bytes.len());
    }
}

#[test]
fn fields_become_columns() {
    let parser = parsed(with(&[LINE, &LINE.replace("447", "")]).as_bytes(), 7).unwrap();
    let columns = &parser.columns;
    assert_eq!((columns.rows, columns.values.len()), (2, COLUMNS.len()));
    assert_eq!((columns.numbers(YEAR), columns.numbers(DISTANCE)), (&[1987, 1987][..], &[447, MISSING][..]));
    assert_eq!((columns.codes(CARRIER), columns.codes(10)), (&[0, 0][..], &[MISSING_LEVEL; 2][..]));
    assert_eq!(parser.levels[CARRIER].names, ["PS"]);
}

#[test]
fn the_original_columns_are_enough() {
    let cut = |line: &str| line.split(',').take(29).collect::<Vec<_>>().join(",");
    let parser = parsed((cut(&header()) + "\n" + &cut(LINE)).as_bytes(), 9).unwrap();
    assert_eq!((parser.columns.rows, parser.columns.values.len()), (1, 29));
    assert_eq!(parser.bad, Bad::default());
}

#[rstest]
#[case::lines("\n")]
#[case::lines_of_dos("\r\n")]
#[case::with_empty_lines("\n\n")]
fn what_is_bad_is_named_with_its_line(#[case] end: &str) {
    let number = LINE.replace("447", "44x7");
    let level = LINE.as_bytes().iter().map(|byte| if *byte == b'P' { 0xff } else { *byte });
    let lines: [&[u8]; 7] = [
        header().trim_end().as_bytes(),
        LINE.as_bytes(),
        number.as_bytes(),
        b"1987,10",
        b"\"a\nb\"",
        &level.collect::<Vec<u8>>(),
        b"1987,10,14",
    ]
    .map(|line| &*line.to_vec().leak());
    let parser = parsed(&lines.join(end.as_bytes()), 11).unwrap();
    // From the fifth line on, one more line feed lies inside a field.
    let at = |line: usize| 1 + (line - 1) * end.matches('\n').count() + usize::from(line > 5);
    let expected = [
        format!("line {}: `Distance` cannot be read: 44x7", at(3)),
        format!("line {}: 2 fields instead of 31", at(4)),
        format!("line {}: 1 fields instead of 31", at(5)),
        format!("line {}: `UniqueCarrier` cannot be read: \u{fffd}S", at(6)),
        format!("line {}: 3 fields instead of 31, and the file ends there", at(7)),
    ];
    assert_eq!(parser.bad, Bad { rows: 3, fields: 2, first: expected.to_vec() });
    assert_eq!(parser.columns.rows, 3);
}

#[test]
fn only_the_first_few_are_named() {
    let text = header() + &"1,2\n".repeat(1_000);
    let parser = parsed(text.as_bytes(), 100).unwrap();
    assert_eq!((parser.bad.rows, parser.bad.first.len()), (1_000, 8));
}

#[rstest]
#[case::nothing("", "file is empty: flights.csv")]
#[case::lines_only("\n\n", "file is empty: flights.csv")]
#[case::other("a,b\n1,2\n", "column 1 is `a` instead of `Year`: flights.csv")]
#[case::fewer("Year,Month\n", "header has 2 columns instead of 31, or the first 29 of them: flights.csv")]
#[case::data_at_once("1987,10,14\n", "column 1 is `1987` instead of `Year`: flights.csv")]
fn a_file_of_another_kind_is_refused(#[case] text: &str, #[case] expected: &str) {
    let error = parsed(text.as_bytes(), 5).err().expect("it is refused");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_quotation_mark_that_is_never_closed_does_not_take_all_memory() {
    let mut parser = Parser::new("flights.csv".into());
    parser.feed(with(&[LINE, "\"1987"]).as_bytes()).unwrap();
    let (mut fed, sevens) = (0, vec![b'7'; 65_536]);
    let error = loop {
        fed += 1;
        assert!(fed < 100, "six megabytes are one line");
        if let Err(error) = parser.feed(&sevens) {
            break error;
        }
    };
    assert_eq!(error.to_string(), "line 3 is longer than 1 MiB: flights.csv");
    let error = parsed(with(&[LINE, &",".repeat(3 << 20)]).as_bytes(), 4_096).err().expect("it is refused");
    assert!(matches!(error, H2oError::LongLine { line: 3, .. }), "{error}");
}
