//! Messages of the library that asks CUPTI inside a program.
#![no_main]

use guestscope_cupti::{Encoded, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((message, length))) = decode(rest) {
        let again = Encoded::of(&message);
        assert!(decode(again.bytes()).is_ok_and(|told| told == Some((message, length))));
        assert!(again.bytes() == &rest[..length]);
        rest = &rest[length..];
    }
});
