//! The object's read-only globals: values that the agent knows before loading.
//!
//! They are written into the object's .rodata, and into the instructions of some programs that read them: see
//! `folding.rs`.

use std::{collections::BTreeMap, ops::Range};

use aya::Pod;
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, SectionIndex, SectionKind, SymbolIndex,
    elf::SHT_REL,
    read::elf::{ElfFile64, ElfSection64, SectionHeader as _},
};

use super::{
    LoadError,
    folding::{Address, fold},
};

/// Bytes of an ELF relocation without an addend: its place, and the symbol in the upper half of a word.
const RELOCATION: usize = 16;

/// Tracepoints whose programs are folded: those that run at each switch and wake-up. The kernel takes out one
/// instruction at a time and looks for jumps over it in the whole program each time, so folding all programs
/// makes loading 10 ms longer (of 120, 6.18).
const HOT: [&str; 3] = ["sched_switch", "sched_waking", "sched_wakeup"];

type Elf<'a> = ElfFile64<'a, LittleEndian>;

/// Values by the names of the globals.
#[derive(Debug, Default)]
pub(super) struct Globals {
    values: BTreeMap<&'static str, Vec<u8>>,
}

impl Globals {
    /// Sets a global.
    pub(super) fn set<T: Pod>(&mut self, name: &'static str, value: T) {
        self.set_all(name, &[value]);
    }

    /// Sets a global that is an array.
    pub(super) fn set_all<T: Pod>(&mut self, name: &'static str, values: &[T]) {
        // SAFETY: a type whose values are all bytes, without padding.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
        self.values.insert(name, bytes.to_vec());
    }

    /// Writes all of them into the object. Those that nobody set keep the value that they have in it.
    ///
    /// # Errors
    /// The object has no such global, or one of another size.
    pub(super) fn put_into(&self, object: &mut [u8]) -> Result<(), LoadError> {
        let Layout { rodata, values, code } = Layout::of(object, &self.values)?;
        for (at, value) in values {
            object[at..at + value.len()].copy_from_slice(value);
        }
        let rodata = object[rodata].to_vec();
        for Code { range, relocations, addresses, functions } in code {
            let gone = fold(&mut object[range], &addresses, &functions, &rodata);
            forget(&mut object[relocations], &gone);
        }
        Ok(())
    }
}

/// Takes out the relocations of instructions that are gone, by their places: each becomes a copy of one that
/// stays. There is one: `fold` leaves an address in each section.
fn forget(relocations: &mut [u8], gone: &[usize]) {
    let place = |entry: &[u8]| u64::from_le_bytes(entry[..8].try_into().unwrap_or_default()) as usize;
    let stays = relocations.chunks_exact(RELOCATION).find(|entry| !gone.contains(&place(entry)));
    let Some(stays) = stays.map(<[u8]>::to_vec) else { return };
    for entry in relocations.chunks_exact_mut(RELOCATION) {
        if gone.contains(&place(entry)) {
            entry.copy_from_slice(&stays);
        }
    }
}

/// Instructions of a section.
struct Code {
    /// Place in the file.
    range: Range<usize>,
    /// Place of its relocations in the file.
    relocations: Range<usize>,
    /// Instructions that load addresses in .rodata.
    addresses: Vec<Address>,
    /// Starts of functions, in bytes of the section.
    functions: Vec<usize>,
}

/// Where everything lies in the object.
struct Layout<'a> {
    rodata: Range<usize>,
    /// Places in the file, and what comes there.
    values: Vec<(usize, &'a [u8])>,
    code: Vec<Code>,
}

impl<'a> Layout<'a> {
    fn of(object: &[u8], values: &'a BTreeMap<&'static str, Vec<u8>>) -> Result<Self, LoadError> {
        let missing = || LoadError::Missing(".rodata");
        let elf = Elf::parse(object).map_err(|_| missing())?;
        let rodata = elf.section_by_name(".rodata").ok_or_else(missing)?;
        let (index, rodata) = (rodata.index(), place(&rodata));
        let mut places = Vec::new();
        for (name, value) in values {
            let is_it = |symbol: &object::read::elf::ElfSymbol64<'_, '_, LittleEndian>| {
                symbol.section_index() == Some(index)
                    && symbol.name() == Ok(name)
                    && symbol.size() == value.len() as u64
            };
            let symbol = elf.symbols().find(is_it).ok_or(LoadError::Missing(name))?;
            places.push((rodata.start + symbol.address() as usize, value.as_slice()));
        }
        let is_hot = |section: &ElfSection64<'_, '_, LittleEndian>| {
            let program = section.name().ok().and_then(|name| name.rsplit('/').next());
            section.kind() == SectionKind::Text && program.is_some_and(|name| HOT.contains(&name))
        };
        let code = elf.sections().filter(is_hot);
        let code = code.filter_map(|section| Code::of(&elf, &section, index, object)).collect();
        Ok(Self { rodata, values: places, code })
    }
}

impl Code {
    /// None for a section without relocations.
    fn of(
        elf: &Elf<'_>,
        section: &ElfSection64<'_, '_, LittleEndian>,
        rodata: SectionIndex,
        object: &[u8],
    ) -> Option<Self> {
        let is_of_it = |other: &ElfSection64<'_, '_, LittleEndian>| {
            let header = other.elf_section_header();
            header.sh_type(LittleEndian) == SHT_REL
                && header.sh_info(LittleEndian) as usize == section.index().0
        };
        let relocations = place(&elf.sections().find(is_of_it)?);
        let address = |entry: &[u8]| {
            let word = |at: usize| entry[at..at + 8].try_into().map(u64::from_le_bytes).ok();
            let symbol = elf.symbol_by_index(SymbolIndex((word(8)? >> 32) as usize)).ok()?;
            let is_ours = symbol.section_index() == Some(rodata);
            is_ours.then_some(Address { at: word(0)? as usize, symbol: symbol.address() as usize })
        };
        let addresses =
            object.get(relocations.clone())?.chunks_exact(RELOCATION).filter_map(address).collect();
        let functions = elf.symbols().filter(|symbol| symbol.section_index() == Some(section.index()));
        let functions = functions.map(|symbol| symbol.address() as usize).collect();
        Some(Self { range: place(section), relocations, addresses, functions })
    }
}

/// A section's place in the file.
fn place(section: &ElfSection64<'_, '_, LittleEndian>) -> Range<usize> {
    let (at, bytes) = section.file_range().unwrap_or_default();
    at as usize..(at + bytes) as usize
}
