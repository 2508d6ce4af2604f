//! Tables during the run: rows appended to a file as an Arrow IPC stream, each batch complete in itself.
//!
//! Whatever fails, the readable part of the file is exactly the rows counted as written: a failed write is
//! cut off before the next one. It never waits for the disk (no fsync): a crash of the agent loses nothing
//! that was flushed; a power failure loses the seconds that the kernel had not written yet.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt as _},
};

use arrow::{
    datatypes::SchemaRef,
    error::ArrowError,
    ipc::{
        CompressionType, MetadataVersion,
        writer::{IpcWriteOptions, StreamWriter},
    },
};

use super::{
    error::{Error, Result},
    table::Table,
};
use crate::{
    guarded::{self, Directory, Part},
    untrusted::Untrusted,
};

/// Rows that wait before a batch is written without being asked: 0.8 MB of phases. More saves nothing: above
/// 1,000 rows a row's share of the batch's header is below 3 bytes.
const BATCH_ROWS: usize = 2_048;

/// Rows kept while the disk takes none: 6 MB of phases, a part of the agent's 25 MB.
const MOST_WAITING_ROWS: usize = 16_384;

/// Extension of the form that is being written.
pub(super) const EXTENSION: &str = "arrows";

/// Where a stream is written to.
pub(super) trait Storage {
    /// Writes all of `bytes` at `offset`, or some of them and an error.
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Checks whether `bytes` more may be written: some room is kept for other users, and for the closed
    /// folder. A program's marks must use up neither the blocks reserved for root nor all free space.
    ///
    /// # Errors
    /// They may not, or the free space is unknown.
    fn has_room(&self, bytes: u64) -> io::Result<()>;
    /// Cuts the file.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Whether the file has no name any more, so that its content is lost when it is closed.
    fn is_gone(&self) -> bool;
}

impl Storage for File {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }
    fn has_room(&self, bytes: u64) -> io::Result<()> {
        guarded::has_room(self, bytes)
    }
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
    fn is_gone(&self) -> bool {
        self.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }
}

/// A table that is being written.
pub(super) struct Stream<R: 'static, S = File> {
    pub(super) table: &'static Table<R>,
    schema: SchemaRef,
    /// Seen by tests, which put a faulty disk there.
    pub(super) storage: S,
    /// Length of the schema's message, with which every encoded batch begins and only the file's first keeps.
    header_bytes: usize,
    /// Up to here the file holds whole batches.
    whole_bytes: u64,
    /// Bytes of a failed write may lie behind.
    torn: bool,
    /// The last write failed: only `flush` tries again, so that a full disk costs one attempt per second.
    failing: bool,
    waiting: Vec<R>,
    written: u64,
    lost: u64,
    /// Whether the loss of the file's name has been reported.
    told_gone: bool,
}

impl<R> Stream<R> {
    /// Makes the file and writes its schema.
    pub(super) fn create(directory: &Directory, table: &'static Table<R>) -> Result<Self> {
        let file = file_name(table);
        let storage = directory.create(&file).map_err(|source| Error::Write { file, source })?;
        Self::new(storage, table)
    }

    /// The rows written so far, read through the writer's descriptor: renaming the file, or bytes appended by
    /// others, have no effect.
    pub(super) fn part(&self) -> io::Result<Part> {
        Ok(Part::new(self.storage.try_clone()?, 0, self.whole_bytes))
    }

    /// Removes the file, which is no longer needed; another file that has its name by now stays.
    pub(super) fn remove(&self, directory: &Directory) -> io::Result<()> {
        directory.remove_ours(&file_name(self.table), &self.storage)
    }

    /// The closed file has only `kept` rows. The others are lost if this file cannot be read: it has no name
    /// any more, or another file has it.
    pub(super) fn give_up(&mut self, directory: &Directory, kept: u64) {
        if !directory.is_ours(&file_name(self.table), &self.storage) {
            self.lost += self.written.saturating_sub(kept);
            self.written = self.written.min(kept);
        }
    }
}

