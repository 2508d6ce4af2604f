//! CSV of flights, in two chunks: columns of equal length, and counts of what was bad.
#![no_main]

use std::path::PathBuf;

use guestscope_workloads::h2o::reader::Parser;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&cut, text)) = bytes.split_first() else { return };
    let whole = parse(&[text]);
    let (begin, end) = text.split_at(usize::from(cut).min(text.len()));
    let parts = parse(&[begin, end]);
    assert_eq!(whole, parts, "where a file is cut makes no difference");
});

/// Rows, bad rows and bad fields; none if it is refused.
fn parse(parts: &[&[u8]]) -> Option<(usize, u64, u64)> {
    let mut parser = Parser::new(PathBuf::new());
    for part in parts {
        parser.feed(part).ok()?;
    }
    parser.finish().ok()?;
    Some((parser.columns.rows, parser.bad.rows, parser.bad.fields))
}
