//! Reads the record batches of an Arrow stream, as far as the file is complete.
//!
//! Yields the batches of any prefix of the file, and the number of bytes after them that could not be used.
//! Messages are checked before the library gets them: it trusts offsets and panics on those of a damaged
//! file. No memory is reserved for claimed sizes. Independent of the columns.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    time::Instant,
};

use arrow::{
    array::RecordBatch,
    buffer::Buffer,
    ipc::{self, Message, MessageHeader, reader::StreamDecoder, root_as_message},
};

use super::{
    caught::caught,
    limits::{
        BATCH_BYTES, BATCH_ROWS, COLUMNS, Deadline, Fault, Limit, MESSAGE_BYTES, MESSAGE_HEADER_BYTES,
        check_rows,
    },
    opening::disk_bytes,
};
use crate::{guarded::Part, untrusted::Untrusted};

/// The unusable end of a stream: of a file that was being written when its writer died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornEnd {
    /// Bytes after the last whole batch, or after the schema if there is none.
    pub bytes: u64,
    /// What was wrong with it.
    pub reason: Untrusted,
}

/// Where a stream is read from.
pub(super) trait Bytes: Read {
    /// Its current length, including the bytes read already.
    fn length(&self) -> io::Result<u64>;
    /// When to stop reading.
    fn deadline(&self) -> Deadline;
}

impl Bytes for File {
    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn deadline(&self) -> Deadline {
        Deadline::of(disk_bytes(self))
    }
}

/// A file that this process wrote itself.
impl Bytes for Part {
    fn length(&self) -> io::Result<u64> {
        Ok(self.end())
    }

    fn deadline(&self) -> Deadline {
        Deadline::never()
    }
}

impl<B: Bytes + ?Sized> Bytes for Box<B> {
    fn length(&self) -> io::Result<u64> {
        (**self).length()
    }

    fn deadline(&self) -> Deadline {
        (**self).deadline()
    }
}

#[cfg(test)]
impl Bytes for io::Cursor<&[u8]> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.get_ref().len() as u64)
    }

    fn deadline(&self) -> Deadline {
        Deadline::of(self.get_ref().len() as u64)
    }
}

/// The batches of a stream, up to its end or to the first that is not whole.
pub(super) struct Batches<F> {
    file: F,
    decoder: StreamDecoder,
    deadline: Deadline,
    rows: u64,
    /// Memory of the current dictionaries, by their IDs, bytes.
    dictionaries: HashMap<i64, u64>,
    read_bytes: u64,
    whole_bytes: u64,
    ended: bool,
    torn: Option<TornEnd>,
}

/// Why no further message follows.
enum End {
    /// Nothing follows.
    Clean,
    Torn(Untrusted),
    Unreadable(io::Error),
    Beyond(Fault),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Damaged(what) => End::Torn(what),
            Fault::Beyond(..) | Fault::Late(_) => End::Beyond(fault),
        }
    }
}

impl<F: Bytes> Batches<F> {
    pub(super) fn new(file: F) -> Self {
        let (decoder, deadline) = (StreamDecoder::new(), file.deadline());
        let dictionaries = HashMap::new();
        let (read_bytes, whole_bytes, rows) = (0, 0, 0);
        Self {
            file,
            decoder,
            deadline,
            rows,
            dictionaries,
            read_bytes,
            whole_bytes,
            ended: false,
            torn: None,
        }
    }

    /// The limit of reading it counts from this moment on.
    pub(super) fn since(self, begun: Instant) -> Self {
        Self { deadline: self.deadline.since(begun), ..self }
    }

    /// Whether there is time to read on. A large batch is taken in parts, with a check before each.
    pub(super) fn check_time(&self) -> Result<(), Fault> {
        self.deadline.check()
    }

    #[cfg(test)]
    pub(super) fn let_time_pass(&mut self) {
        self.deadline = Deadline::past();
    }

