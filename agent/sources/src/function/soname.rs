//! A library's own name (`DT_SONAME`), by which programs ask for it, whatever its file is called.

use std::{fs::File, os::unix::fs::FileExt as _};

use object::{LittleEndian, read::elf::SectionHeader as _};

use crate::probes::phase::{self, Tables};

/// From elf.h: the tag of the soname, in an entry of two words.
const SONAME: u64 = 14;
const ENTRY: usize = 16;
/// Most bytes of a dynamic section: libtorch's has 1 kB.
const MOST_BYTES: u64 = 64 << 10;

/// Whether a file is a library with this soname.
pub(super) fn has_name(file: &File, name: &str) -> bool {
    let Ok(cache) = phase::cache(file) else { return false };
    Tables::read(&cache).is_some_and(|tables| own_name_is(file, &tables, name.as_bytes()) == Some(true))
}

fn own_name_is(file: &File, tables: &Tables<'_>, name: &[u8]) -> Option<bool> {
    let range = |section: &str| tables.section(section)?.file_range(LittleEndian);
    let ((offset, length), (names, names_length)) = (range(".dynamic")?, range(".dynstr")?);
    let mut entries = vec![0; length.min(MOST_BYTES) as usize];
    file.read_exact_at(&mut entries, offset).ok()?;
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let entry = entries.chunks_exact(ENTRY).find(|entry| word(&entry[..8]) == SONAME)?;
    let at = word(&entry[8..]);
    let end = at.checked_add(name.len() as u64 + 1)?;
    let mut own = vec![0; name.len() + 1];
    file.read_exact_at(&mut own, names.checked_add(at)?).ok()?;
    Some(end <= names_length && own.split_last() == Some((&0, name)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_library_is_known_by_its_own_name() {
        let mut file = tempfile::tempfile().expect("a file can be made");
        file.write_all(include_bytes!(concat!(env!("OUT_DIR"), "/libguestscope.so"))).expect("it is ours");
        assert!(has_name(&file, "libguestscope.so.1"));
        assert!(!has_name(&file, "libguestscope.so") && !has_name(&file, "libguestscope.so.10"));
        assert!(!has_name(&tempfile::tempfile().expect("a file can be made"), "libguestscope.so"));
    }
}
