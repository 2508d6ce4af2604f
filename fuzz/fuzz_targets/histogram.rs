//! Histograms of a run folder, in HdrHistogram's V2 encoding.
#![no_main]

use std::fs;

use guestscope_folder::Folder;
use libfuzzer_sys::fuzz_target;

const MANIFEST: &str = r#"{"format": 1, "histograms":
    {"entries": [{"kind": "workload", "name": "latency", "file": "latency.v2", "count": 1}]}}"#;

fuzz_target!(|bytes: &[u8]| {
    guestscope_fuzz::let_panics_be_caught();
    let place = guestscope_fuzz::folder();
    fs::create_dir_all(place.join("histograms")).expect("the folder is ours");
    fs::write(place.join("manifest.json"), MANIFEST).expect("the folder is ours");
    fs::write(place.join("histograms/latency.v2"), bytes).expect("the folder is ours");
    let folder = Folder::open(place).expect("the manifest is a good one");
    if let Ok(Some(histogram)) = folder.workload_histogram("latency") {
        let _ = (histogram.len(), histogram.value_at_quantile(0.99));
    }
});
