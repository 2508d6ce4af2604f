//! Functions of an ELF file without symbols: start and length of each, by the search table for unwinding
//! (`.eh_frame_hdr`; format: Linux Standard Base, exception frames).
//!
//! The file is untrusted: the table is read once, up to [`MOST_TABLE`], and its entry for a function counts
//! only where the function's own record agrees.

use std::{fs::File, os::unix::fs::FileExt as _};

use object::{LittleEndian, read::elf::SectionHeader as _};

use crate::probes::phase::Tables;

/// Most bytes of the table: libtorch's has 4 MB.
const MOST_TABLE: u64 = 64 << 20;
/// Version, and the encodings of the distance to the entries, of their number, and of the table: the only
/// ones that compilers use.
pub(super) const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// Bytes before the table.
const FRONT: usize = 12;
/// Bytes of a function in the table: its start, and the start of its entry.
const ROW: usize = 8;

/// The table, as read.
pub(super) struct Unwind {
    /// Address from which its distances count.
    address: u64,
    rows: Vec<u8>,
}

impl Unwind {
    /// Returns none for a file without such a table, or with a larger one.
    pub(super) fn read(file: &File, tables: &Tables<'_>) -> Option<Self> {
        let section = tables.section(".eh_frame_hdr")?;
        let (offset, bytes) = section.file_range(LittleEndian)?;
        // No more memory is allocated than the file has bytes.
        let has = file.metadata().ok()?.len();
        if bytes > MOST_TABLE || offset.checked_add(bytes)? > has {
            return None;
        }
        let mut rows = vec![0; bytes as usize];
        file.read_exact_at(&mut rows, offset).ok()?;
        Self::parse(section.sh_addr(LittleEndian), rows)
    }

    pub(super) fn parse(address: u64, mut table: Vec<u8>) -> Option<Self> {
        if !table.starts_with(&HEADER) {
            return None;
        }
        let functions = u32::from_le_bytes(table.get(8..FRONT)?.try_into().ok()?) as usize;
        let mut rows = table.split_off(FRONT);
        let bytes = functions.checked_mul(ROW).filter(|bytes| *bytes <= rows.len())?;
        rows.truncate(bytes);
        Some(Self { address, rows })
    }

    /// Start of function `at`, and of its entry.
    fn row(&self, at: usize) -> Option<(u64, u64)> {
        let row = self.rows.get(at * ROW..(at + 1) * ROW)?;
        let far = |from: usize| {
            let distance = i32::from_le_bytes(row[from..from + 4].try_into().unwrap_or_default());
            self.address.wrapping_add_signed(i64::from(distance))
        };
        Some((far(0), far(4)))
    }

    /// The last function that begins at or before this address.
    pub(super) fn at_or_before(&self, address: u64) -> Option<(u64, u64)> {
        let (mut low, mut high) = (0, self.rows.len() / ROW);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.row(middle)?.0 <= address { low = middle + 1 } else { high = middle }
        }
        self.row(low.checked_sub(1)?)
    }

    /// Whether a function begins at this address.
    pub(super) fn begins(&self, address: u64) -> bool {
        self.at_or_before(address).is_some_and(|(begin, _)| begin == address)
    }

    /// Start and length of the function around this address.
    pub(super) fn around(&self, file: &File, tables: &Tables<'_>, address: u64) -> Option<(u64, u64)> {
        let (begin, entry) = self.at_or_before(address)?;
        // Length and owner of the entry, then the distance from there to the function, and the function's
        // length.
        let mut bytes = [0; 16];
        file.read_exact_at(&mut bytes, tables.offset_of(entry)?).ok()?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let own = entry.wrapping_add(8).wrapping_add_signed(i64::from(word(8).cast_signed()));
        let length = u64::from(word(12));
        (own == begin && address - begin < length).then_some((begin, length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn table(functions: &[i32]) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        bytes.extend([0; 4]);
        bytes.extend((functions.len() as u32).to_le_bytes());
        bytes.extend(functions.iter().flat_map(|begin| [begin.to_le_bytes(), [0; 4]].concat()));
        bytes
    }

    #[test]
    fn the_function_around_an_address_is_found() {
        let unwind = Unwind::parse(0x1000, table(&[-0x100, 0x10, 0x40])).unwrap();
        let found = [0xeff, 0xf00, 0x100f, 0x1010, 0x103f, 0x1040, 0x9999]
            .map(|address| (unwind.at_or_before(address).map(|(begin, _)| begin), unwind.begins(address)));
        let expected = [
            (None, false),
            (Some(0xf00), true),
            (Some(0xf00), false),
            (Some(0x1010), true),
            (Some(0x1010), false),
            (Some(0x1040), true),
            (Some(0x1040), false),
        ];
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn a_table_may_say_anything(bytes in vec(any::<u8>(), 0..200), front in any::<bool>(), address in any::<u64>()) {
            let bytes = if front { [&table(&[])[..8], &bytes].concat() } else { bytes };
            if let Some(unwind) = Unwind::parse(address, bytes) {
                let _ = unwind.begins(address);
                let _ = unwind.at_or_before(0);
            }
        }
    }
}
