//! Reads the test program's notes (format: subject/book.rs).
//!
//! An unknown line is a mistake in the tests, and panics.

use std::{fs, path::Path};

use crate::book::{Book, ENTRIES, Entry, Row};

impl Book {
    /// Reads the file; a program that wrote nothing has an empty book.
    pub(crate) fn read(path: &Path) -> Self {
        let mut book = Book::default();
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let mut fields = line.split('\t');
            match fields.next() {
                Some("row") => book.rows.push(row(fields)),
                Some("fact") => {
                    let name = fields.next().expect("a fact has a name").to_owned();
                    book.facts.push((name, number(fields.next())));
                }
                other => panic!("a line of the book begins with {other:?}"),
            }
        }
        book
    }

    /// Values of the facts with this name, in the order in which they were written.
    pub(crate) fn facts(&self, name: &str) -> Vec<u64> {
        self.facts.iter().filter(|fact| fact.0 == name).map(|fact| fact.1).collect()
    }

    /// The value of a fact that was written once.
    pub(crate) fn fact(&self, name: &str) -> u64 {
        let values = self.facts(name);
        assert_eq!(values.len(), 1, "the program wrote `{name}` once");
        values[0]
    }

    /// Whether the program noted that this machine does not allow what the case needs.
    pub(crate) fn refused(&self) -> bool {
        !self.facts("refused").is_empty()
    }

    /// The row that the program noted for this phase number.
    pub(crate) fn row(&self, number: u64) -> &Row {
        let row = self.rows.iter().find(|row| row.number == number);
        row.unwrap_or_else(|| panic!("the program booked {number}"))
    }
}

impl Row {
    /// The least and the largest growth of a counter that the phase can have had.
    pub(crate) fn bounds(&self, entry: Entry) -> (u64, u64) {
        let [before, begun, ending, after] = self.readings.map(|reading| reading[entry as usize]);
        (ending - begun, after - before)
    }
}

fn number(field: Option<&str>) -> u64 {
    field.and_then(|field| field.parse().ok()).expect("a number")
}

fn row<'a>(mut fields: impl Iterator<Item = &'a str>) -> Row {
    let mut row =
        Row { number: number(fields.next()), tid: number(fields.next()), readings: [[0; ENTRIES]; 4] };
    for value in row.readings.iter_mut().flatten() {
        *value = number(fields.next());
    }
    row
}