    /// The next batch.
    ///
    /// # Errors
    /// The file cannot be read, or a limit is reached; what is no batch ends the stream ([`Self::torn`]).
    pub(super) fn next(&mut self) -> io::Result<Result<Option<RecordBatch>, Fault>> {
        while !self.ended {
            if let Err(late) = self.deadline.check() {
                self.ended = true;
                return Ok(Err(late));
            }
            let end = match self.message().and_then(|(bytes, header)| self.decode(bytes, header)) {
                Ok(None) => continue,
                Ok(batch) => return Ok(Ok(batch)),
                Err(end) => end,
            };
            self.ended = true;
            let reason = match end {
                // Dictionaries whose batch is missing.
                End::Clean => Untrusted::from("a batch is missing"),
                End::Torn(reason) => reason,
                End::Unreadable(error) => return Err(error),
                End::Beyond(fault) => return Ok(Err(fault)),
            };
            // The rest is not read: it may be a hole of terabytes.
            let bytes = self.file.length()?.max(self.read_bytes) - self.whole_bytes;
            self.torn = (bytes > 0).then_some(TornEnd { bytes, reason });
        }
        Ok(Ok(None))
    }

    /// The unusable end, once the stream has ended.
    pub(super) fn torn(&self) -> Option<&TornEnd> {
        self.torn.as_ref()
    }

    /// Reads one message: marker, length, header, body.
    fn message(&mut self) -> Result<(Vec<u8>, MessageHeader), End> {
        let mut bytes = Vec::new();
        if self.read(&mut bytes, 8)? == 0 {
            return Err(End::Clean);
        }
        let length = match bytes.as_slice() {
            [0xff, 0xff, 0xff, 0xff, length @ ..] => length.try_into().map(u32::from_le_bytes),
            _ => return Err(torn("no message begins here")),
        };
        let length = length.map_err(|_| torn("the file ends inside a message"))?;
        self.check_claim(MESSAGE_HEADER_BYTES, length.into())?;
        self.read_whole(&mut bytes, u64::from(length))?;
        let header_end = bytes.len();
        let body_bytes = message_of(&bytes[8..])?.bodyLength();
        let body_bytes = u64::try_from(body_bytes).map_err(|_| torn("a message of less than nothing"))?;
        self.check_claim(MESSAGE_BYTES, body_bytes)?;
        self.read_whole(&mut bytes, body_bytes)?;
        let (header, body) = bytes.split_at(header_end);
        let message = message_of(&header[8..])?;
        self.check(&message, body)?;
        let header = message.header_type();
        Ok((bytes, header))
    }

    fn decode(&mut self, bytes: Vec<u8>, header: MessageHeader) -> Result<Option<RecordBatch>, End> {
        let mut bytes = Buffer::from(bytes);
        // A message may pass the checks above and still make the library panic: that must not end the
        // program. The decoder is not used again after an error.
        let decoded = caught(|| self.decoder.decode(&mut bytes));
        let batch = decoded
            .ok_or_else(|| torn("the reading library panicked"))?
            .map_err(|error| torn(&error.to_string()))?;
        if header != MessageHeader::DictionaryBatch {
            self.whole_bytes = self.read_bytes;
        }
        Ok(batch)
    }

    /// Checks the claimed length of a message. One that is longer than the rest of the file is torn, whatever
    /// its length.
    fn check_claim(&self, limit: Limit, bytes: u64) -> Result<(), End> {
        let left = self.file.length().map_err(End::Unreadable)?.saturating_sub(self.read_bytes);
        if bytes > left { Err(torn("the file ends inside a message")) } else { Ok(limit.check(bytes)?) }
    }

