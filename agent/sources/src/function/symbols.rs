//! Functions of an ELF file, by its symbol tables: their offsets in the file.
//!
//! The file is untrusted and may change at any time: it is read in pieces, up to [`MOST_NAMES`] and
//! [`MOST_SYMBOLS`], and never mapped.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

use object::{
    LittleEndian,
    elf::{
        SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC, SectionHeader64, SectionType, SymbolType,
    },
    read::elf::SectionHeader as _,
};

use super::{
    found::{Found, MOST_FUNCTIONS, SymbolError},
    golang,
    names::{self, Pattern},
    pclntab::GoTable,
};
use crate::{
    probes::phase::{self, Tables},
    untrusted::Untrusted,
};

/// Most bytes of names in one table: those of libtorch's functions are 30 MB.
const MOST_NAMES: u64 = 128 << 20;
/// Most symbols in one table.
const MOST_SYMBOLS: u64 = 4 << 20;
/// The same in a library that nobody asked for: libcuda 535 exports 700 functions with 20 kB of names.
const MOST_EXPORTED: (u64, u64) = (64 << 10, 4 << 20);
/// Bytes of a symbol (`Elf64_Sym`).
const SYMBOL: usize = 24;
/// Symbols read at once.
const PIECE: usize = 32 << 10;
/// Similar names listed where none matches.
const NEAREST: usize = 3;
/// Time limit of the search for similar names.
const LOOK: Duration = Duration::from_millis(500);

/// A source of function names.
enum Names<'a> {
    Elf(Table<'a>),
    Go(GoTable),
}

impl Names<'_> {
    /// Calls `each` with each function's name, whether it is chosen at load time, its address and its length,
    /// until it returns false.
    fn functions(&self, mut each: impl FnMut(&str, bool, u64, u64) -> bool) -> Result<(), SymbolError> {
        match self {
            Self::Elf(table) => table.functions(each),
            Self::Go(table) => {
                table.functions(|name, address, bytes| each(name, false, address, bytes));
                Ok(())
            }
        }
    }
}

/// A table of symbols, and the text of its names.
struct Table<'a> {
    file: &'a File,
    offset: u64,
    symbols: u64,
    names: Vec<u8>,
}

impl<'a> Table<'a> {
    /// Reads the table of this kind, if it has at most so many symbols and bytes of names.
    fn read(
        file: &'a File,
        tables: &Tables<'_>,
        kind: SectionType,
        (most_symbols, most_names): (u64, u64),
    ) -> Result<Option<Self>, SymbolError> {
        let Some((section, names)) = tables.with_names(kind) else { return Ok(None) };
        let range = |section: &SectionHeader64<LittleEndian>| {
            section.file_range(LittleEndian).ok_or(SymbolError::Stripped)
        };
        let ((offset, bytes), (names_at, names_bytes)) = (range(section)?, range(names)?);
        let symbols = bytes / SYMBOL as u64;
        if symbols > most_symbols || names_bytes > most_names {
            return Err(SymbolError::TooLarge);
        }
        // No more memory is allocated than the file has bytes.
        let has = file.metadata().map_err(|error| SymbolError::Read(error.kind()))?.len();
        if names_at.checked_add(names_bytes).is_none_or(|end| end > has) {
            return Err(SymbolError::NotElf);
        }
        let mut names = vec![0; names_bytes as usize];
        file.read_exact_at(&mut names, names_at).map_err(|error| SymbolError::Read(error.kind()))?;
        Ok(Some(Self { file, offset, symbols, names }))
    }

