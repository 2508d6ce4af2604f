//! The run folder: the observations on disk, from the first second on.
//!
//! Yields a folder that is readable at every instant: Arrow streams and a manifest during the run, Parquet
//! and histograms once closed, and readers of both. During the run no call fails: [`RunFolder::health`]
//! reports errors and lost rows. The caller supplies times and explanations.

// Text from outside leaves only by `untrusted`, `json` and `out`: see .clippy.toml.
#![warn(clippy::disallowed_methods)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests print what they like"))]

#[macro_use]
mod cells;

mod access;
mod batches;
mod begin;
mod caught;
mod close;
mod closed;
mod columns;
mod cost_record;
mod decode;
#[cfg(test)]
mod drawn;
mod error;
mod footer;
mod former;
#[cfg(test)]
mod former_tests;
mod gpu;
mod histogram_index;
mod histograms;
#[cfg(test)]
mod hostile_tests;
mod incident_record;
mod kept_record;
pub mod limits;
mod manifest;
mod name;
mod opening;
mod pages;
mod reader;
mod recorder;
mod restored_record;
mod row_groups;
mod rows;
mod run_folder;
mod sample;
mod source_record;
mod stream;
mod table;
mod taken;
#[cfg(test)]
mod tests;
mod texts;
mod thrift;
mod unfinished_record;
mod wait_columns;
mod work_columns;

pub use self::{
    batches::TornEnd,
    begin::CreateOptions,
    close::{Closed, Explain},
    columns::PhaseRow,
    cost_record::CostRecord,
    error::{Error, Result},
    gpu::{GpuDevice, GpuFault, GpuHolder, GpuRecord, GpuTraceRecord},
    histogram_index::{HistogramEntry, Histograms},
    incident_record::IncidentRecord,
    kept_record::KeptRecord,
    manifest::{
        Child, ClockPair, Exit, ExportRecord, FORMAT, HealthRecord, HookRecord, Limits, MOST_RESTORED,
        Manifest, RowCounts, State, Versions,
    },
    name::{rfc3339, sanitise},
    reader::{Folder, PhasesLeftOut, Requests},
    recorder::{Recorder, RecorderOptions, Segment},
    restored_record::RestoredRecord,
    rows::Rows,
    run_folder::{FolderHealth, RunFolder},
    sample::Sample,
    source_record::SourceRecord,
    table::ColumnHelp,
    unfinished_record::{OpenRecord, UnfinishedRecord},
};

use guestscope_base::{clock, guarded, untrusted};
use guestscope_model::{analyze, health, phase, sources};

use self::{
    columns::{MARKS, PHASES, SAMPLES, THREADS},
    wait_columns::WAITS,
    work_columns::GPU_WORK,
};

/// All columns of all tables, for documentation.
pub fn columns() -> Vec<ColumnHelp> {
    let phases = PHASES.help().chain(THREADS.help());
    let others = SAMPLES.help().chain(MARKS.help()).chain(WAITS.help());
    phases.chain(others).chain(GPU_WORK.help()).collect()
}
