//! Facts about a run that an explanation's output tells beside it.

use std::path::PathBuf;

use crate::{
    analyze::{Hidden, explain::Explanation, gpu_work::GpuWorked},
    health::Fidelity,
    limits::Limit,
    platform::CpuQuota,
};

/// Facts about the folder itself, beside its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainFacts {
    /// The folder.
    pub folder: PathBuf,
    /// Name of the run.
    pub name: String,
    /// `MVM/2/VNL/CPU`.
    pub scenario: String,
    /// Start of the run: CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// Fidelity; none if the folder names one that this program does not know.
    pub fidelity: Option<Fidelity>,
    /// The tightest CPU quota that was visible.
    pub cpu_quota: Option<CpuQuota>,
    /// Limits on the observed processes.
    pub limits: Vec<Limit>,
    /// How busy the busiest graphics processor was while requests ran, percent.
    pub gpu_serving_percent: Option<u64>,
    /// What ran on graphics processors for phases, where it was recorded.
    pub gpu_work: Option<GpuWorked>,
    /// System call numbers mean the same here as in the folder.
    pub same_syscalls: bool,
    /// The run is still being written, or was cut off.
    pub is_open: bool,
    /// Whether all waits above the threshold are present, so that missing ones were shorter.
    pub has_all_waits: bool,
    /// Which requests are shown.
    pub shown: Shown,
    /// What the numbers do not contain.
    pub hidden: Hidden,
    /// Sentences on what could not be read or was lost.
    pub notes: Vec<String>,
}

/// An explanation, and the facts about its run.
#[derive(Clone, Copy)]
pub(super) struct ExplainedRun<'a> {
    pub(super) explanation: &'a Explanation,
    pub(super) facts: &'a ExplainFacts,
}

/// Which requests are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// This number of the slowest; culprits are summed up over all explained requests.
    Slowest(usize),
    /// One request, by its number.
    One,
}

impl Shown {
    pub(super) fn is_one(self) -> bool {
        self == Shown::One
    }

    /// Most requests shown of each kind.
    pub(super) const fn most(self) -> usize {
        match self {
            Shown::Slowest(most) => most,
            Shown::One => usize::MAX,
        }
    }
}
