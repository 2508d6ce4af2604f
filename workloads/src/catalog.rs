//! The table of workloads that `guestscope-workloads list` prints: description and size of each, stalls last.
//! What a workload does is in its own file.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    h2o,
    load::PHASES,
    numbers::grouped,
    stall::{self, kinds::KINDS},
    train::{self, MODELS},
};

/// One line of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// The study's label.
    pub study: &'static str,
    pub what: &'static str,
    pub model: &'static str,
    pub parameters: u64,
    /// Phases of a request, in order.
    pub phases: &'static [&'static str],
    /// What one request reads.
    pub data: &'static str,
    pub needs: &'static str,
}

/// "Exploring the Impact of Virtualization on the Usability of Deep Learning Applications".
const SAMANI: &str = "Samani & Salehi";
/// "Comparison Between Bare-metal, Container and VM using TensorFlow Image Classification Benchmarks".
const LIN: &str = "Lin, Pai & Chou";
/// "Impact of Virtualization on Machine Learning".
const VIRTUALIZATION: &str = "H2O";
/// "Containerized ML natively with vGPU vs in a VM".
const VMWARE: &str = "VMware, vGPU";

pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "infer ic",
        study: SAMANI,
        what: "image classification",
        model: crate::infer::RESNET50,
        parameters: crate::infer::RESNET50_PARAMETERS,
        phases: &PHASES,
        data: "JPEG files, 64 generated of 500 x 375 (7 MB) or your own",
        needs: "0.3 GB of memory, libtorch",
    },
    Entry {
        name: "infer nlp",
        study: SAMANI,
        what: "natural language",
        model: crate::infer::BERT,
        parameters: crate::infer::BERT_PARAMETERS,
        phases: &PHASES,
        data: "a question and a passage, 256 generated (0.3 MB) or your own",
        needs: "1.6 GB of memory (--scale F), libtorch",
    },
    Entry {
        name: "infer rs",
        study: SAMANI,
        what: "recommendation",
        model: crate::infer::DLRM,
        parameters: crate::infer::DLRM_PARAMETERS,
        phases: &PHASES,
        data: "100 to 700 records of clicks, 64 files generated (4 MB) or your own",
        needs: "2.3 GB of memory (--scale F), libtorch",
    },
    Entry {
        name: "infer sr",
        study: SAMANI,
        what: "speech recognition",
        model: crate::infer::RNNT,
        parameters: crate::infer::RNNT_PARAMETERS,
        phases: &PHASES,
        data: "WAV files of 16 kHz, 32 generated of 15 s (15 MB) or your own",
        needs: "0.4 GB of memory (--scale F), libtorch",
    },
    Entry {
        name: "infer loop",
        study: "",
        what: "busy loop",
        model: crate::infer::synthetic::ARITHMETIC,
        parameters: 0,
        phases: &PHASES,
        data: "nothing: the load without a model",
        needs: "any build",
    },
];

/// One training job, a line of the same table.
#[derive(Clone, Debug, Serialize)]
pub struct TrainEntry {
    /// Name on the command line.
    pub name: String,
    /// The study's label.
    pub study: &'static str,
    pub what: &'static str,
    pub model: &'static str,
    pub parameters: u64,
    /// Phases of a step on a CPU, in order.
    pub phases: &'static [&'static str],
    /// Default images per step.
    pub batch: u64,
    /// What one step learns from.
    pub data: &'static str,
    /// Memory and libraries with a batch of that size.
    pub needs: String,
}

/// One line of the table of stalls.
#[derive(Clone, Debug, Serialize)]
pub struct StallEntry {
    /// Name on the command line.
    pub name: String,
    pub what: &'static str,
    /// Phases of a request, in order.
    pub phases: &'static [&'static str],
    /// Unit of its size, and the default size.
    pub unit: &'static str,
    pub default: String,
    pub needs: &'static str,
}

/// One line of the table of the H2O study's workloads.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct H2oEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// The study's label.
    pub study: &'static str,
    pub what: &'static str,
    /// Parameters for 2,000 flights: the number depends on which airports occur.
    pub parameters: u64,
    pub phases: &'static [&'static str],
    /// Default size, and how to make it larger.
    pub size: &'static str,
    pub needs: &'static str,
}