    fn name(&self, at: u32) -> Option<&str> {
        let text = self.names.get(at as usize..)?;
        let text = &text[..text.len().min(names::MOST + 1)];
        let end = text.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&text[..end]).ok().filter(|name| !name.is_empty())
    }

    /// See [`Names::functions`].
    fn functions(&self, mut each: impl FnMut(&str, bool, u64, u64) -> bool) -> Result<(), SymbolError> {
        let mut piece = vec![0; PIECE * SYMBOL];
        let mut at = 0;
        while at < self.symbols {
            let symbols = (self.symbols - at).min(PIECE as u64);
            let bytes = &mut piece[..symbols as usize * SYMBOL];
            let offset = self.offset.saturating_add(at * SYMBOL as u64);
            self.file.read_exact_at(bytes, offset).map_err(|error| SymbolError::Read(error.kind()))?;
            for symbol in bytes.chunks_exact(SYMBOL) {
                let word = |at: usize| u64::from_le_bytes(symbol[at..at + 8].try_into().unwrap_or_default());
                let (name, info, section) =
                    (word(0) as u32, symbol[4], u16::from_le_bytes([symbol[6], symbol[7]]));
                let kind = SymbolType(info & 0xf);
                if section == SHN_UNDEF.0 || !(kind == STT_FUNC || kind == STT_GNU_IFUNC) {
                    continue;
                }
                if let Some(name) = self.name(name)
                    && !each(name, kind == STT_GNU_IFUNC, word(8), word(16))
                {
                    return Ok(());
                }
            }
            at += symbols;
        }
        Ok(())
    }
}

/// Calls `each` with the name and the offset in the file of every function that a library exports.
pub(crate) fn exported(file: &File, mut each: impl FnMut(&str, u64)) -> Result<(), SymbolError> {
    let cache = phase::cache(file).map_err(|error| SymbolError::Read(error.kind()))?;
    let tables = Tables::read(&cache).ok_or(SymbolError::NotElf)?;
    let table = Table::read(file, &tables, SHT_DYNSYM, MOST_EXPORTED)?.ok_or(SymbolError::Stripped)?;
    table.functions(|name, is_chosen, address, _| {
        if let Some(offset) = tables.offset_of(address).filter(|_| !is_chosen) {
            each(name, offset);
        }
        true
    })
}

/// The matching functions, each once, whatever names it has.
pub(super) fn find(file: &File, wanted: &str) -> Result<Vec<Found>, SymbolError> {
    let cache = phase::cache(file).map_err(|error| SymbolError::Read(error.kind()))?;
    let tables = Tables::read(&cache).ok_or(SymbolError::NotElf)?;
    let is_go = golang::is_of_go(&tables);
    let pattern = Pattern::new(wanted);
    let of_go = if is_go { GoTable::read(file, &tables) } else { None };
    let text_of_go = of_go.as_ref().and_then(GoTable::text).unwrap_or_default();
    let mut read = Vec::new();
    for kind in [SHT_SYMTAB, SHT_DYNSYM] {
        read.extend(Table::read(file, &tables, kind, (MOST_SYMBOLS, MOST_NAMES))?.map(Names::Elf));
    }
    // Go's linker omits symbols on request, but never what its runtime needs.
    if tables.with_names(SHT_SYMTAB).is_none() {
        read.extend(of_go.map(Names::Go));
    }
    if read.is_empty() {
        return Err(SymbolError::Stripped);
    }
    let (mut found, mut all, mut chosen): (Vec<Found>, usize, bool) = (Vec::new(), 0, false);
    let mut names: Vec<String> = Vec::new();
    for table in &read {
        table.functions(|name, is_chosen, address, bytes| {
            let Some(shown) = pattern.shown(name) else { return true };
            let Some(offset) = tables.offset_of(address) else { return true };
            if is_chosen {
                chosen = true;
            } else if found.iter().all(|found| found.offset != offset) {
                all += 1;
                if found.len() < MOST_FUNCTIONS {
                    let is_go = text_of_go.contains(&address);
                    found.push(Found { name: shown.into(), address, offset, bytes, cold: None, is_go });
                    names.push(name.to_owned());
                }
            }
            true
        })?;
    }
    for table in &read {
        table.functions(|name, _, address, bytes| {
            let whole = name.split_once(".cold").map(|(whole, _)| whole);
            if let Some(at) = whole.and_then(|whole| names.iter().position(|name| name == whole))
                && let Some(offset) = tables.offset_of(address)
            {
                found[at].cold = Some((offset, bytes));
            }
            true
        })?;
    }
    match found.len() {
        0 if chosen => Err(SymbolError::Chosen),
        0 => Err(SymbolError::NotThere(nearest_names(&read, &pattern)?)),
        _ if all > MOST_FUNCTIONS => Err(SymbolError::TooMany(all)),
        _ => {
            // Without a table it is unknown which functions are Go's.
            if is_go && (text_of_go.is_empty() || found.iter().any(|found| found.is_go)) {
                golang::check_version(file, &tables)?;
            }
            Ok(found)
        }
    }
}

