//! Functions without a name, in tables that a library hands out: `OrtGetApiBase()[0]()[9]` is entry 9 of the
//! table that the function in entry 0 of the table of `OrtGetApiBase` returns.
//!
//! C interfaces of libraries with several versions are made so: one function is exported, and the order of a
//! table never changes. The table is read from the file alone, which may be stripped and may be anybody's. It
//! counts as one only if each entry up to the wanted one is the start of a function, and if the function that
//! returns it mentions no second one.

use std::{collections::HashMap, fs::File, os::unix::fs::FileExt as _};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};
use object::{
    LittleEndian,
    elf::{R_AARCH64_RELATIVE, R_X86_64_RELATIVE},
    read::elf::SectionHeader as _,
};

use super::{
    code,
    found::{Found, SymbolError},
    symbols,
    unwind::Unwind,
};
use crate::probes::phase::{self, Tables};

/// Most tables in a row.
const MOST_STEPS: usize = 4;
/// Highest entry: ONNX Runtime's table has 429.
const MOST_ENTRY: u32 = 4_095;
/// Maximum size of a function that returns a table, bytes: it does little else.
const MOST_BYTES: u64 = 4 << 10;
/// Most addresses that such a function mentions.
const MOST_MENTIONED: usize = 64;
/// Most relocations read of a file: libtorch's are 600,000.
const MOST_RELOCATIONS: u64 = 8 << 20;
/// Bytes of a relocation (`Elf64_Rela`), and how many are read at once.
const RELOCATION: usize = 24;
const PIECE: usize = 32 << 10;

/// Path to a function through tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way<'a> {
    /// The exported function.
    exported: &'a str,
    /// Entry in its table, entry in the next table, and so on.
    entries: Vec<u32>,
}

/// Why a function in a table cannot be found.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum TableError {
    #[error(transparent)]
    Symbol(#[from] SymbolError),
    #[error("has no table of where functions begin (.eh_frame_hdr)")]
    NoFunctions,
    #[error("cannot be read: {0}")]
    Read(std::io::ErrorKind),
    #[error("has more relocations than are read")]
    TooManyRelocations,
    #[error("has a function of more than {MOST_BYTES} bytes where one is that returns a table: {0}")]
    TooLong(String),
    #[error("has no code that can be read at {0}")]
    NoCode(String),
    #[error("has no table of {entries} functions that {name} returns")]
    NoTable { name: String, entries: u32 },
    #[error("has {tables} tables of {entries} functions that {name} may return")]
    TooManyTables { name: String, tables: usize, entries: u32 },
}

impl<'a> Way<'a> {
    /// Returns none if the text is not such a path.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (exported, rest) = text.split_once("()[")?;
        let entries: Option<Vec<u32>> = rest
            .strip_suffix(']')?
            .split("]()[")
            .map(|entry| {
                let is_number = !entry.is_empty() && entry.bytes().all(|byte| byte.is_ascii_digit());
                entry.parse().ok().filter(|entry| is_number && *entry <= MOST_ENTRY)
            })
            .collect();
        let entries = entries.filter(|entries| entries.len() <= MOST_STEPS)?;
        (!exported.is_empty() && !exported.contains('*')).then_some(Self { exported, entries })
    }

    /// The text up to a step, as it was typed.
    fn until(&self, step: usize) -> String {
        let mut text = self.exported.to_owned();
        for entry in &self.entries[..step] {
            text.push_str("()[");
            text.push_str(&entry.to_string());
            text.push(']');
        }
        text
    }
}

/// The function at the end of the path.
pub(super) fn find(file: &File, way: &Way<'_>) -> Result<Found, TableError> {
    let exported = symbols::find(file, way.exported)?;
    let [first] = exported.as_slice() else { return Err(SymbolError::TooMany(exported.len()).into()) };
    let cache = phase::cache(file).map_err(|error| TableError::Read(error.kind()))?;
    let tables = Tables::read(&cache).ok_or(SymbolError::NotElf)?;
    let unwind = Unwind::read(file, &tables).ok_or(TableError::NoFunctions)?;
    let library = Library { file, tables: &tables, unwind: &unwind };
    let mut address = first.address;
    for (step, entry) in way.entries.iter().enumerate() {
        address = library.behind(address, *entry, &way.until(step))?;
    }
    library.function(address, &way.until(way.entries.len()))
}

struct Library<'a> {
    file: &'a File,
    tables: &'a Tables<'a>,
    unwind: &'a Unwind,
}

