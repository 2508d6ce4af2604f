//! From bytes of CSV to columns, chunk by chunk: the incomplete line at the end of a chunk waits for the next
//! one, so memory is bounded by the chunk. Yields columns and errors: rows with another number of fields are
//! left out, fields that are no number are missing; both are counted, the first few named with their lines.
//!
//! csv-core splits the lines. arrow-csv was weighed against it: it gives up a whole batch at the first bad
//! field or short line, which this must count, and brings 49 crates instead of 3.

use std::path::PathBuf;

use csv_core::{ReadRecordResult, Reader};

use super::{
    columns::{Columns, Levels, MISSING, MISSING_LEVEL, Values, whole_number},
    error::H2oError,
    schema::{COLUMNS, ORIGINAL},
};

/// Number of errors kept as text.
const NAMED: usize = 8;
/// Longest line, bytes. One of the real data has about 100; a longer one than this has lost a quotation mark.
const LONGEST: usize = 1 << 20;

/// Rows and fields that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bad {
    /// Rows with another number of fields than the header.
    pub rows: u64,
    /// Fields that could not be read, in all columns together.
    pub fields: u64,
    /// The first few errors, each with its line.
    pub first: Vec<String>,
}

impl Bad {
    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.first.len() < NAMED {
            self.first.push(text());
        }
    }
}

/// Parser state between chunks.
pub struct Parser {
    csv: Reader,
    path: PathBuf,
    /// Fields of the current record, one after the other, and where each ends.
    text: Vec<u8>,
    text_used: usize,
    ends: Vec<usize>,
    ends_used: usize,
    is_header_read: bool,
    pub columns: Columns,
    /// Dictionaries by column; those of numbers stay empty.
    pub levels: Vec<Levels>,
    pub bad: Bad,
}

impl Parser {
    /// `path` is named in errors.
    pub fn new(path: PathBuf) -> Self {
        Self {
            csv: Reader::new(),
            path,
            text: vec![0; 4096],
            text_used: 0,
            ends: vec![0; 64],
            ends_used: 0,
            is_header_read: false,
            columns: Columns::new(0),
            levels: COLUMNS.iter().map(|_| Levels::default()).collect(),
            bad: Bad::default(),
        }
    }

    /// Parses all complete lines of `bytes` into `columns`.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), H2oError> {
        while !bytes.is_empty() {
            let (result, read) = self.step(bytes)?;
            if matches!(result, ReadRecordResult::Record) {
                self.record(bytes.get(read.wrapping_sub(1)).copied())?;
            }
            bytes = &bytes[read..];
        }
        Ok(())
    }

    /// Parses the last line, if it lacks a line feed.
    pub fn finish(&mut self) -> Result<(), H2oError> {
        while !matches!(self.step(&[])?.0, ReadRecordResult::End) {
            self.record(None)?;
        }
        if !self.is_header_read {
            return Err(H2oError::Empty { path: self.path.clone() });
        }
        Ok(())
    }

    fn step(&mut self, bytes: &[u8]) -> Result<(ReadRecordResult, usize), H2oError> {
        let (text, ends) = (&mut self.text[self.text_used..], &mut self.ends[self.ends_used..]);
        let (result, read, text_written, ends_written) = self.csv.read_record(bytes, text, ends);
        self.text_used += text_written;
        self.ends_used += ends_written;
        let (text, ends) = (self.text.len(), self.ends.len());
        if text.max(ends) > LONGEST {
            return Err(H2oError::LongLine { path: self.path.clone(), line: self.line(None) });
        }
        match result {
            ReadRecordResult::OutputFull => self.text.resize(text * 2, 0),
            ReadRecordResult::OutputEndsFull => self.ends.resize(ends * 2, 0),
            ReadRecordResult::InputEmpty | ReadRecordResult::Record | ReadRecordResult::End => {}
        }
        Ok((result, read))
    }

    /// The line on which the current record begins: csv-core counts line feeds, also those inside the record
    /// and the one that ended it.
    fn line(&self, last_byte: Option<u8>) -> u64 {
        let inside = self.text[..self.text_used].split(|byte| *byte == b'\n').count() as u64 - 1;
        self.csv.line() - inside - u64::from(last_byte == Some(b'\n'))
    }

    fn record(&mut self, last_byte: Option<u8>) -> Result<(), H2oError> {
        if self.is_header_read {
            self.row(last_byte);
        } else {
            self.header()?;
        }
        self.text_used = 0;
        self.ends_used = 0;
        Ok(())
    }

    fn header(&mut self) -> Result<(), H2oError> {
        for (number, column) in COLUMNS.iter().enumerate().take(self.ends_used) {
            let (found, expected) = (self.field(number), column.name);
            if found != expected.as_bytes() {
                let found = shown(found);
                return Err(H2oError::Column {
                    path: self.path.clone(),
                    number: number + 1,
                    found,
                    expected,
                });
            }
        }
        if self.ends_used != COLUMNS.len() && self.ends_used != ORIGINAL {
            return Err(H2oError::Header { path: self.path.clone(), found: self.ends_used });
        }
        self.columns = Columns::new(self.ends_used);
        self.is_header_read = true;
        Ok(())
    }

    fn field(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[number]]
    }

    fn row(&mut self, last_byte: Option<u8>) {
        let width = self.columns.values.len();
        if self.ends_used != width {
            let (line, found) = (self.line(last_byte), self.ends_used);
            let at_end = if last_byte.is_none() { ", and the file ends there" } else { "" };
            self.bad.rows += 1;
            self.bad.note(|| format!("line {line}: {found} fields instead of {width}{at_end}"));
            return;
        }
        let mut bad = Vec::new();
        let mut start = 0;
        let ends = self.ends[..width].iter().zip(&mut self.columns.values).zip(&mut self.levels);
        for (column, ((end, values), levels)) in ends.enumerate() {
            let field = &self.text[start..*end];
            start = *end;
            let is_read = match values {
                Values::Numbers(numbers) => push_number(numbers, field),
                Values::Levels(codes) => push_level(codes, levels, field),
            };
            if !is_read {
                bad.push(column);
            }
        }
        self.columns.rows += 1;
        for column in bad {
            let line = self.line(last_byte);
            let (name, field) = (COLUMNS[column].name, shown(self.field(column)));
            self.bad.fields += 1;
            self.bad.note(|| format!("line {line}: `{name}` cannot be read: {field}"));
        }
    }
}

fn is_missing(field: &[u8]) -> bool {
    field.is_empty() || field == b"NA"
}

fn push_number(numbers: &mut Vec<i32>, field: &[u8]) -> bool {
    let number = if is_missing(field) { Some(MISSING) } else { whole_number(field) };
    numbers.push(number.unwrap_or(MISSING));
    number.is_some()
}

fn push_level(codes: &mut Vec<u16>, levels: &mut Levels, field: &[u8]) -> bool {
    let code = if is_missing(field) { Some(MISSING_LEVEL) } else { levels.code(field) };
    codes.push(code.unwrap_or(MISSING_LEVEL));
    code.is_some()
}

/// At most 40 characters of a field, for a one-line message.
fn shown(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let short: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().count() > 40 { short + "..." } else { short }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
