//! `fuzz_folders AGENT MUTATED CRAFTED SEED [crafted:N|mutated:N]`: gives hostile run folders to the verbs
//! that read folders. Prints a table and all faults; exits with 1 if there were any. `cargo xtask fuzz` runs
//! it.
#![expect(clippy::print_stdout, reason = "it is what a person reads")]

mod craft;
mod fuzz;
mod observed;
mod parts;

use fuzz::{Plan, fuzz};
use observed::VERBS;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).expect("a number");
    let only = words.get(4).and_then(|word| word.split_once(':'));
    let only = only.map(|(kind, index)| (kind == "crafted", index.parse().expect("a number")));
    let plan = Plan { mutated: number(1), crafted: number(2), seed: number(3), only };
    let place = tempfile::tempdir().expect("a temporary directory");
    let report = fuzz(words[0].as_ref(), plan, place.path());
    println!(
        "{:<18} {:>8} {:>8} {:>8} {:>7} {:>9}",
        "verb", "folders", "told", "refused", "faults", "most MiB"
    );
    for (verb, row) in VERBS.iter().zip(&report.rows) {
        println!(
            "{verb:<18} {:>8} {:>8} {:>8} {:>7} {:>9}",
            row.folders,
            row.told,
            row.refused,
            row.faults,
            row.most_rss_bytes >> 20
        );
    }
    for fault in &report.faults {
        println!("{}", fault.escape_debug());
    }
    drop(place);
    if !report.faults.is_empty() {
        std::process::exit(1);
    }
}
