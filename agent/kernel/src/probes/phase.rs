//! Family `phase`: the marker library's probe point, found in ELF files by its note.
//!
//! The point is `nop; nop5` (x86-64), and the probe goes to the `nop`, on every kernel. 6.18 rewrites a
//! `nop5` under a probe into a call, which costs less (487 ns against 650 ns an edge), and kills: a forked
//! child inherits the call but not its target page (VM_DONTCOPY), and dies by SIGSEGV at its first edge
//! (6.18.44; with bpftrace as well). It reads headers and notes only, through bounds-checked readers: the
//! file may be anybody's.

use std::{fs::File, io::BufReader, path::Path};

use object::{
    LittleEndian,
    elf::{FileHeader64, PN_XNUM, PT_LOAD, ProgramHeader64, SectionHeader64, SectionType},
    read::{
        ReadCache, ReadRef as _,
        elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable},
    },
};

use super::hook::{Hook, Place};
use crate::{guarded, untrusted::Shown as _};

/// One hook, in every file that contains the library.
pub const HOOKS: &[Hook] = &[Hook {
    id: "uprobe/guestscope_edge",
    program: "edge",
    place: Place::Marker,
    purpose: "start and end of phases",
    is_needed: true,
    twin: None,
    classic: None,
}];

/// The remedy when a program cannot be probed.
pub const REMEDY: &str =
    "the agent needs CAP_SYS_ADMIN to probe a program and CAP_SYS_PTRACE to look into it";

const PROVIDER: &[u8] = b"guestscope";
const PROBE: &[u8] = b"edge";
/// Notes are read up to this size: ours is one of a handful.
const NOTES_BYTES: u64 = 1 << 20;
/// More sections than any linked program has: the largest of Chromium's and PyTorch's files have 50. The name
/// of each is kept while a file is read, up to 4 kB.
const MOST_SECTIONS: u16 = 4_096;

/// Why a file's probe point could not be found.
#[derive(Debug, thiserror::Error)]
pub enum MarkerError {
    /// It cannot be opened or read.
    #[error("reading `{path}`: {source}")]
    Read {
        /// Path of the file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Its notes are malformed.
    #[error("the marker's note is damaged: `{0}`")]
    Damaged(String),
}

/// The offset in the file of the marker's 1-byte nop; none if the file has no marker, or is no program for
/// this kind of machine. A file that is not regular is not even opened.
pub fn find(path: &Path) -> Result<Option<u64>, MarkerError> {
    let read_error = |source| MarkerError::Read { path: path.shown().to_string(), source };
    let file = match guarded::open_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => return Ok(None),
        opened => opened.map_err(read_error)?,
    };
    find_in(file, path)
}

/// The same in an open file; `path` is for people.
pub(crate) fn find_in(file: File, path: &Path) -> Result<Option<u64>, MarkerError> {
    let cache = ReadCache::new(BufReader::new(file));
    let damaged = || MarkerError::Damaged(path.shown().to_string());
    let Some(tables) = Tables::read(&cache) else { return Ok(None) };
    let Some(notes) = tables.section(".note.stapsdt") else { return Ok(None) };
    let Some((offset, bytes)) = notes.file_range(LittleEndian).filter(|range| range.1 <= NOTES_BYTES) else {
        return Ok(None);
    };
    let notes = (&cache).read_bytes_at(offset, bytes).map_err(|()| damaged())?;
    let Some((address, base)) = our_note(notes) else { return Ok(None) };
    // Addresses in the note are the linker's. If a later tool moved the file's sections, this section shows
    // by how much.
    let moved = match tables.section(".stapsdt.base") {
        Some(section) if base != 0 => section.sh_addr(LittleEndian).wrapping_sub(base),
        _ => 0,
    };
    tables.offset_of(address.wrapping_add(moved)).map(Some).ok_or_else(damaged)
}

/// A file that is read in parts.
pub type Cache = ReadCache<BufReader<File>>;

/// A file to be read in parts, by a descriptor of its own.
pub fn cache(file: &File) -> std::io::Result<Cache> {
    Ok(ReadCache::new(BufReader::new(file.try_clone()?)))
}

/// The two tables of a 64-bit little-endian ELF file: all that is read of it beside the notes. `object::File`
/// would read the symbols too, 14 MB in libtorch.
pub struct Tables<'a> {
    segments: &'a [ProgramHeader64<LittleEndian>],
    sections: SectionTable<'a, FileHeader64<LittleEndian>, &'a Cache>,
}

impl<'a> Tables<'a> {
    /// Returns none for other files, and for those that claim to have too many sections.
    pub fn read(cache: &'a Cache) -> Option<Self> {
        let header = FileHeader64::<LittleEndian>::parse(cache).ok()?;
        header.endian().ok()?;
        // These values mean that the number stands elsewhere, in 32 bits. No program needs them, and a file
        // that claims to could make this read 256 GiB.
        let sections = header.e_shnum.get(LittleEndian);
        if !(1..=MOST_SECTIONS).contains(&sections) || header.e_phnum.get(LittleEndian) == PN_XNUM {
            return None;
        }
        Some(Self {
            segments: header.program_headers(LittleEndian, cache).ok()?,
            sections: header.sections(LittleEndian, cache).ok()?,
        })
    }

    /// The first section of this name.
    pub fn section(&self, name: &str) -> Option<&'a SectionHeader64<LittleEndian>> {
        self.sections.section_by_name(LittleEndian, name.as_bytes()).map(|(_, section)| section)
    }

    /// The first section of a kind, and the section with the names.
    pub fn with_names(
        &self,
        kind: SectionType,
    ) -> Option<(&'a SectionHeader64<LittleEndian>, &'a SectionHeader64<LittleEndian>)> {
        let section = self.sections.iter().find(|section| section.sh_type(LittleEndian) == kind)?;
        let names = self.sections.section(section.link(LittleEndian)).ok()?;
        Some((section, names))
    }

    /// Offset in the file of the byte at this address; none for memory without bytes in the file.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let loaded = self.segments.iter().filter(|segment| segment.p_type(LittleEndian) == PT_LOAD);
        loaded.map(|segment| (segment.p_vaddr(LittleEndian), segment.file_range(LittleEndian))).find_map(
            |(start, (offset, bytes))| {
                let within = address.checked_sub(start).filter(|within| *within < bytes)?;
                offset.checked_add(within)
            },
        )
    }
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
        let mut names = body.get(24..).unwrap_or_default().split(|&byte| byte == 0);
        if names.next() == Some(PROVIDER) && names.next() == Some(PROBE) {
            return Some((long(body, 0)?, long(body, 8)?));
        }
        notes = description.get(bytes.checked_next_multiple_of(4)?..)?;
    }
    None
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod tests;
