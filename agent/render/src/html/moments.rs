//! Single requests for a closer look, as the page shows them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    phase::{GpuReading, GpuWork, Request, ThreadId, Wait},
    untrusted::Untrusted,
};

/// Why a request is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nearest to the median.
    Typical,
    /// Slowest, second slowest, ...; from 1.
    Slow(usize),
}

/// A request, with events during it.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Reason for showing it.
    pub why: Why,
    /// Name of its run folder.
    pub run: String,
    /// The request, with all its phases that are drawn.
    pub request: Request,
    /// Waits in order of start.
    pub waits: Vec<Wait>,
    /// Number of waits that were not kept.
    pub waits_left_out: usize,
    /// Names of threads.
    pub threads: Arc<HashMap<ThreadId, Untrusted>>,
    /// GPU readings during the request and shortly after it, in order of time.
    pub gpus: Vec<GpuReading>,
    /// Work of GPUs that it asked for, as far as it was recorded, in order of start.
    pub works: Vec<GpuWork>,
}

/// Findings on a platform.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// The typical request, then the slow ones.
    pub moments: Vec<Moment>,
    /// Number of long waits of a request's threads, by the CPU on which they began and the CPU on which they
    /// ended.
    pub moves: BTreeMap<(u32, u32), u64>,
    /// Long waits of requests' threads, moved or not.
    pub waits: u64,
    /// Notes on what could not be read.
    pub notes: Vec<String>,
}
