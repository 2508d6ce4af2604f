//! Messages as they lie in a spill file: protobuf, each compressed by itself, one after the other.
//!
//! The file is a whole zstd file at any time: `zstd -dc` yields one request (as protobuf the same as a
//! `TracesData`), because protobuf messages that are put together are one message. Before each frame stands a
//! header in a frame of its own that every decoder skips (RFC 8878, 3.1.2): so the agent needs no list of
//! what lies where. The file may be the observed user's, who may write to it: a seal, by a key that never
//! leaves the process, detects changed frames before anything parses them. Nothing here opens or writes a
//! file.

use std::{
    hash::{BuildHasher as _, RandomState},
    io,
};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use zstd::bulk::{Compressor, Decompressor};

use super::message;

/// Magic number of a frame that decoders skip.
const SKIPPED: u32 = 0x184D_2A50;
/// Magic and length of a frame that decoders skip.
pub(super) const SKIP_BYTES: u64 = 8;
/// Length of a header.
pub(super) const HEADER_BYTES: usize = 28;
/// Most bytes of a frame: a batch has 2 MiB, a single span far less, so anything larger is not ours.
const MOST_BYTES: u32 = 64 << 20;
/// Compression level, the fastest: 512 spans take some 0.5 ms.
const LEVEL: i32 = 1;

/// Header in front of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Header {
    /// Length of the frame.
    pub(super) frame_bytes: u32,
    /// Length of the message in it.
    message_bytes: u32,
    /// Spans in the message.
    pub(super) spans: u32,
    seal: u64,
}

impl Header {
    /// Parses a header; none if the bytes are not one.
    pub(super) fn read(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let seal = u64::from_le_bytes(*bytes.last_chunk()?);
        let (frame_bytes, message_bytes, spans) = (word(8)?, word(12)?, word(16)?);
        let header = Self { frame_bytes, message_bytes, spans, seal };
        (bytes[..8] == skip(HEADER_BYTES as u32) && frame_bytes <= MOST_BYTES).then_some(header)
    }

    fn write(self) -> Vec<u8> {
        let Self { frame_bytes, message_bytes, spans, seal } = self;
        let mut bytes = skip(HEADER_BYTES as u32).to_vec();
        bytes.extend([frame_bytes, message_bytes, spans].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(seal.to_le_bytes());
        bytes
    }
}

/// Magic and length of a skippable frame of `bytes` bytes in all.
pub(super) fn skip(bytes: u32) -> [u8; SKIP_BYTES as usize] {
    let mut begin = [0; SKIP_BYTES as usize];
    begin[..4].copy_from_slice(&SKIPPED.to_le_bytes());
    begin[4..].copy_from_slice(&bytes.saturating_sub(SKIP_BYTES as u32).to_le_bytes());
    begin
}

/// Writes and reads frames, numbered in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    key: RandomState,
    written: u64,
    read: u64,
}

impl Frames {
    /// The next message with its header.
    pub(super) fn pack(&mut self, message: &ExportTraceServiceRequest) -> io::Result<Vec<u8>> {
        let plain = message.encode_to_vec();
        let frame = Compressor::new(LEVEL)?.compress(&plain)?;
        let number = |number: usize| u32::try_from(number).map_err(io::Error::other);
        let mut header = Header {
            frame_bytes: number(frame.len())?,
            message_bytes: number(plain.len())?,
            spans: u32::try_from(message::count(message)).map_err(io::Error::other)?,
            seal: 0,
        };
        header.seal = self.seal(header, &frame, self.written);
        Ok([&header.write()[..], &frame].concat())
    }

    /// Counts the last packed frame as written.
    pub(super) fn wrote(&mut self) {
        self.written += 1;
    }

    /// Whether this is the oldest frame not yet left behind, unchanged.
    pub(super) fn is_next(&self, header: Header, frame: &[u8]) -> bool {
        header.seal == self.seal(Header { seal: 0, ..header }, frame, self.read)
    }

    /// Leaves the oldest frame behind.
    pub(super) fn leave(&mut self) {
        self.read += 1;
    }

    /// Leaves all frames behind.
    pub(super) fn leave_all(&mut self) {
        self.read = self.written;
    }

    fn seal(&self, header: Header, frame: &[u8], number: u64) -> u64 {
        self.key.hash_one((header, number, frame))
    }
}

/// The message of an unchanged frame.
pub(super) fn unpack(header: Header, frame: &[u8]) -> io::Result<ExportTraceServiceRequest> {
    let plain = Decompressor::new()?.decompress(frame, header.message_bytes as usize)?;
    ExportTraceServiceRequest::decode(&plain[..]).map_err(io::Error::other)
}
