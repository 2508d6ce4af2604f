//! What a summary says of the run itself, beside requests and health.
//!
//! Yields [`RunFacts`], filled by whoever ran the program. It reads nothing.

use std::{path::PathBuf, time::Duration};

use crate::{hints::Hint, phase::Restored, platform::CpuQuota, run::GpuRecord};

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It did, and was not ours to wait for: nobody told how.
    Ended,
    /// Observation stopped before.
    Running,
}

/// The run.
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
    /// The program and its arguments, or what else was attached to.
    pub command: Vec<String>,
    /// From the start of the program, or from attaching, to the end of either.
    pub wall: Duration,
    /// How it ended.
    pub exit: Exit,
    /// The tightest CPU quota that is visible.
    pub cpu_quota: Option<CpuQuota>,
    /// Where the rows are; none if no folder was asked for.
    pub folder: Option<PathBuf>,
    /// When the guest was seen to have been restored or moved, by `wall`'s clock.
    pub restored: Vec<(Duration, Restored)>,
    /// Graphics processors, and what they were seen to do.
    pub gpu: GpuRecord,
    /// What could have marked it, where nothing has.
    pub hints: Vec<Hint>,
}