impl<R, S: Storage> Stream<R, S> {
    pub(super) fn new(mut storage: S, table: &'static Table<R>) -> Result<Self> {
        let schema = table.schema(false);
        let header =
            writer(&schema).and_then(StreamWriter::into_inner).map_err(|error| encode(table, &error))?;
        // Finishing wrote the end of the stream: eight bytes that would stand between schema and batches.
        let header = &header[..header.len() - 8];
        storage.write_all_at(header, 0).map_err(|source| Error::Write { file: file_name(table), source })?;
        Ok(Self {
            table,
            schema,
            storage,
            header_bytes: header.len(),
            whole_bytes: header.len() as u64,
            torn: false,
            failing: false,
            waiting: Vec::new(),
            written: 0,
            lost: 0,
            told_gone: false,
        })
    }

    /// Takes rows that belong together: they are written in one batch or counted as lost, all of them.
    ///
    /// # Errors
    /// The error of the write that this caused; the rows wait for the next one.
    pub(super) fn append(&mut self, rows: impl ExactSizeIterator<Item = R>) -> Result<()> {
        if self.waiting.len() >= MOST_WAITING_ROWS {
            self.lost += rows.len() as u64;
            return Ok(());
        }
        self.waiting.extend(rows);
        if self.waiting.len() < BATCH_ROWS || self.failing { Ok(()) } else { self.flush() }
    }

    /// Whether the last write failed.
    pub(super) const fn is_failing(&self) -> bool {
        self.failing
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// The storage failed: the rows stay and the next call tries again. Once: the file has no name any more,
    /// so its rows are only in the closed table then.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.write_waiting()?;
        if !self.told_gone && self.storage.is_gone() {
            self.told_gone = true;
            return Err(self.write_error(io::Error::new(io::ErrorKind::NotFound, "removed during the run")));
        }
        Ok(())
    }

    fn write_waiting(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let batch = match self.encoded() {
            Ok(batch) => batch,
            Err(error) => {
                self.lost += self.waiting.len() as u64;
                self.waiting.clear();
                return Err(encode(self.table, &error));
            }
        };
        let batch = &batch[self.header_bytes..];
        let written = if self.torn { self.storage.truncate(self.whole_bytes) } else { Ok(()) }
            .and_then(|()| self.storage.has_room(batch.len() as u64))
            .and_then(|()| self.storage.write_all_at(batch, self.whole_bytes));
        self.failing = written.is_err();
        if let Err(error) = written {
            self.torn = self.storage.truncate(self.whole_bytes).is_err();
            return Err(self.write_error(error));
        }
        self.torn = false;
        self.whole_bytes += batch.len() as u64;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Rows in the file.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Rows that will never be there.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Writes what waits for the last time; what cannot be written now is lost. Their memory is given back.
    pub(super) fn close(&mut self) -> Result<()> {
        let flushed = self.flush();
        self.lost += self.waiting.len() as u64;
        self.waiting = Vec::new();
        flushed
    }

    /// The waiting rows as schema and batch. A new writer for each: it sends all dictionaries again (some 200
    /// bytes), so that no batch needs one that was never written.
    fn encoded(&self) -> std::result::Result<Vec<u8>, ArrowError> {
        let mut writer = writer(&self.schema)?;
        writer.write(&self.table.encode(&self.schema, &self.waiting)?)?;
        Ok(std::mem::take(writer.get_mut()))
    }

    fn write_error(&self, source: io::Error) -> Error {
        Error::Write { file: file_name(self.table), source }
    }
}

/// Name of the table's file while it is written.
pub(super) fn file_name<R>(table: &Table<R>) -> String {
    format!("{}.{EXTENSION}", table.name)
}

/// Writes the schema. Buffers are aligned to 8 bytes and not to 64: the padding of 100 buffers would be half
/// of a batch of a quiet second. They are compressed: a phase takes 44 bytes and not 310 for 0.4 us of CPU
/// time, so that the agent's own writes do not queue in front of the program's on a slow or throttled disk.
fn writer(schema: &SchemaRef) -> std::result::Result<StreamWriter<Vec<u8>>, ArrowError> {
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?
        .try_with_compression(Some(CompressionType::ZSTD))?
        .try_with_compression_level(Some(1))?;
    StreamWriter::try_new_with_options(Vec::new(), schema, options)
}

fn encode<R>(table: &Table<R>, error: &ArrowError) -> Error {
    Error::Encode { file: file_name(table), what: Untrusted::told(error) }
}
