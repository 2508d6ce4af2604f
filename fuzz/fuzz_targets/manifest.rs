//! The manifest of a run folder: it is read, or the folder is refused.
#![no_main]

use std::fs;

use guestscope_base::json;
use guestscope_folder::{Folder, Manifest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = guestscope_fuzz::folder();
    fs::write(folder.join("manifest.json"), bytes).expect("the folder is ours");
    if let Ok(folder) = Folder::open(folder) {
        // What was understood is written, and understood again.
        let text = json::pretty(folder.manifest()).expect("a manifest is JSON");
        let again: Manifest = serde_json::from_str(&text).expect("and the same JSON is a manifest");
        assert_eq!(again.name, folder.manifest().name);
    }
});