    /// Checks that everything that a header claims about its body lies inside the body, and within the
    /// limits.
    fn check(&mut self, message: &Message<'_>, body: &[u8]) -> Result<(), End> {
        let outside = || torn("a message points outside itself");
        match message.header_type() {
            MessageHeader::Schema => {
                let fields = message.header_as_schema().and_then(|schema| schema.fields());
                let fields = fields.ok_or_else(outside)?;
                COLUMNS.check(fields.len() as u64)?;
                if !fields.iter().all(|field| is_plain(&field)) {
                    return Err(End::Beyond("a column of a kind that no table has".into()));
                }
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(outside)?;
                let unpacked = unpacked_batch(batch, body)?.ok_or_else(outside)?;
                BATCH_BYTES.check(unpacked.saturating_add(self.dictionaries.values().sum()))?;
                self.rows = self.rows.saturating_add(batch.length().unsigned_abs());
                check_rows(self.rows, self.read_bytes)?;
            }
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch().ok_or_else(outside)?;
                if dictionary.isDelta() {
                    return Err(torn("a dictionary that is added to another one"));
                }
                let batch = dictionary.data().ok_or_else(outside)?;
                let unpacked = unpacked_batch(batch, body)?.ok_or_else(outside)?;
                self.dictionaries.insert(dictionary.id(), unpacked);
                COLUMNS.check(self.dictionaries.len() as u64)?;
                BATCH_BYTES.check(self.dictionaries.values().sum())?;
            }
            _ => return Err(outside()),
        }
        Ok(())
    }

    /// Reads up to `length` bytes more.
    fn read(&mut self, bytes: &mut Vec<u8>, length: u64) -> Result<u64, End> {
        let read = self.file.by_ref().take(length).read_to_end(bytes).map_err(End::Unreadable)? as u64;
        self.read_bytes += read;
        Ok(read)
    }

    fn read_whole(&mut self, bytes: &mut Vec<u8>, length: u64) -> Result<(), End> {
        if self.read(bytes, length)? == length { Ok(()) } else { Err(torn("the file ends inside a message")) }
    }
}

fn torn(reason: &str) -> End {
    End::Torn(Untrusted::told(reason))
}

fn message_of(header: &[u8]) -> Result<Message<'_>, End> {
    root_as_message(header).map_err(|error| torn(&error.to_string()))
}

/// Whether each value has separate bytes, as all of ours do. Those of views may all be the same, and make a
/// small file a large one.
fn is_plain(field: &ipc::Field<'_>) -> bool {
    let is_flat = field.children().is_none_or(|children| children.is_empty());
    is_flat
        && matches!(
            field.type_type(),
            ipc::Type::Int | ipc::Type::Bool | ipc::Type::FloatingPoint | ipc::Type::Utf8
        )
}

/// Size of a batch in memory, or none if it does not lie in the body. Our columns are flat: each has as many
/// values as the batch has rows.
fn unpacked_batch(batch: ipc::RecordBatch<'_>, body: &[u8]) -> Result<Option<u64>, Fault> {
    let nodes = batch.nodes().into_iter().flatten();
    let mut nodes = nodes.map(|node| (node.length(), node.null_count()));
    let buffers = batch.buffers().into_iter().flatten();
    let mut sizes = buffers.map(|buffer| unpacked_bytes(&batch, body, buffer.offset(), buffer.length()));
    let size = sizes.try_fold(0_u64, |sum, size| sum.checked_add(size?));
    let is_flat = batch.length() >= 0
        && nodes.all(|(length, nulls)| length == batch.length() && (0..=length).contains(&nulls));
    BATCH_ROWS.check(batch.length().unsigned_abs())?;
    Ok(size.filter(|_| is_flat))
}

/// Size of a buffer in memory, or none if it does not lie in the body. A compressed buffer begins with its
/// size; -1 marks one that is stored uncompressed.
fn unpacked_bytes(batch: &ipc::RecordBatch<'_>, body: &[u8], offset: i64, length: i64) -> Option<u64> {
    let begin = usize::try_from(offset).ok()?;
    let buffer = body.get(begin..begin.checked_add(usize::try_from(length).ok()?)?)?;
    if batch.compression().is_none() || buffer.is_empty() {
        return Some(buffer.len() as u64);
    }
    match i64::from_le_bytes(buffer.get(..8)?.try_into().ok()?) {
        -1 => Some(buffer.len() as u64 - 8),
        claimed => u64::try_from(claimed).ok(),
    }
}
