//! JPEG files, up to the pixels of small ones.
#![no_main]

use guestscope_workloads::data::image;
use libfuzzer_sys::fuzz_target;

/// Pixels of a picture that is decoded: more take too long.
const MOST: usize = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    guestscope_fuzz::let_panics_be_caught();
    let Ok((_, width, height)) = image::headers(bytes) else { return };
    if width.saturating_mul(height) <= MOST
        && let Ok((rgb, width, height)) = image::decode(bytes)
    {
        assert_eq!(rgb.len(), 3 * width as usize * height as usize);
    }
});
