//! The table of workloads that `guestscope-workloads list` prints: what each is and how large, the stalls below.
//! It describes; what a workload does stands in its own file.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{h2o, stall::kinds::KINDS, train::MODELS};

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

/// One training job, a line of the same table.
#[derive(Clone, Debug, Serialize)]
pub struct TrainEntry {
    /// As on the command line.
    pub name: String,
    pub what: &'static str,
    pub model: &'static str,
    pub parameters: u64,
    /// Images per step, if nothing else is asked for.
    pub batch: u64,
    /// What one step learns from.
    pub data: &'static str,
}

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

/// One line of the table of the H2O study's workloads.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct H2oEntry {
    /// As on the command line.
    pub name: &'static str,
    pub what: &'static str,
    pub phases: &'static [&'static str],
    /// How large it is without options, and how to make it larger.
    pub size: &'static str,
    pub needs: &'static str,
}

const FLIGHTS: &str = "2,000 flights (0.2 MB); --rows N or your own file";

pub const H2O: &[H2oEntry] = &[
    H2oEntry {
        name: "h2o generate",
        what: "airline delays as CSV",
        phases: h2o::generate::PHASES,
        size: "2,000 flights (0.2 MB); --rows 152000000 (16 GB)",
        needs: "room on a disk",
    },
    H2oEntry {
        name: "h2o parse",
        what: "CSV to columns",
        phases: h2o::parse::PHASES,
        size: FLIGHTS,
        needs: "1 CPU, 20 MB of memory",
    },
    H2oEntry {
        name: "h2o glm",
        what: "binomial GLM by IRLS",
        phases: h2o::glm::PHASES,
        size: FLIGHTS,
        needs: "1 CPU, 19 bytes of memory per flight",
    },
    H2oEntry {
        name: "h2o mlp",
        what: "network, bound by CPU",
        phases: h2o::mlp::PHASES,
        size: "307-200-200-1, batch 512; 102,001 parameters",
        needs: "all CPUs",
    },
    H2oEntry {
        name: "h2o mlp --size memory",
        what: "network, by memory",
        phases: h2o::mlp::PHASES,
        size: "307-8192-8192-1, batch 1; 69,648,385 parameters",
        needs: "all CPUs, 560 MB of memory",
    },
];

/// Of any table.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Row {
    Workload(Entry),
    Train(TrainEntry),
    H2o(H2oEntry),
    Stall(StallEntry),
}

/// All tables, for machines.
pub fn rows() -> Vec<Row> {
    let trained = jobs().map(Row::Train);
    let rows = ENTRIES.iter().copied().map(Row::Workload).chain(trained);
    rows.chain(H2O.iter().copied().map(Row::H2o)).chain(stalls().map(Row::Stall)).collect()
}

fn jobs() -> impl Iterator<Item = TrainEntry> {
    MODELS.iter().map(|model| TrainEntry {
        name: format!("train {}", model.name),
        what: "training",
        model: model.what,
        parameters: model.parameters,
        batch: model.batch,
        data: if model.frame.is_some() {
            "random images, or your folder of JPEG files"
        } else {
            "random images"
        },
    })
}

fn stalls() -> impl Iterator<Item = StallEntry> {
    KINDS.iter().map(|kind| StallEntry {
        name: format!("stall {}", kind.name),
        what: kind.what,
        unit: kind.unit.what(),
        default: kind.unit.size(kind.default).to_string(),
    })
}

/// All tables for people, aligned.
pub fn table() -> String {
    let mut text = String::new();
    let mut line = |name: &str, what, model, parameters: &str, data| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<16} {what:<20} {model:<27} {parameters:>12}  {data}");
    };
    line("name", "what", "model", "parameters", "data");
    for entry in ENTRIES {
        let Entry { name, what, model, parameters, data } = entry;
        line(name, what, model, &grouped(*parameters), data);
    }
    for TrainEntry { name, what, model, parameters, data, .. } in jobs() {
        line(&name, what, model, &grouped(parameters), data);
    }
    text.push('\n');
    let mut line = |name, what, size, needs| {
        let _ = writeln!(text, "{name:<21}  {what:<21}  {size:<49}  {needs}");
    };
    line("name (study H2O)", "what", "size", "needs");
    for H2oEntry { name, what, size, needs, .. } in H2O {
        line(name, what, size, needs);
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
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}
