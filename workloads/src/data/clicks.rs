//! Click records in the format of Criteo's Kaggle files: a line of 40 columns separated by tabs: whether it
//! was clicked, 13 counts, 26 categories of 8 hexadecimal digits, any of which may be missing. Yields made
//! files of such lines, and the features of a line: logarithms of the counts, and for each category a row of
//! its table.

use std::fmt::Write as _;

use super::random::Random;
use crate::{
    digest::Digest,
    memory::{self, NoRoom},
};

/// Counts in a line.
pub const COUNTS: usize = 13;
/// Categories in a line, one for each table.
pub const CATEGORIES: usize = 26;
/// Goes up when the same seed gives other lines than before.
pub const GENERATOR_VERSION: u64 = 1;
/// Goes up when the same line gives other features than before.
pub const PREPARATION_VERSION: u64 = 1;

/// Pairs of a user and an item in one sample, as in MLPerf, where a file gives the frequency of each number;
/// here each is as likely.
const FEWEST_PAIRS: u64 = 100;
const MOST_PAIRS: u64 = 700;

/// Different values of a category that are drawn, whatever its table holds.
const VALUES: f32 = 1e7;

/// The content of file number `place`: 100 to 700 lines. Small counts and few values of a category are by far
/// the most frequent, one in eight is missing.
pub fn file(seed: u64, place: u64) -> Vec<u8> {
    let mut random = Random::new(seed, place);
    let pairs = FEWEST_PAIRS + random.u64() % (MOST_PAIRS - FEWEST_PAIRS + 1);
    let mut text = String::new();
    for _ in 0..pairs {
        line(&mut random, &mut text);
    }
    text.into_bytes()
}

fn line(random: &mut Random, text: &mut String) {
    text.push(if random.u64().is_multiple_of(4) { '1' } else { '0' });
    for _ in 0..COUNTS {
        text.push('\t');
        if !random.u64().is_multiple_of(8) {
            let share = random.uniform(0.0, 1.0);
            let share = share * share;
            // The least of Criteo's counts is -3.
            text.push_str(&((share * share * 2003.0) as i32 - 3).to_string());
        }
    }
    for category in 0..CATEGORIES {
        text.push('\t');
        if !random.u64().is_multiple_of(8) {
            let share = random.uniform(0.0, 1.0);
            let value = (share * share * share * VALUES) as u64;
            let mut name = Digest::default();
            name.u64(category as u64).u64(value);
            // Writing to a String cannot fail.
            let _ = write!(text, "{:08x}", name.value() >> 32);
        }
    }
    text.push('\n');
}

/// Why a line gives no features.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("{0} columns instead of 40, or 39 without the first")]
    Columns(usize),
    #[error("no count in column {column}: {text}")]
    Count { column: usize, text: String },
}

/// Inputs of the model: of each line in turn 13 numbers, and for each category the row in its table.
#[derive(Debug, Default, PartialEq)]
pub struct Features {
    /// `counts[line * 13 + column]`.
    pub counts: Vec<f32>,
    /// `rows[category][line]`.
    pub rows: [Vec<i64>; CATEGORIES],
}

impl Features {
    pub fn clear(&mut self) {
        self.counts.clear();
        for rows in &mut self.rows {
            rows.clear();
        }
    }

    /// Reserves room for `lines` more: `push` alone would abort the process if there is none.
    pub fn reserve(&mut self, lines: usize) -> Result<(), NoRoom> {
        let taken = self.counts.capacity().saturating_sub(self.counts.len()) / COUNTS;
        if taken < lines {
            // By doubling, as `push` would.
            let more = lines.max(self.counts.len() / COUNTS);
            memory::reserve(&mut self.counts, more * COUNTS)?;
            self.rows.iter_mut().try_for_each(|rows| memory::reserve(rows, more))?;
        }
        Ok(())
    }

    /// Adds all lines of a text, with tables of that many rows; gives their number. If one line gives no
    /// features, none is added.
    pub fn push_all(&mut self, text: &str, tables: &[i64; CATEGORIES]) -> Result<usize, String> {
        let before = self.counts.len() / COUNTS;
        let mut lines = text.lines().zip(1..);
        let pushed = lines.try_for_each(|(line, number)| {
            self.push(line, tables).map_err(|error| format!("line {number}: {error}"))
        });
        if pushed.is_err() {
            self.counts.truncate(before * COUNTS);
            for rows in &mut self.rows {
                rows.truncate(before);
            }
        }
        pushed?;
        match self.counts.len() / COUNTS - before {
            0 => Err("it is empty".to_owned()),
            lines => Ok(lines),
        }
    }

