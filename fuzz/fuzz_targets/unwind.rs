//! The search table for unwinding of a program's file: whatever it holds, a function begins at or before an
//! address, or none does. The input is the table's address, the one that is looked for, then the table; its
//! fixed first bytes are put before it.
#![no_main]

use guestscope_fuzz::program::begin_in;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((places, table)) = bytes.split_at_checked(16) else { return };
    let (table_at, wanted) = places.split_at(8);
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    begin_in(word(table_at), word(wanted), table);
});
