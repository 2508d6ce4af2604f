//! Records of the kernel's rings: any bytes are a record or an error.
#![no_main]

use guestscope_model::record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = record::decode(bytes) {
        let _ = record.time_ns();
    }
});
