//! Tables of a run folder: Arrow streams while a run is on, Parquet afterwards. The first byte says which
//! table in which form; the rest is the file.
#![no_main]

use std::{fs, path::Path};

use guestscope_folder::{FORMAT, Folder};
use guestscope_model::analyze::Needs;
use libfuzzer_sys::fuzz_target;

const TABLES: [&str; 6] = ["phases", "threads", "samples", "marks", "waits", "gpu_work"];
const FORMS: [&str; 2] = ["arrows", "parquet"];

fuzz_target!(|bytes: &[u8]| {
    guestscope_fuzz::let_panics_be_caught();
    let Some((&first, file)) = bytes.split_first() else { return };
    let (table, form) = (usize::from(first) % TABLES.len(), usize::from(first) / TABLES.len() % FORMS.len());
    let place = guestscope_fuzz::folder();
    let path = place.join(format!("{}.{}", TABLES[table], FORMS[form]));
    fs::write(place.join("manifest.json"), format!(r#"{{"format": {FORMAT}}}"#)).expect("the folder is ours");
    fs::write(&path, file).expect("the folder is ours");
    read(place, table);
    fs::remove_file(&path).expect("the folder is ours");
});

fn read(place: &Path, table: usize) {
    let Ok(folder) = Folder::open(place) else { return };
    match table {
        0 => {
            folder.requests().map(Iterator::count).ok();
            folder.requests_with(Needs::Numbers).map(Iterator::count).ok()
        }
        1 => folder.threads().map(Iterator::count).ok(),
        2 => folder.samples().map(Iterator::count).ok(),
        3 => folder.marks().map(Iterator::count).ok(),
        4 => folder.waits().map(Iterator::count).ok(),
        _ => folder.gpu_work().map(|rows| rows.into_iter().flatten().count()).ok(),
    };
}
