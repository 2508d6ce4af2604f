//! Parsed rows, column by column: whole numbers, and codes of texts with their dictionaries. Yields the
//! content of a chunk; it knows no file and no line.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use super::schema::{COLUMNS, Kind};

/// Value of a missing number.
pub const MISSING: i32 = i32::MIN;
/// Value of a missing text.
pub const MISSING_LEVEL: u16 = u16::MAX;

/// The values of one column.
#[derive(Debug)]
pub enum Values {
    Numbers(Vec<i32>),
    Levels(Vec<u16>),
}

/// The columns of a chunk.
#[derive(Debug)]
pub struct Columns {
    pub rows: usize,
    pub values: Vec<Values>,
}

impl Columns {
    /// The first `width` columns of the schema, without rows.
    pub fn new(width: usize) -> Self {
        let values = COLUMNS[..width].iter().map(|column| match column.kind {
            Kind::Number => Values::Numbers(Vec::new()),
            Kind::Level => Values::Levels(Vec::new()),
        });
        Self { rows: 0, values: values.collect() }
    }

    /// Forgets the rows and keeps their memory for the next chunk.
    pub fn clear(&mut self) {
        self.rows = 0;
        for values in &mut self.values {
            match values {
                Values::Numbers(numbers) => numbers.clear(),
                Values::Levels(codes) => codes.clear(),
            }
        }
    }

    /// Numbers of the column at this place; empty if it holds texts.
    pub fn numbers(&self, column: usize) -> &[i32] {
        match self.values.get(column) {
            Some(Values::Numbers(numbers)) => numbers,
            Some(Values::Levels(_)) | None => &[],
        }
    }

    /// Codes of the column at this place; empty if it holds numbers.
    pub fn codes(&self, column: usize) -> &[u16] {
        match self.values.get(column) {
            Some(Values::Levels(codes)) => codes,
            Some(Values::Numbers(_)) | None => &[],
        }
    }
}

/// Longest text taken as a name, bytes; those of the real data have 6. So 65,535 of them take 4 MB.
const LONGEST_NAME: usize = 64;

/// Texts of a column, numbered in order of appearance; at most 65,535: the real data has 14,000 tail numbers.
#[derive(Debug, Default)]
pub struct Levels {
    pub names: Vec<String>,
    codes: HashMap<Box<[u8]>, u16, BuildHasherDefault<Fnv>>,
}

impl Levels {
    /// The code of a text, new or known. None if there are too many, or it is no name: too long, not UTF-8.
    pub fn code(&mut self, text: &[u8]) -> Option<u16> {
        if let Some(code) = self.codes.get(text) {
            return Some(*code);
        }
        if text.len() > LONGEST_NAME {
            return None;
        }
        let code = u16::try_from(self.names.len()).ok().filter(|code| *code != MISSING_LEVEL)?;
        self.names.push(std::str::from_utf8(text).ok()?.to_owned());
        self.codes.insert(text.into(), code);
        Some(code)
    }
}

/// FNV-1a, for keys of a few bytes five times as fast as the standard library's hash; the file is the user's
/// own, so nobody attacks the table.
#[derive(Clone, Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn write_usize(&mut self, length: usize) {
        self.0 = (self.0 ^ length as u64).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Parses a whole number of at most nine digits.
pub fn whole_number(field: &[u8]) -> Option<i32> {
    let (negative, digits) = match field {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    let mut number = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + i32::from(digit - b'0');
    }
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Levels, MISSING_LEVEL, whole_number};

    proptest! {
        #[test]
        fn numbers_are_read_as_the_standard_library_reads_them(text in "-?[0-9]{0,11}|[ -~]{0,4}") {
            let expected = text.parse::<i32>().ok().filter(|_| !text.starts_with('+'));
            let short = text.trim_start_matches('-').len() <= 9;
            prop_assert_eq!(whole_number(text.as_bytes()), expected.filter(|_| short));
        }
    }

    #[test]
    fn a_text_keeps_its_code() {
        let mut levels = Levels::default();
        let codes = ["UA", "AA", "UA", ""].map(|text| levels.code(text.as_bytes()));
        assert_eq!(codes, [Some(0), Some(1), Some(0), Some(2)]);
        assert_eq!(levels.names, ["UA", "AA", ""]);
        assert_eq!(levels.code(b"\xff"), None);
        assert_eq!(levels.code(&[b'x'; 65]), None);
        assert_eq!(levels.names.len(), 3);
        assert_eq!(levels.code(&[b'x'; 64]), Some(3));
    }

    #[test]
    fn a_column_cannot_have_more_texts_than_codes() {
        let mut levels = Levels::default();
        for number in 0..u32::from(MISSING_LEVEL) {
            assert!(levels.code(number.to_string().as_bytes()).is_some());
        }
        assert_eq!(levels.code(b"one more"), None);
        assert_eq!(levels.code(b"17"), Some(17));
    }
}
