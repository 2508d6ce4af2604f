//! Family `phase`: the marker library's probe point, found in ELF files by its note.
//!
//! The point is `nop; nop5` (x86-64), and the probe goes to the `nop`, on every kernel. 6.18 rewrites a `nop5` under a
//! probe into a call, which costs less (487 ns against 650 ns an edge), and kills: a forked child inherits the call but
//! not the page that it goes to (VM_DONTCOPY), and dies by SIGSEGV at its first edge (6.18.44; with bpftrace as well).
//! It reads headers and notes only, through bounds-checked readers: the file may be anybody's.

use std::{
    fs::File,
    io::{BufReader, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use object::{
    Object as _, ObjectSection as _, ObjectSegment as _,
    read::{ReadCache, ReadRef as _},
};

use super::{Hook, Place};

/// One hook, at as many files as carry the library.
pub const HOOKS: &[Hook] = &[Hook {
    id: "uprobe/guestscope_edge",
    program: "edge",
    place: Place::Marker,
    purpose: "begin and end of phases",
}];

const PROVIDER: &[u8] = b"guestscope";
const PROBE: &[u8] = b"edge";
/// A program with more notes than this is not looked at further: ours is one of a handful.
const NOTES_BYTES: u64 = 1 << 20;

/// Why a file's probe point could not be found.
#[derive(Debug, thiserror::Error)]
pub enum MarkerError {
    /// It cannot be opened or read.
    #[error("reading `{path}`: {source}")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Its notes make no sense.
    #[error("the marker's note is damaged: `{0}`")]
    Damaged(String),
}

/// The offset in the file of the marker's 1-byte nop; none if the file has no marker or is no ELF file.
pub fn find(path: &Path) -> Result<Option<u64>, MarkerError> {
    let read_error = |source| MarkerError::Read { path: path.display().to_string(), source };
    let mut file = File::open(path).map_err(read_error)?;
    let mut magic = [0_u8; 4];
    if file.read_exact(&mut magic).is_err() || &magic != b"\x7fELF" {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(0)).map_err(read_error)?;
    let cache = ReadCache::new(BufReader::new(file));
    let Ok(elf) = object::File::parse(&cache) else { return Ok(None) };
    let Some(notes) = elf.section_by_name(".note.stapsdt") else { return Ok(None) };
    let Some((offset, bytes)) = notes.file_range().filter(|range| range.1 <= NOTES_BYTES) else {
        return Ok(None);
    };
    let damaged = || MarkerError::Damaged(path.display().to_string());
    let notes = (&cache).read_bytes_at(offset, bytes).map_err(|()| damaged())?;
    let Some((address, base)) = our_note(notes) else { return Ok(None) };
    // The linker writes addresses; a later tool that moved the file's sections leaves the distance to this section.
    let moved = match elf.section_by_name(".stapsdt.base") {
        Some(section) if base != 0 => section.address().wrapping_sub(base),
        _ => 0,
    };
    let address = address.wrapping_add(moved);
    let offset = elf.segments().find_map(|segment| {
        let within = address.checked_sub(segment.address())?;
        (within < segment.size()).then(|| segment.file_range().0.checked_add(within)).flatten()
    });
    offset.map(Some).ok_or_else(damaged)
}

/// The address and base of our probe among the notes (format: SystemTap's UserSpaceProbeImplementation).
fn our_note(mut notes: &[u8]) -> Option<(u64, u64)> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    while notes.len() >= 12 {
        let owner_bytes = (word(notes, 0)? as usize).checked_next_multiple_of(4)?;
        let bytes = word(notes, 4)? as usize;
        let description = notes.get(12_usize.checked_add(owner_bytes)?..)?;
        let body = description.get(..bytes)?;
        let mut names = body.get(24..)?.split(|&byte| byte == 0);
        if names.next() == Some(PROVIDER) && names.next() == Some(PROBE) {
            return Some((long(body, 0)?, long(body, 8)?));
        }
        notes = description.get(bytes.checked_next_multiple_of(4)?..)?;
    }
    None
}
