//! The table of workloads that `guestscope-workloads list` prints: what each is and how large, the stalls below.
//! It describes; what a workload does stands in its own file.

use std::fmt::Write as _;

use serde::Serialize;

use crate::stall::kinds::KINDS;

/// One line of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Entry {
    /// As on the command line.
    pub name: &'static str,
    pub what: &'static str,
    pub model: &'static str,
    pub parameters: u64,
    /// What one request reads.
    pub data: &'static str,
}

pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "infer ic",
        what: "image classification",
        model: crate::infer::RESNET50,
        parameters: crate::infer::RESNET50_PARAMETERS,
        data: "JPEG files, 64 generated of 500 x 375 (7 MB) or your own",
    },
    Entry {
        name: "infer loop",
        what: "busy loop",
        model: crate::infer::synthetic::ARITHMETIC,
        parameters: 0,
        data: "nothing: the load without a model, in any build",
    },
];

/// One line of the table of stalls.
#[derive(Clone, Debug, Serialize)]
pub struct StallEntry {
    /// As on the command line.
    pub name: String,
    pub what: &'static str,
    /// What its size is, and without --size.
    pub unit: &'static str,
    pub default: String,
}

/// Of either table.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Row {
    Workload(Entry),
    Stall(StallEntry),
}

/// Both tables, for machines.
pub fn rows() -> Vec<Row> {
    ENTRIES.iter().copied().map(Row::Workload).chain(stalls().map(Row::Stall)).collect()
}

fn stalls() -> impl Iterator<Item = StallEntry> {
    KINDS.iter().map(|kind| StallEntry {
        name: format!("stall {}", kind.name),
        what: kind.what,
        unit: kind.unit.what(),
        default: kind.unit.size(kind.default).to_string(),
    })
}

/// Both tables for people, aligned.
pub fn table() -> String {
    let mut text = String::new();
    let mut line = |name, what, model, parameters: &str, data| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<10} {what:<20} {model:<16} {parameters:>12}  {data}");
    };
    line("name", "what", "model", "parameters", "data");
    for entry in ENTRIES {
        let Entry { name, what, model, parameters, data } = entry;
        line(name, what, model, &grouped(*parameters), data);
    }
    text.push('\n');
    let mut line = |name: &str, default: &str, unit: &str, what: &str| {
        let _ = writeln!(text, "{name:<20} {default:>8}  {unit:<17}  {what}");
    };
    line("name", "size", "which is", "what");
    for StallEntry { name, what, unit, default } in stalls() {
        line(&name, &default, unit, what);
    }
    text
}

/// `25557032` as `25,557,032`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}
