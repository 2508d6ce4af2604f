//! A program's file (ELF), in which phases are looked for: whatever it holds, there are places of probes or
//! an error. The input is what is asked for, then the file.
#![no_main]

use guestscope_fuzz::program::{ASKED, look};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((asked, file)) = bytes.split_first() {
        look(&ASKED[usize::from(*asked) % ASKED.len()], file);
    }
});
