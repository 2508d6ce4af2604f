//! Reads a stream back, message by message, as far as it is whole.
//!
//! Yields its record batches from any prefix of the file, and how many bytes behind them could not be used. Messages
//! are checked before the library sees them: it takes offsets on trust and panics on those of a damaged file. Nothing is
//! reserved that the file only claims to hold. It knows no columns.

use std::{
    io::{self, Read},
    panic::{AssertUnwindSafe, catch_unwind},
};

use arrow::{
    array::RecordBatch,
    buffer::Buffer,
    ipc::{self, Message, MessageHeader, reader::StreamDecoder, root_as_message},
};

/// Most memory that one batch may claim: a request of two million phases.
const MOST_UNPACKED_BYTES: u64 = 1 << 30;

/// What a stream's reader could not use: the end of a file that was being written when its writer died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornEnd {
    /// Bytes after the last whole batch, or after the schema if there is none.
    pub bytes: u64,
    /// What was wrong there.
    pub reason: String,
}

/// The batches of a stream, up to its end or to the first that is not whole.
pub(super) struct Batches<F> {
    file: F,
    decoder: StreamDecoder,
    read_bytes: u64,
    whole_bytes: u64,
    ended: bool,
    torn: Option<TornEnd>,
}

/// Why there is no further message.
enum End {
    /// Nothing follows.
    Clean,
    Torn(String),
    Unreadable(io::Error),
}

impl<F: Read> Batches<F> {
    pub(super) fn new(file: F) -> Self {
        let decoder = StreamDecoder::new();
        Self { file, decoder, read_bytes: 0, whole_bytes: 0, ended: false, torn: None }
    }

    /// The next batch.
    ///
    /// # Errors
    /// Of reading only: what is no batch ends the stream and is told by [`Self::torn`].
    pub(super) fn next(&mut self) -> io::Result<Option<RecordBatch>> {
        while !self.ended {
            let end = match self.message().and_then(|(bytes, header)| self.decode(bytes, header)) {
                Ok(None) => continue,
                Ok(batch) => return Ok(batch),
                Err(end) => end,
            };
            self.ended = true;
            let reason = match end {
                // Dictionaries whose batch is missing.
                End::Clean => "a batch is missing".to_owned(),
                End::Torn(reason) => reason,
                End::Unreadable(error) => return Err(error),
            };
            self.read_bytes += io::copy(&mut self.file, &mut io::sink())?;
            let bytes = self.read_bytes - self.whole_bytes;
            self.torn = (bytes > 0).then_some(TornEnd { bytes, reason });
        }
        Ok(None)
    }

    /// What was not whole, once the stream has ended.
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
        self.read_whole(&mut bytes, u64::from(length))?;
        let header_end = bytes.len();
        let body_bytes = message_of(&bytes[8..])?.bodyLength();
        let body_bytes = u64::try_from(body_bytes).map_err(|_| torn("a message of less than nothing"))?;
        self.read_whole(&mut bytes, body_bytes)?;
        let (header, body) = bytes.split_at(header_end);
        let message = message_of(&header[8..])?;
        if !is_consistent(&message, body) {
            return Err(torn("a message points outside itself"));
        }
        let header = message.header_type();
        Ok((bytes, header))
    }

    fn decode(&mut self, bytes: Vec<u8>, header: MessageHeader) -> Result<Option<RecordBatch>, End> {
        let mut bytes = Buffer::from(bytes);
        // What the checks above let through and the library still does not survive must not end the program. The
        // decoder is not used again after an error.
        let decoded = catch_unwind(AssertUnwindSafe(|| self.decoder.decode(&mut bytes)));
        let batch = decoded
            .map_err(|_| torn("the reading library panicked"))?
            .map_err(|error| torn(&error.to_string()))?;
        if header != MessageHeader::DictionaryBatch {
            self.whole_bytes = self.read_bytes;
        }
        Ok(batch)
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
    End::Torn(reason.to_owned())
}

fn message_of(header: &[u8]) -> Result<Message<'_>, End> {
    root_as_message(header).map_err(|error| torn(&error.to_string()))
}

/// All that the header claims about the body lies inside the body. Our columns are flat: each has as many values as
/// the batch has rows.
fn is_consistent(message: &Message<'_>, body: &[u8]) -> bool {
    let batch_fits = |batch: ipc::RecordBatch<'_>| {
        let nodes = batch.nodes().into_iter().flatten();
        let mut nodes = nodes.map(|node| (node.length(), node.null_count()));
        let buffers = batch.buffers().into_iter().flatten();
        let sizes = buffers.map(|buffer| unpacked_bytes(&batch, body, buffer.offset(), buffer.length()));
        let size = sizes.sum::<Option<u64>>();
        batch.length() >= 0
            && nodes.all(|(length, nulls)| length == batch.length() && (0..=length).contains(&nulls))
            && size.is_some_and(|bytes| bytes <= MOST_UNPACKED_BYTES)
    };
    match message.header_type() {
        MessageHeader::Schema => message.header_as_schema().is_some(),
        MessageHeader::RecordBatch => message.header_as_record_batch().is_some_and(batch_fits),
        MessageHeader::DictionaryBatch => message
            .header_as_dictionary_batch()
            .and_then(|dictionary| dictionary.data())
            .is_some_and(batch_fits),
        _ => false,
    }
}

/// Size of a buffer in memory, or none if it does not lie in the body. A compressed one begins with its size; -1 says
/// that it is not compressed after all.
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
