//! Single requests for a closer look, as the page shows them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    phase::{GpuReading, Request, ThreadId, Wait},
    untrusted::Untrusted,
};

/// Why a request is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nearest to the median.
    Typical,
    /// Slowest, second slowest, ...; from 1.
    Slow(usize),
}

/// A request with what happened meanwhile.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Why it is shown.
    pub why: Why,
    /// Name of its run folder.
    pub run: String,
    /// The request, with all its phases that are drawn.
    pub request: Request,
    /// In order of start.
    pub waits: Vec<Wait>,
    /// Number of waits that were not kept.
    pub waits_left_out: usize,
    /// Names of threads.
    pub threads: Arc<HashMap<ThreadId, Untrusted>>,
    /// GPU readings during the request and shortly after it, in order of time.
    pub gpus: Vec<GpuReading>,
}

/// Findings on a platform.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// The typical request, then the slow ones.
    pub moments: Vec<Moment>,
    /// How often a long wait of a request's threads began on one CPU and ended on another.
    pub moves: BTreeMap<(u32, u32), u64>,
    /// Long waits of requests' threads, moved or not.
    pub waits: u64,
    /// Notes on what could not be read.
    pub notes: Vec<String>,
}
