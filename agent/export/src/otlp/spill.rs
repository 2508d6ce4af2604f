//! A FIFO file of spans that could not be sent yet.
//!
//! It is made when first needed, leaves a reserve of the disk free, gives back the room of what has been
//! read, and in the end keeps only what has not been read. One descriptor serves throughout. Its memory does
//! not grow with the file. It does not sync: the run folder holds the same phases as rows, so a power cut
//! loses only their way to the collector.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use nix::{
    fcntl::{FallocateFlags, fallocate},
    sys::statvfs::fstatvfs,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use thiserror::Error;

use super::frames::{self, Frames, HEADER_BYTES, Header, SKIP_BYTES};
use crate::guarded::{self, Directory};

/// Error text where there is no folder to keep spans in.
pub(super) const NO_FOLDER: &str = "no run folder to keep spans in";

/// Bytes read before they are given back to the disk together.
const GIVE_BACK_BYTES: u64 = 4 << 20;
/// Bytes written between checks of free disk space.
const LOOK_BYTES: u64 = 1 << 20;

/// Why a message was not taken or cannot be read.
#[derive(Debug, Error)]
pub(super) enum SpillError {
    /// There is no folder to write to.
    #[error("{NO_FOLDER}")]
    NoFolder,
    /// The bound is reached.
    #[error("{file} is full at {bytes} bytes")]
    Full {
        /// The file's name in the run folder.
        file: String,
        /// Bound of the file.
        bytes: u64,
    },
    /// The disk's reserve is reached.
    #[error("the disk has no room for {file}: {free} bytes free, {reserve} are left to others")]
    Reserve {
        /// Name of the file.
        file: String,
        /// Bytes.
        free: u64,
        /// Bytes.
        reserve: u64,
    },
    /// The file was changed by another process.
    #[error("{file} was changed by somebody else")]
    Changed {
        /// Name of the file.
        file: String,
    },
    /// An I/O error.
    #[error("cannot use {file}: {error}")]
    Io {
        /// Name of the file.
        file: String,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// The oldest frame.
#[derive(Clone, Copy, Debug)]
struct Oldest {
    bytes: u64,
    spans: u64,
    /// Frames behind it cannot be found.
    all: bool,
}

/// The file.
pub(super) struct Spill {
    folder: Option<Directory>,
    name: String,
    bound_bytes: u64,
    file: Option<File>,
    frames: Frames,
    /// Offset of the first frame not yet left behind.
    read: u64,
    /// Offset behind the last frame.
    written: u64,
    /// Decoders skip what is before this offset.
    skipped: u64,
    /// Offset of the last skippable frame.
    skip_from: u64,
    /// Bytes punched out at the start of the file.
    given_back: u64,
    /// Spans not left behind.
    spans: u64,
    oldest: Option<Oldest>,
    /// Offset at the last check of free disk space.
    looked: Option<u64>,
}

impl Spill {
    /// A file `name` in `folder` of at most `bound_bytes`, created with the first message.
    pub(super) fn new(folder: Option<Directory>, name: &str, bound_bytes: u64) -> Self {
        Self {
            folder,
            name: name.to_owned(),
            bound_bytes,
            file: None,
            frames: Frames::default(),
            read: 0,
            written: 0,
            skipped: 0,
            skip_from: 0,
            given_back: 0,
            spans: 0,
            oldest: None,
            looked: None,
        }
    }

    /// Number of waiting spans.
    pub(super) fn spans(&self) -> u64 {
        self.spans
    }

    /// Adds a message.
    pub(super) fn push(&mut self, message: &ExportTraceServiceRequest) -> Result<(), SpillError> {
        let frame = self.frames.pack(message).map_err(|error| self.io(error))?;
        let bytes = frame.len() as u64;
        if self.written - self.given_back + bytes > self.bound_bytes {
            self.folder.as_ref().ok_or(SpillError::NoFolder)?;
            return Err(SpillError::Full { file: self.name.clone(), bytes: self.bound_bytes });
        }
        self.open()?;
        self.look(bytes)?;
        let written = self.written;
        let file = self.open()?;
        if let Err(error) = file.write_all_at(&frame, written) {
            // A partial frame would spoil the file for other readers. If truncating fails, the next frame
            // overwrites it.
            let _ = file.set_len(written);
            self.looked = None;
            return Err(self.io(error));
        }
        self.frames.wrote();
        self.written += bytes;
        self.spans += super::message::count(message);
        Ok(())
    }

    /// Checks that there is room for so many bytes.
    fn look(&mut self, bytes: u64) -> Result<(), SpillError> {
        if self.looked.is_some_and(|looked| (looked..looked + LOOK_BYTES).contains(&self.written)) {
            return Ok(());
        }
        self.looked = None;
        let Some(file) = &self.file else { return Ok(()) };
        let stats = fstatvfs(file).map_err(|errno| self.io(errno.into()))?;
        let block = stats.fragment_size();
        let (free, total) = (stats.blocks_available() * block, stats.blocks() * block);
        let reserve = guarded::reserve(total);
        if free < reserve + bytes + LOOK_BYTES.min(reserve) {
            return Err(SpillError::Reserve { file: self.name.clone(), free, reserve });
        }
        self.looked = Some(self.written);
        Ok(())
    }

    /// The oldest message, which stays until [`Spill::pop`], with the number of its spans; on an error the
    /// number that is lost.
    pub(super) fn front(&mut self) -> Option<(u64, Result<ExportTraceServiceRequest, SpillError>)> {
        if self.spans == 0 {
            return None;
        }
        let found = self.find();
        let (bytes, spans) = match &found {
            Ok((header, _)) => (HEADER_BYTES as u64 + u64::from(header.frame_bytes), u64::from(header.spans)),
            Err(_) => (self.written - self.read, self.spans),
        };
        self.oldest = Some(Oldest { bytes, spans, all: found.is_err() });
        Some((
            spans,
            found.and_then(|(header, frame)| frames::unpack(header, &frame).map_err(|error| self.io(error))),
        ))
    }

    fn find(&self) -> Result<(Header, Vec<u8>), SpillError> {
        let changed = || SpillError::Changed { file: self.name.clone() };
        let file = self.file.as_ref().ok_or(SpillError::NoFolder)?;
        let read = |bytes: &mut [u8], at| match file.read_exact_at(bytes, at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(changed()),
            outcome => outcome.map_err(|error| self.io(error)),
        };
        let mut header = [0; HEADER_BYTES];
        read(&mut header, self.read)?;
        let header = Header::read(&header).ok_or_else(changed)?;
        let begin = self.read + HEADER_BYTES as u64;
        if u64::from(header.frame_bytes) > self.written.saturating_sub(begin) {
            return Err(changed());
        }
        let mut frame = vec![0; header.frame_bytes as usize];
        read(&mut frame, begin)?;
        if self.frames.is_next(header, &frame) { Ok((header, frame)) } else { Err(changed()) }
    }

    /// Leaves behind what [`Spill::front`] found.
    pub(super) fn pop(&mut self) {
        self.step();
        let Some(file) = &self.file else { return };
        if self.spans == 0 && file.set_len(0).is_ok() {
            (self.read, self.written, self.looked) = (0, 0, None);
            (self.skipped, self.skip_from, self.given_back) = (0, 0, 0);
        } else if self.read - self.skipped >= GIVE_BACK_BYTES {
            // An error is ignored: the next attempt may succeed.
            let _ = self.give_back();
        }
    }

    fn step(&mut self) {
        let Some(Oldest { bytes, spans, all }) = self.oldest.take() else { return };
        self.read += bytes;
        self.spans -= spans;
        if all { self.frames.leave_all() } else { self.frames.leave() }
    }

    /// Hands over all messages, which stay.
    pub(super) fn each(
        &mut self,
        mut take: impl FnMut(ExportTraceServiceRequest) -> io::Result<()>,
    ) -> Result<(), SpillError> {
        let (read, spans, frames) = (self.read, self.spans, self.frames.clone());
        let mut outcome = Ok(());
        while outcome.is_ok()
            && let Some((_, message)) = self.front()
        {
            outcome = message.and_then(|message| take(message).map_err(|error| self.io(error)));
            self.step();
        }
        (self.read, self.spans, self.frames, self.oldest) = (read, spans, frames, None);
        outcome
    }

    /// Leaves all behind.
    pub(super) fn clear(&mut self) {
        (self.read, self.spans) = (self.written, 0);
        self.frames.leave_all();
    }

    /// Gives back the room of what has been read, where the file system can. The file stays valid for others
    /// at any time, even if this process is killed: a range becomes skippable before it is punched out.
    fn give_back(&mut self) -> io::Result<()> {
        while self.skipped < self.read {
            let covered = self.cover()?;
            self.punch(covered);
        }
        Ok(())
    }

    /// Makes more of what has been read skippable. Returns the bytes that no decoder reads any more.
    fn cover(&mut self) -> io::Result<Range<u64>> {
        const MOST: u64 = 1 << 31;
        let begin = self.skipped;
        if self.read - self.skip_from > MOST {
            self.skip_from = begin;
        }
        let left = self.read - self.skip_from;
        // The rest must have room for the next skippable frame's header.
        let bytes = if left > MOST { MOST - SKIP_BYTES } else { left };
        let Some(file) = &self.file else { return Err(io::ErrorKind::NotFound.into()) };
        file.write_all_at(&frames::skip(bytes as u32), self.skip_from)?;
        self.skipped = self.skip_from + bytes;
        Ok(begin.max(self.skip_from + SKIP_BYTES)..self.skipped)
    }

    fn punch(&mut self, bytes: Range<u64>) {
        let Some(file) = &self.file else { return };
        let holes = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let count = bytes.end - bytes.start;
        let (Ok(begin), Ok(length)) = (i64::try_from(bytes.start), i64::try_from(count)) else { return };
        if fallocate(file, holes, begin, length).is_ok() {
            self.given_back += count;
        }
    }

    /// Keeps what was not read and removes the rest: the whole file, if nothing is left.
    pub(super) fn close(&mut self) -> Result<(), SpillError> {
        if self.spans > 0 {
            return self.give_back().map_err(|error| self.io(error));
        }
        let (Some(folder), Some(file)) = (&self.folder, &self.file) else { return Ok(()) };
        // Another file under this name stays.
        let outcome = folder.remove_ours(&self.name, file);
        self.file = None;
        outcome.map_err(|error| self.io(error))
    }

    fn open(&mut self) -> Result<&File, SpillError> {
        let folder = self.folder.as_ref().ok_or(SpillError::NoFolder)?;
        let file = match self.file.take() {
            Some(file) => file,
            // A file that is there already belongs to another run: it is not ours to overwrite.
            None => folder.create(&self.name).map_err(|error| self.io(error))?,
        };
        Ok(self.file.insert(file))
    }

    fn io(&self, error: io::Error) -> SpillError {
        SpillError::Io { file: self.name.clone(), error }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::trace::v1::ResourceSpans;
    use prost::Message as _;

    use super::*;

    /// Another program can read the file between any two steps, as after a crash.
    #[test]
    fn the_file_is_whole_at_each_step_of_giving_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spill = Spill::new(Directory::open(folder.path()).ok(), "spill", u64::MAX);
        let message = ExportTraceServiceRequest { resource_spans: vec![ResourceSpans::default()] };
        let left = || {
            let file = File::open(folder.path().join("spill")).expect("it is there");
            let plain = zstd::stream::decode_all(file).expect("it is a whole zstd file");
            ExportTraceServiceRequest::decode(&plain[..]).expect("it is one message").resource_spans.len()
        };
        for _ in 0..10 {
            spill.push(&message).expect("there is room");
        }
        // It has no span for `front` to count.
        for round in 1..4 {
            let bytes = spill.find().expect("it can be read").0.frame_bytes;
            spill.read += HEADER_BYTES as u64 + u64::from(bytes);
            spill.frames.leave();
            let covered = spill.cover().expect("it can be written");
            assert_eq!(left(), 10 - round, "killed before the hole");
            spill.punch(covered);
            assert_eq!(left(), 10 - round, "killed after it");
        }
        assert_eq!(spill.given_back, spill.read - SKIP_BYTES, "one begin of a frame stays");
    }
}