const FLIGHTS: &str = "2,000 flights (0.2 MB); --rows N or your own file";

pub const H2O: &[H2oEntry] = &[
    H2oEntry {
        name: "h2o generate",
        study: VIRTUALIZATION,
        what: "airline delays as CSV",
        parameters: 0,
        phases: h2o::generate::PHASES,
        size: "2,000 flights (0.2 MB); --rows 152000000 (16 GB)",
        needs: "room on a disk",
    },
    H2oEntry {
        name: "h2o parse",
        study: VIRTUALIZATION,
        what: "CSV to columns",
        parameters: 0,
        phases: h2o::parse::PHASES,
        size: FLIGHTS,
        needs: "1 CPU, 20 MB of memory",
    },
    H2oEntry {
        name: "h2o glm",
        study: VIRTUALIZATION,
        what: "binomial GLM by IRLS",
        parameters: 308,
        phases: h2o::glm::PHASES,
        size: FLIGHTS,
        needs: "1 CPU, 19 bytes of memory per flight",
    },
    H2oEntry {
        name: "h2o mlp",
        study: VIRTUALIZATION,
        what: "network, bound by CPU",
        parameters: 102_001,
        phases: h2o::mlp::PHASES,
        size: "307-200-200-1, batch 512",
        needs: "all CPUs",
    },
    H2oEntry {
        name: "h2o mlp --size memory",
        study: VIRTUALIZATION,
        what: "network, by memory",
        parameters: 69_648_385,
        phases: h2o::mlp::PHASES,
        size: "307-8192-8192-1, batch 1",
        needs: "all CPUs, 560 MB of memory",
    },
];

/// A row of any table.
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
        study: if model.name == "mnist" { VMWARE } else { LIN },
        what: "training",
        model: model.what,
        parameters: model.parameters,
        phases: train::report::PHASES,
        batch: model.batch,
        data: if model.frame.is_some() {
            "random images, or your JPEG files or shards"
        } else {
            "random images"
        },
        needs: format!("{:.1} GB of memory, libtorch", f64::from(model.memory_mb) / 1e3),
    })
}

fn stalls() -> impl Iterator<Item = StallEntry> {
    KINDS.iter().map(|kind| StallEntry {
        name: format!("stall {}", kind.name),
        what: kind.what,
        phases: stall::run::PHASES,
        unit: kind.unit.what(),
        default: kind.unit.size(kind.default).to_string(),
        needs: kind.needs,
    })
}

/// All tables for people, aligned.
pub fn table() -> String {
    let mut text = String::new();
    let mut line = |[name, study, what, model, parameters, data, needs]: [&str; 7]| {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name:<16} {study:<16} {what:<20} {model:<27} {parameters:>12}  {data:<67}  {needs}"
        );
    };
    line(["name", "study", "what", "model", "parameters", "data", "needs"]);
    for entry in ENTRIES {
        let Entry { name, study, what, model, parameters, data, needs, .. } = entry;
        line([name, study, what, model, &grouped(*parameters), data, needs]);
    }
    for entry in jobs() {
        let TrainEntry { name, study, what, model, parameters, batch, data, needs, .. } = entry;
        let data = format!("{data}; batch {batch}");
        line([&name, study, what, model, &grouped(parameters), &data, &needs]);
    }
    text.push('\n');
    let mut line = |[name, study, what, parameters, size, needs]: [&str; 6]| {
        let _ = writeln!(text, "{name:<21}  {study:<5}  {what:<21}  {parameters:>10}  {size:<49}  {needs}");
    };
    line(["name", "study", "what", "parameters", "size", "needs"]);
    for H2oEntry { name, study, what, parameters, size, needs, .. } in H2O {
        line([name, study, what, &grouped(*parameters), size, needs]);
    }
    text.push('\n');
    let mut line = |name: &str, default: &str, unit: &str, what: &str, needs: &str| {
        let _ = writeln!(text, "{name:<20} {default:>8}  {unit:<17}  {what:<75}  {needs}");
    };
    line("name", "size", "which is", "what", "needs");
    for StallEntry { name, what, unit, default, needs, .. } in stalls() {
        line(&name, &default, unit, what, needs);
    }
    text
}
