//! Names of Go's functions in a program without symbols: the runtime keeps a table of them for its own stack
//! traces.
//!
//! The format is that of Go 1.18 and later (Go's `src/debug/gosym/pclntab.go` and `src/runtime/symtab.go`).
//! The file may be anybody's: each offset is checked against what was read.

use std::{
    fs::File,
    ops::Range,
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

use object::{LittleEndian, read::elf::SectionHeader as _};

use super::{golang, names};
use crate::probes::phase::Tables;

/// Sections of the table: the second in position-independent programs.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Magic numbers of the table, for 1.18 and 1.20.
const MAGIC: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Most bytes of a table: Kubernetes' programs have 40 MB.
const MOST_BYTES: u64 = 96 << 20;
/// Most functions: Kubernetes' programs have 130,000. Together with the length of a name it bounds the time
/// that a table takes: names may overlap.
const MOST_FUNCTIONS: usize = 1 << 20;
/// Longest search for a function.
const LOOK: Duration = Duration::from_secs(2);
/// Functions between two looks at the clock.
const STEP: usize = 1 << 12;
/// Words of its header, after 8 bytes.
const FUNCTIONS: usize = 0;
const TEXT: usize = 2;
const NAMES: usize = 3;
const TABLE: usize = 7;
const HEADER: usize = 8 + 8 * 8;
/// Bytes of one function in the table: its offset from the start of the text, and the offset of its data.
const ENTRY: usize = 8;
/// Offset in `runtime.moduledata` of the start of the text.
const MODULE_TEXT: u64 = 176;

/// The table.
pub(super) struct GoTable {
    bytes: Vec<u8>,
    text: u64,
}

impl GoTable {
    /// The table of this file, if it has one that leads to the scheduler's code.
    pub(super) fn read(file: &File, tables: &Tables<'_>) -> Option<Self> {
        let section = SECTIONS.iter().find_map(|name| tables.section(name))?;
        let (offset, length) =
            section.file_range(LittleEndian).filter(|(_, length)| *length <= MOST_BYTES)?;
        let has = file.metadata().ok()?.len();
        offset.checked_add(length).filter(|end| *end <= has)?;
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, offset).ok()?;
        let mut table = Self { bytes, text: 0 };
        let is_known = MAGIC.contains(&table.half(0)?) && table.bytes.len() >= HEADER;
        let texts = [table.word(TEXT).filter(|_| is_known)?, module_text(file, tables), text(tables)];
        texts.into_iter().filter(|text| *text != 0).find(|text| {
            table.text = *text;
            table.leads_to_code(file, tables)
        })?;
        Some(table)
    }

    fn half(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    }

    /// A word of the header.
    fn word(&self, number: usize) -> Option<u64> {
        let bytes = self.bytes.get(8 + 8 * number..16 + 8 * number)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    /// Name, address and length of function `number`.
    fn function(&self, number: usize) -> Option<(&str, u64, u64)> {
        let table = usize::try_from(self.word(TABLE)?).ok()?;
        let entry = table.checked_add(number.checked_mul(ENTRY)?)?;
        let (begin, more, next) =
            (self.half(entry)?, self.half(entry.checked_add(4)?)?, self.half(entry.checked_add(ENTRY)?)?);
        let name = self.half(table.checked_add(more as usize)?.checked_add(4)?)?;
        let name = usize::try_from(self.word(NAMES)?).ok()?.checked_add(name as usize)?;
        let text = self.bytes.get(name..)?;
        let end = text.iter().take(names::MOST + 1).position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(&text[..end]).ok().filter(|name| !name.is_empty())?;
        Some((name, self.text.checked_add(u64::from(begin))?, u64::from(next.checked_sub(begin)?)))
    }

    /// Calls `each` with the name, address and length of each function, until it returns false.
    pub(super) fn functions(&self, mut each: impl FnMut(&str, u64, u64) -> bool) {
        let begun = Instant::now();
        for number in 0..self.count() {
            let Some((name, address, length)) = self.function(number) else { return };
            let is_late = number % STEP == STEP - 1 && begun.elapsed() >= LOOK;
            if !each(name, address, length) || is_late {
                return;
            }
        }
    }

    fn count(&self) -> usize {
        let functions = self.word(FUNCTIONS).and_then(|all| usize::try_from(all).ok()).unwrap_or(0);
        functions.min(self.bytes.len() / ENTRY).min(MOST_FUNCTIONS)
    }

    /// Addresses of all functions of Go's: those of C lie around them.
    pub(super) fn text(&self) -> Option<Range<u64>> {
        let (_, begin, _) = self.function(0)?;
        let (_, last, length) = self.function(self.count().checked_sub(1)?)?;
        Some(begin..last.checked_add(length)?)
    }

    /// Whether the scheduler's code is where the table points: the assumed start of the text may be wrong.
    fn leads_to_code(&self, file: &File, tables: &Tables<'_>) -> bool {
        let mut leads = false;
        self.functions(|name, address, length| {
            let is_it = name == golang::SCHEDULE;
            if is_it && let Some(offset) = tables.offset_of(address) {
                leads = golang::begin_of(file, offset, length)
                    .is_ok_and(|begin| golang::entry(&begin, offset) != offset);
            }
            !is_it
        });
        leads
    }
}

/// Start of the text, from the runtime's description of the program (1.26 and later, in programs with fixed
/// addresses); else 0.
fn module_text(file: &File, tables: &Tables<'_>) -> u64 {
    let mut word = [0; 8];
    let range = tables.section(".go.module").and_then(|section| section.file_range(LittleEndian));
    let at = range.and_then(|(offset, _)| offset.checked_add(MODULE_TEXT));
    let is_read = at.is_some_and(|at| file.read_exact_at(&mut word, at).is_ok());
    if is_read { u64::from_le_bytes(word) } else { 0 }
}

fn text(tables: &Tables<'_>) -> u64 {
    tables.section(".text").map_or(0, |section| section.sh_addr.get(LittleEndian))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// A table of functions by name, with their distances from the start of the text; the last one ends at
    /// `end`.
    fn table(functions: &[(&str, u32)], end: u32) -> Vec<u8> {
        let (mut names, mut more) = (Vec::new(), Vec::new());
        let begin = 8 * functions.len() as u32 + 4;
        let mut entries: Vec<u32> = Vec::new();
        for (name, entry) in functions {
            entries.extend([*entry, begin + more.len() as u32]);
            more.extend(entry.to_le_bytes());
            more.extend((names.len() as u32).to_le_bytes());
            names.extend(name.bytes().chain([0]));
        }
        entries.push(end);
        let at = (HEADER + names.len()) as u64;
        let header = [functions.len() as u64, 0, 0, HEADER as u64, 0, 0, 0, at];
        let mut bytes = MAGIC[1].to_le_bytes().to_vec();
        bytes.extend([0, 0, 1, 8]);
        bytes.extend(header.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(names);
        bytes.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
        bytes.extend(more);
        bytes
    }

    fn listed(bytes: Vec<u8>) -> Vec<(String, u64, u64)> {
        let mut listed = Vec::new();
        GoTable { bytes, text: 0x1000 }.functions(|name, address, length| {
            listed.push((name.to_owned(), address, length));
            true
        });
        listed
    }

    #[test]
    fn functions_have_names_addresses_and_lengths() {
        let functions = listed(table(&[("main.handle", 0), ("runtime.schedule", 0x40)], 0x90));
        let text =
            GoTable { bytes: table(&[("main.handle", 0), ("runtime.schedule", 0x40)], 0x90), text: 0x1000 }
                .text();
        assert_eq!(text, Some(0x1000..0x1090));
        let expected = [("main.handle", 0x1000, 0x40), ("runtime.schedule", 0x1040, 0x50)];
        assert_eq!(functions, expected.map(|(name, address, length)| (name.to_owned(), address, length)));
    }

    proptest! {
        #[test]
        fn a_table_may_hold_anything(
            changes in vec((any::<usize>(), any::<u8>()), 1..20),
            length in any::<usize>(),
        ) {
            let mut bytes = table(&[("main.handle", 0), ("runtime.schedule", 0x40)], 0x90);
            for (at, byte) in changes {
                let length = bytes.len();
                bytes[at % length] = byte;
            }
            bytes.truncate(length % (bytes.len() + 1));
            let _ = GoTable { bytes: bytes.clone(), text: 0x1000 }.text();
            let _ = listed(bytes);
        }
    }
}
