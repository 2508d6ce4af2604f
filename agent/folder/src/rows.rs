//! Rows of a table from either form of its file: Parquet once closed, else an Arrow stream.
//!
//! Yields typed rows in bounded memory, a batch at a time. A torn end of a stream ends the rows; damage
//! elsewhere is an error.

use std::{
    collections::VecDeque,
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use arrow::array::RecordBatch;

use super::{
    batches::{Batches, Bytes, TornEnd},
    closed::{BATCH_ROWS, Closed, Empty},
    error::{Error, Result},
    former,
    limits::Fault,
    opening::Place,
    stream,
    table::{self, Column, Mismatch, Table, is_account},
    texts::Words,
};
use crate::untrusted::Untrusted;

/// An iterator over the rows of one table. After an error it is over.
pub struct Rows<R: 'static> {
    table: &'static Table<R>,
    path: PathBuf,
    source: Source,
    /// Columns that are not read, in the order of the table's.
    left_out: Vec<bool>,
    words: Words,
    /// The part of a stream's batch that is still to be decoded; a batch may be large.
    batch: Option<(RecordBatch, Range<usize>)>,
    /// Decoded rows of the last batch still to be given. The room is reused: rows of phases are large.
    decoded: VecDeque<R>,
    given: u64,
}

enum Source {
    Closed(Box<Closed>),
    Stream(Box<Batches<Box<dyn Bytes + Send>>>),
    Over(Option<TornEnd>),
}

impl<R> Rows<R> {
    /// Opens the closed form, or the other one.
    pub(super) fn open(folder: &Place, table: &'static Table<R>) -> Result<Self> {
        Self::open_without(folder, table, |_| false)
    }

