//! Facts about the run for the summary, besides requests and health.
//!
//! Yields [`RunFacts`], which the session fills.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use crate::{
    analyze::{Called, Hidden, gpu_work::GpuWorked},
    hints::Hint,
    limits::Limit,
    phase::Restored,
    platform::CpuQuota,
    run::GpuRecord,
};

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Exited with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Ended in an unknown way: it was not the agent's child.
    Ended,
    /// Still running when observation stopped.
    Running,
}

/// Facts about the run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// Version of the agent.
    pub version: String,
    /// `MVM/2/VNL/CPU`.
    pub scenario: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// `service.name` of its traces.
    pub service: String,
    /// The program and its arguments, or the target of `attach`.
    pub command: Vec<String>,
    /// Time from the program's start, or from attaching, to the end.
    pub wall: Duration,
    /// How it ended.
    pub exit: Exit,
    /// The tightest CPU quota that is visible.
    pub cpu_quota: Option<CpuQuota>,
    /// Path of the run folder; none if none was wanted.
    pub folder: Option<PathBuf>,
    /// Restores and moves of the guest, by `wall`'s clock.
    pub restored: Vec<(Duration, Restored)>,
    /// Graphics processors and their activity.
    pub gpu: GpuRecord,
    /// What ran on them for phases, where it was recorded.
    pub gpu_work: Option<GpuWorked>,
    /// Limits on the observed processes.
    pub limits: Vec<Limit>,
    /// What the numbers do not contain.
    pub hidden: Hidden,
    /// Options that would have marked requests, if nothing did.
    pub hints: Vec<Hint>,
    /// The part of the run that the statistics are of, if not all of it.
    pub kept: Option<String>,
    /// Samples in system calls.
    pub called: Called,
    /// Samples of busy-waiting in the whole run, by the name of the library.
    pub spun: BTreeMap<String, u64>,
}
