//! TFRecord files: records whose checksums fit, and pictures in them.
#![no_main]

use std::{fs::File, io::Write as _};

use guestscope_workloads::data::tfrecord::{self, FOOTER_BYTES, HEADER_BYTES, Picture};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = guestscope_fuzz::folder().join("records");
    let mut file =
        File::options().read(true).write(true).create(true).truncate(true).open(path).expect("it is ours");
    file.write_all(bytes).expect("it is ours");
    let mut at = 0;
    while let Ok(Some(length)) = tfrecord::length_at(&file, at, bytes.len() as u64) {
        let _ = tfrecord::content_at(&file, at, length).map(Picture::of_example);
        at += HEADER_BYTES + length + FOOTER_BYTES;
    }
    // No input has checksums that fit by chance: as the content of a good record too.
    if let Ok(picture) = Picture::of_example(bytes.to_vec().into()) {
        let again = Picture::of_example(picture.to_example("again.jpg").into());
        assert_eq!(again.as_ref(), Ok(&picture));
    }
});