/// The names most like the one that was typed.
fn nearest_names(tables: &[Names<'_>], pattern: &Pattern<'_>) -> Result<Vec<Untrusted>, SymbolError> {
    const LEAST: f64 = 0.6;
    let begun = Instant::now();
    let mut best: Vec<(f64, String)> = Vec::new();
    for table in tables {
        table.functions(|name, _, _, _| {
            let readable = names::demangled(name);
            let shown = readable.as_deref().unwrap_or(name);
            let near = pattern.nearness(shown);
            let is_better = best.len() < NEAREST || best.last().is_some_and(|last| near > last.0);
            if near >= LEAST && is_better && best.iter().all(|one| one.1 != shown) {
                best.push((near, shown.to_owned()));
                best.sort_by(|one, other| other.0.total_cmp(&one.0));
                best.truncate(NEAREST);
            }
            begun.elapsed() < LOOK
        })?;
    }
    Ok(best.into_iter().map(|(_, name)| Untrusted::from(name)).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libguestscope.so"));

    fn own() -> File {
        File::open("/proc/self/exe").expect("it runs")
    }

    fn library(change: impl FnOnce(&mut Vec<u8>)) -> File {
        let mut bytes = LIBRARY.to_vec();
        change(&mut bytes);
        let mut file = tempfile::tempfile().expect("a file can be made");
        file.write_all(&bytes).expect("it is ours");
        file
    }

    #[test]
    fn a_function_is_found_by_the_name_that_people_write() {
        let found = find(&own(), "guestscope_sources::function::symbols::find").unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].bytes > 0 && !found[0].is_go);
        let by_pattern = find(&own(), "*::function::symbols::fin*").unwrap();
        assert!(by_pattern.contains(&found[0]));
        let exported = find(&library(|_| {}), "guestscope_begin").unwrap();
        assert_eq!(exported.len(), 1);
    }

    #[test]
    fn what_a_library_exports_is_listed_once_with_its_offset() {
        let mut names = Vec::new();
        exported(&library(|_| {}), |name, offset| names.push((name.to_owned(), offset))).unwrap();
        let found = find(&library(|_| {}), "guestscope_begin").unwrap();
        let begin: Vec<u64> =
            names.iter().filter(|(name, _)| name == "guestscope_begin").map(|(_, offset)| *offset).collect();
        assert_eq!(begin, [found[0].offset]);
        assert_eq!(exported(&library(Vec::clear), |_, _| ()), Err(SymbolError::NotElf));
    }

    #[test]
    fn what_is_not_there_names_what_is_like_it() {
        let Err(SymbolError::NotThere(near)) = find(&library(|_| {}), "guestscope_beginn") else { panic!() };
        assert_eq!(near[0].stored(), "guestscope_begin");
        let Err(SymbolError::TooMany(all)) = find(&own(), "core::*") else { panic!() };
        assert!(all > MOST_FUNCTIONS);
    }

    #[test]
    fn what_is_no_program_is_said() {
        assert_eq!(find(&library(Vec::clear), "x"), Err(SymbolError::NotElf));
        assert_eq!(find(&library(|bytes| bytes.truncate(100)), "x"), Err(SymbolError::NotElf));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_file_may_hold_anything(changes in vec((any::<usize>(), any::<u8>()), 1..40), header in any::<bool>()) {
            let file = library(|bytes| {
                let length = if header { 64 } else { bytes.len() };
                for (at, byte) in changes {
                    bytes[at % length] = byte;
                }
            });
            let _ = find(&file, "guestscope_b*");
            let _ = find(&file, "nothing");
            let _ = exported(&file, |_, _| ());
        }
    }
}