    /// Adds a line.
    pub fn push(&mut self, line: &str, tables: &[i64; CATEGORIES]) -> Result<(), LineError> {
        let columns = line.split('\t').count();
        let labels = match columns {
            40 => 1,
            39 => 0,
            _ => return Err(LineError::Columns(columns)),
        };
        for (place, column) in line.split('\t').enumerate().skip(labels) {
            match place - labels {
                count if count < COUNTS => {
                    let wrong = || LineError::Count { column: place + 1, text: column.to_owned() };
                    let number: i64 =
                        if column.is_empty() { 0 } else { column.parse().map_err(|_| wrong())? };
                    self.counts.push((number.max(0) as f32).ln_1p());
                }
                category => {
                    let category = category - COUNTS;
                    let mut hash = Digest::default();
                    hash.bytes(column.as_bytes());
                    let row = hash.value() % tables[category].unsigned_abs();
                    self.rows[category].push(row.cast_signed());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CATEGORIES, COUNTS, Features, LineError, file};

    #[test]
    fn a_text_is_added_whole_or_not_at_all() {
        let good = String::from_utf8(file(1, 2)).unwrap();
        let mut features = Features::default();
        let lines = features.push_all(&good, &[10; CATEGORIES]).unwrap();
        let before = (features.counts.clone(), features.rows.clone());
        // A whole line, and one that ends in its counts.
        let broken = format!("{}\n1\t2\t3", good.lines().next().unwrap());
        let half = format!(
            "{}\n{}",
            good.lines().next().unwrap(),
            good.lines().next().unwrap().replacen('\t', "\tx", 3)
        );
        for (text, reason) in [
            (broken.as_str(), "line 2: 3 columns instead of 40, or 39 without the first"),
            (half.as_str(), "line 2: no count in column 2"),
            ("", "it is empty"),
        ] {
            let error = features.push_all(text, &[10; CATEGORIES]).unwrap_err();
            assert!(error.starts_with(reason), "{error}");
            assert_eq!((&features.counts, &features.rows), (&before.0, &before.1));
        }
        assert_eq!((features.counts.len(), features.rows[0].len()), (lines * COUNTS, lines));
    }

    #[test]
    fn a_seed_and_a_place_decide_a_file() {
        assert_eq!(file(1, 2), file(1, 2));
        assert_ne!(file(1, 2), file(1, 3));
        assert_ne!(file(1, 2), file(2, 2));
        let lengths: Vec<usize> =
            (0..50).map(|place| String::from_utf8(file(1, place)).unwrap().lines().count()).collect();
        assert!(lengths.iter().all(|lines| (100..=700).contains(lines)), "{lengths:?}");
        assert!(lengths.iter().any(|lines| *lines < 200) && lengths.iter().any(|lines| *lines > 600));
    }

    #[test]
    fn a_line_gives_logarithms_and_rows() {
        let mut line = "1\t5\t-2\t\t100".to_owned();
        line.push_str(&"\t0".repeat(COUNTS - 4));
        line.push_str("\t68fd1e64\t80e26c9b");
        line.push_str(&"\t".repeat(CATEGORIES - 2));
        let mut features = Features::default();
        features.push(&line, &[1460; CATEGORIES]).unwrap();
        // ln 6 and ln 101; a negative count and none are zero.
        let near = |value: f32, expected: f32| (value - expected).abs() < 1e-6;
        assert!(near(features.counts[0], 1.791_759_5) && near(features.counts[3], 4.615_120_4));
        assert_eq!(features.counts[1..3], [0.0, 0.0]);
        // FNV-1a, computed once in Python, modulo the table.
        assert_eq!((features.rows[0][0], features.rows[1][0]), (1361, 734));
        // The offset of FNV-1a, 14695981039346656037, modulo 1460: a missing category has a row of its own.
        assert_eq!(features.rows[2][0], 757);
        // Without its first column, as in the file to be tested on.
        let mut same = Features::default();
        same.push(line.strip_prefix("1\t").unwrap(), &[1460; CATEGORIES]).unwrap();
        assert_eq!(same, features);
    }

    #[test]
    fn what_is_no_record_is_named() {
        let mut features = Features::default();
        assert_eq!(features.push("1\t2\t3", &[10; CATEGORIES]), Err(LineError::Columns(3)));
        let line = format!("1\tmany{}", "\t".repeat(38));
        let error = features.push(&line, &[10; CATEGORIES]).unwrap_err();
        assert_eq!(error.to_string(), "no count in column 2: many");
    }

    proptest! {
        #[test]
        fn made_lines_give_rows_that_are_there(seed in any::<u64>(), place in 0_u64..1000, size in 1_i64..100_000) {
            let mut features = Features::default();
            let tables = [size; CATEGORIES];
            let text = String::from_utf8(file(seed, place)).unwrap();
            for line in text.lines() {
                features.push(line, &tables).unwrap();
            }
            let lines = text.lines().count();
            prop_assert_eq!(features.counts.len(), lines * COUNTS);
            prop_assert!(features.counts.iter().all(|count| (0.0..8.0).contains(count)));
            for rows in &features.rows {
                prop_assert_eq!(rows.len(), lines);
                prop_assert!(rows.iter().all(|row| (0..size).contains(row)));
            }
        }
    }
}