    /// The same without these columns: rows have a blank one's values there.
    pub(super) fn open_without(
        folder: &Place,
        table: &'static Table<R>,
        is_unwanted: impl Fn(&Column<R>) -> bool,
    ) -> Result<Self> {
        let mut left_out: Vec<bool> = table.columns.iter().map(is_unwanted).collect();
        let mut is_left_out = |name: &str, empty: Option<Empty>| {
            // What this program does not know it does not read, but it must hear of times that it lacks.
            let Some(index) = table.columns.iter().position(|column| column.name == former::today(name))
            else {
                return !is_account(name);
            };
            left_out[index] |= empty.is_some_and(|empty| table.columns[index].is_blank(empty));
            left_out[index]
        };
        let (closed, stream) = (table::file_name(table), stream::file_name(table));
        let unreadable = |path: PathBuf, source| Error::Read { path, source };
        let (path, source) = match folder.file(&closed) {
            Ok(file) => {
                let path = folder.join(&closed);
                let batches = Closed::open(file, folder.opened(), &mut is_left_out)
                    .map_err(|fault| fault.at(&path, Some(0)))?;
                (path, Source::Closed(Box::new(batches)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = folder.join(&stream);
                let file = folder.file(&stream).map_err(|source| unreadable(path.clone(), source))?;
                let file: Box<dyn Bytes + Send> = Box::new(file);
                (path, Source::Stream(Box::new(Batches::new(file).since(folder.opened()))))
            }
            Err(source) => return Err(unreadable(folder.join(&closed), source)),
        };
        let (words, decoded) = (Words::default(), VecDeque::new());
        Ok(Self { table, path, source, left_out, words, batch: None, decoded, given: 0 })
    }

    /// The rows of a stream that is open; `path` is for messages.
    pub(super) fn of_stream(
        table: &'static Table<R>,
        path: PathBuf,
        stream: impl Bytes + Send + 'static,
    ) -> Self {
        let source = Source::Stream(Box::new(Batches::new(Box::new(stream))));
        let (words, decoded) = (Words::default(), VecDeque::new());
        let left_out = vec![false; table.columns.len()];
        Self { table, path, source, left_out, words, batch: None, decoded, given: 0 }
    }

    /// The unusable end of a stream; none before the last row, or if the stream is complete.
    pub fn torn_end(&self) -> Option<&TornEnd> {
        match &self.source {
            Source::Over(torn) => torn.as_ref(),
            Source::Closed(_) | Source::Stream(_) => None,
        }
    }

    /// Rows given so far.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The file that they come from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(test)]
    pub(super) fn let_time_pass(&mut self) {
        if let Source::Stream(batches) = &mut self.source {
            batches.let_time_pass();
        }
    }

    /// Ends the rows with an error about the file.
    pub(super) fn fail(&mut self, what: &str) -> Error {
        self.source = Source::Over(None);
        self.decoded.clear();
        damaged(&self.path, &what, Some(self.given))
    }

    /// Makes sure that there is a decoded row, see [`Rows::ahead`]; none at the end. After an error it is
    /// over.
    pub(super) fn fill(&mut self) -> Option<Result<()>> {
        while self.decoded.is_empty() {
            match self.next_batch() {
                Ok(true) => {}
                Ok(false) => {
                    if let Source::Stream(batches) = &self.source {
                        self.source = Source::Over(batches.torn().cloned());
                    }
                    return None;
                }
                Err(error) => {
                    self.decoded.clear();
                    self.source = Source::Over(None);
                    return Some(Err(error));
                }
            }
        }
        Some(Ok(()))
    }

    /// Decoded rows that come next.
    pub(super) fn ahead(&self) -> impl Iterator<Item = &R> {
        self.decoded.iter()
    }

    /// Gives the next `rows` of those that are decoded.
    pub(super) fn give(&mut self, rows: usize) -> impl Iterator<Item = R> + '_ {
        self.given += rows as u64;
        self.decoded.drain(..rows)
    }

    /// Decodes the next rows; `false` at the end.
    fn next_batch(&mut self) -> Result<bool> {
        let Some((batch, rows)) = self.next_rows()? else { return Ok(false) };
        let decoded = self.table.decode(
            &batch.slice(rows.start, rows.len()),
            &self.left_out,
            &mut self.words,
            &mut self.decoded,
        );
        decoded.map_err(|mismatch| mismatch.at(&self.path, self.given))?;
        Ok(true)
    }

    /// A batch and which of its rows are next.
    fn next_rows(&mut self) -> Result<Option<(RecordBatch, Range<usize>)>> {
        let (batch, left) = if let Some(batch) = self.batch.take() {
            if let Source::Stream(batches) = &self.source {
                batches.check_time().map_err(|fault| fault.at(&self.path, Some(self.given)))?;
            }
            batch
        } else {
            let batch = match &mut self.source {
                Source::Closed(batches) => batches.next(),
                Source::Stream(batches) => match batches.next() {
                    Ok(batch) => batch,
                    Err(source) => return Err(Error::Read { path: self.path.clone(), source }),
                },
                Source::Over(_) => Ok(None),
            };
            let batch = batch.map_err(|fault| fault.at(&self.path, Some(self.given)))?;
            let Some(batch) = batch else { return Ok(None) };
            if matches!(self.source, Source::Stream(_)) {
                let checked = self.table.check_types(&batch.schema());
                checked.map_err(|mismatch| mismatch.at(&self.path, self.given))?;
            }
            let rows = 0..batch.num_rows();
            (batch, rows)
        };
        let at = left.end.min(left.start + BATCH_ROWS);
        if at < left.end {
            self.batch = Some((batch.clone(), at..left.end));
        }
        Ok(Some((batch, left.start..at)))
    }
}

impl<R> Iterator for Rows<R> {
    type Item = Result<R>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.fill()? {
            return Some(Err(error));
        }
        self.given += 1;
        self.decoded.pop_front().map(Ok)
    }
}

impl Fault {
    /// An error about the file at `path`.
    pub(super) fn at(self, path: &Path, rows_kept: Option<u64>) -> Error {
        match self {
            Fault::Damaged(what) => damaged(path, &what, rows_kept),
            Fault::Beyond(..) | Fault::Late(_) => {
                Error::Beyond { path: path.to_owned(), what: self.to_string() }
            }
        }
    }
}

impl Mismatch {
    /// An error about the file at `path`.
    pub(super) fn at(self, path: &Path, rows_kept: u64) -> Error {
        match self {
            Mismatch::Unknown(column) => Error::Newer {
                path: path.to_owned(),
                found: Untrusted::told(format_args!("column `{column}`")),
                known: "no such account".to_owned(),
            },
            Mismatch::Senseless(what) => damaged(path, &what, Some(rows_kept)),
        }
    }
}

pub(super) fn damaged(path: &Path, what: &dyn std::fmt::Display, rows_kept: Option<u64>) -> Error {
    Error::Damaged { path: path.to_owned(), what: Untrusted::told(what), rows_kept }
}
