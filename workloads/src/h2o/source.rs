//! Source of flights: the user's file, or one made once and kept in the user's cache. Yields the file chunk
//! by chunk; it does not look into it.

use std::{
    fs::File,
    io::{Read as _, Seek as _},
    path::{Path, PathBuf},
};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::{error::H2oError, flights::GENERATOR_VERSION, generate};
use crate::data::file_set;

/// Data options from the command line.
#[derive(Clone, Debug)]
pub struct Data {
    /// The user's file; without it `rows` flights of `seed` are generated.
    pub file: Option<PathBuf>,
    pub rows: u64,
    pub seed: u64,
}

/// Bytes of a file that are read to estimate the length of its lines.
const SAMPLE_BYTES: usize = 1 << 20;

/// An open file and the chunk that was read last.
#[derive(Debug)]
pub struct Source {
    pub path: PathBuf,
    /// Size of the whole file, bytes.
    pub bytes: u64,
    file: File,
    chunk: Vec<u8>,
    /// Number of bytes read so far.
    read_bytes: u64,
}

impl Data {
    /// Number of flights: for the user's file an estimate from the length of its first lines.
    pub fn flights(&self) -> Result<u64, H2oError> {
        let Some(path) = &self.file else { return Ok(self.rows) };
        let mut source = Source::open(path, SAMPLE_BYTES)?;
        let sampled = source.read()?;
        let lines = source.chunk(sampled).split(|byte| *byte == b'\n').count() as u64;
        Ok(source.bytes / (sampled as u64 / lines).max(1))
    }

    /// Opens the file, made if it is not there. `progress` says whether a terminal sees a bar meanwhile.
    pub fn open(&self, chunk_bytes: usize, progress: bool) -> Result<Source, H2oError> {
        let path = match &self.file {
            Some(path) => path.clone(),
            None => self.generated(progress)?,
        };
        Source::open(&path, chunk_bytes)
    }

    fn generated(&self, progress: bool) -> Result<PathBuf, H2oError> {
        let folder = file_set::cache_folder().map_err(|_| H2oError::NoCache)?;
        let path = folder.join(format!("flights-{GENERATOR_VERSION}-{}-{}.csv", self.seed, self.rows));
        if !path.is_file() {
            std::fs::create_dir_all(&folder)
                .map_err(|source| H2oError::Write { path: folder.clone(), source })?;
            file_set::remove_abandoned(&folder);
            generate::write(&generate::Settings {
                file: path.clone(),
                rows: self.rows,
                seed: self.seed,
                progress,
            })?;
        }
        Ok(path)
    }
}

impl Source {
    pub fn open(path: &Path, chunk_bytes: usize) -> Result<Self, H2oError> {
        let failed = |source| H2oError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(H2oError::NoFile { path: path.to_owned() });
        }
        Ok(Self {
            path: path.to_owned(),
            bytes: metadata.len(),
            file,
            chunk: vec![0; chunk_bytes],
            read_bytes: 0,
        })
    }

    /// Number of chunks.
    pub fn chunks(&self) -> u64 {
        self.bytes.div_ceil(self.chunk.len() as u64)
    }

    /// Starts again from the beginning. The chunk's memory stays.
    pub fn rewind(&mut self) -> Result<(), H2oError> {
        self.read_bytes = 0;
        let failed = |source| H2oError::Read { path: self.path.clone(), source };
        self.file.rewind().map_err(failed)
    }

    /// Makes the kernel forget the file's cached pages, as far as it can; unwritten pages are written first.
    pub fn forget(&self) -> Result<(), H2oError> {
        let failed = |source| H2oError::Read { path: self.path.clone(), source };
        self.file.sync_all().map_err(failed)?;
        posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .map_err(|errno| failed(errno.into()))
    }

    /// Reads the next chunk, full unless the file ends; returns its size. Zero at the end.
    pub fn read(&mut self) -> Result<usize, H2oError> {
        let mut filled = 0;
        while filled < self.chunk.len() {
            match self.file.read(&mut self.chunk[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(H2oError::Read { path: self.path.clone(), source }),
            }
        }
        self.read_bytes += filled as u64;
        Ok(filled)
    }

    /// Whether the last `read` reached the end of the file, or of one that was truncated meanwhile.
    pub fn is_over(&self, filled: usize) -> bool {
        filled < self.chunk.len() || self.read_bytes >= self.bytes
    }

    /// The first `bytes` of what was read last.
    pub fn chunk(&self, bytes: usize) -> &[u8] {
        &self.chunk[..bytes]
    }
}