impl Library<'_> {
    fn code(&self, address: u64, bytes: u64, name: &str) -> Result<Vec<u8>, TableError> {
        let offset = self.tables.offset_of(address).ok_or_else(|| TableError::NoCode(name.to_owned()))?;
        let mut code = vec![0; bytes as usize];
        self.file.read_exact_at(&mut code, offset).map_err(|error| TableError::Read(error.kind()))?;
        Ok(code)
    }

    /// Target of entry `entry` of the only table that the function at `address` returns.
    fn behind(&self, address: u64, entry: u32, name: &str) -> Result<u64, TableError> {
        let around = self.unwind.around(self.file, self.tables, address);
        let (_, bytes) = around
            .filter(|(begin, _)| *begin == address)
            .ok_or_else(|| TableError::NoCode(name.to_owned()))?;
        if bytes > MOST_BYTES {
            return Err(TableError::TooLong(name.to_owned()));
        }
        let code = self.code(address, bytes, name)?;
        let mentioned = if cfg!(target_arch = "aarch64") {
            mentioned_arm64(&code, address)
        } else {
            mentioned_x86_64(&code, address)
        };
        let entries = entry + 1;
        let words = self.words(&mentioned, entries)?;
        let mut targets: Vec<u64> =
            mentioned.iter().filter_map(|table| self.last(*table, entries, &words)).collect();
        match targets.len() {
            1 => Ok(targets.remove(0)),
            0 => Err(TableError::NoTable { name: name.to_owned(), entries }),
            tables => Err(TableError::TooManyTables { name: name.to_owned(), tables, entries }),
        }
    }

    /// The last of so many entries, if each of them is the start of a function.
    fn last(&self, table: u64, entries: u32, words: &HashMap<u64, u64>) -> Option<u64> {
        let mut target = None;
        for entry in 0..u64::from(entries) {
            let at = table.checked_add(8 * entry)?;
            let own = words.get(&at).copied().or_else(|| self.word(at))?;
            target = Some(own).filter(|own| self.unwind.begins(*own));
            target?;
        }
        target
    }

    /// The word in the file: with packed relocations (RELR), it is the address.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, self.tables.offset_of(address)?).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// The loader's words in tables of so many entries.
    fn words(&self, at: &[u64], entries: u32) -> Result<HashMap<u64, u64>, TableError> {
        let relative = if cfg!(target_arch = "aarch64") { R_AARCH64_RELATIVE } else { R_X86_64_RELATIVE };
        let is_within = |address: u64| {
            at.iter().any(|table| address.checked_sub(*table).is_some_and(|far| far < 8 * u64::from(entries)))
        };
        let section = self.tables.section(".rela.dyn").and_then(|section| section.file_range(LittleEndian));
        let (offset, bytes) = section.unwrap_or_default();
        let relocations = bytes / RELOCATION as u64;
        if relocations > MOST_RELOCATIONS {
            return Err(TableError::TooManyRelocations);
        }
        let mut words = HashMap::new();
        let mut piece = vec![0; PIECE * RELOCATION];
        for first in (0..relocations).step_by(PIECE) {
            let bytes = &mut piece[..(relocations - first).min(PIECE as u64) as usize * RELOCATION];
            let offset = offset.saturating_add(first * RELOCATION as u64);
            self.file.read_exact_at(bytes, offset).map_err(|error| TableError::Read(error.kind()))?;
            for relocation in bytes.chunks_exact(RELOCATION) {
                let word =
                    |at: usize| u64::from_le_bytes(relocation[at..at + 8].try_into().unwrap_or_default());
                if word(8) == u64::from(relative.0) && is_within(word(0)) {
                    words.insert(word(0), word(16));
                }
            }
        }
        Ok(words)
    }

    fn function(&self, address: u64, name: &str) -> Result<Found, TableError> {
        let none = || TableError::NoCode(name.to_owned());
        let (_, bytes) = self.unwind.around(self.file, self.tables, address).ok_or_else(none)?;
        let offset = self.tables.offset_of(address).ok_or_else(none)?;
        let cold = if bytes <= code::MOST_BYTES { self.cold(address, bytes, name) } else { None };
        Ok(Found { name: name.into(), address, offset, bytes, cold, is_go: false })
    }

    /// The cold part of a function: the target of a conditional jump beyond its end.
    fn cold(&self, address: u64, bytes: u64, name: &str) -> Option<(u64, u64)> {
        let code = self.code(address, bytes, name).ok()?;
        let mut decoder = Decoder::with_ip(64, &code, address, DecoderOptions::NONE);
        let mut away = decoder.iter().filter_map(|instruction| {
            let target = instruction.near_branch_target();
            let is_away = target.wrapping_sub(address) >= bytes;
            (instruction.flow_control() == FlowControl::ConditionalBranch && is_away).then_some(target)
        });
        let (begin, bytes) = self.unwind.around(self.file, self.tables, away.next()?)?;
        Some((self.tables.offset_of(begin)?, bytes))
    }
}

/// Data addresses that the function's code mentions, each once.
fn mentioned_x86_64(code: &[u8], address: u64) -> Vec<u64> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut found = Vec::new();
    while decoder.can_decode() && found.len() < MOST_MENTIONED {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            break;
        }
        if instruction.code() == Code::Lea_r64_m && instruction.is_ip_rel_memory_operand() {
            note(&mut found, instruction.ip_rel_memory_address());
        }
    }
    found
}

/// `adrp` puts a page's address into a register, `add` adds the offset.
fn mentioned_arm64(code: &[u8], address: u64) -> Vec<u64> {
    let mut pages: [Option<u64>; 32] = [None; 32];
    let mut found = Vec::new();
    for (at, word) in code.chunks_exact(4).enumerate().take(MOST_BYTES as usize / 4) {
        let word = u32::from_le_bytes(word.try_into().unwrap_or_default());
        let (to, from) = ((word & 31) as usize, ((word >> 5) & 31) as usize);
        if word & 0x9f00_0000 == 0x9000_0000 {
            // 21 bits with a sign, in pages.
            let distance = ((word >> 5) & 0x7_ffff) << 2 | (word >> 29) & 3;
            let distance = i64::from((distance << 11).cast_signed() >> 11) << 12;
            let page = address.wrapping_add(4 * at as u64) & !0xfff;
            pages[to] = Some(page.wrapping_add_signed(distance));
        } else if word & 0xffc0_0000 == 0x9100_0000
            && let Some(page) = pages[from]
            && found.len() < MOST_MENTIONED
        {
            note(&mut found, page.wrapping_add(u64::from((word >> 10) & 0xfff)));
        }
    }
    found
}

/// Adds an address if it is a multiple of 8: tables of pointers are.
fn note(found: &mut Vec<u64>, address: u64) {
    if address.is_multiple_of(8) && !found.contains(&address) {
        found.push(address);
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
