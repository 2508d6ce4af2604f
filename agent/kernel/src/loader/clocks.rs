//! State of the clocks that the agent starts: the pulses of CPUs, and the sampler's.

use std::time::Instant;

use aya::{
    maps::{MapData, RingBuf},
    programs::perf_event::PerfEventLinkId,
};

/// The clocks that beat.
#[derive(Default)]
pub(super) struct Pulses {
    pub(super) cpus: Vec<u32>,
    pub(super) links: Vec<PerfEventLinkId>,
    pub(super) gaps: Option<RingBuf<MapData>>,
    /// The last attempt failed.
    pub(super) has_failed: bool,
}

/// The clocks.
#[derive(Default)]
pub(super) struct Sampler {
    pub(super) threads: Vec<PerfEventLinkId>,
    pub(super) cpus: Vec<u32>,
    pub(super) on_cpus: Vec<PerfEventLinkId>,
    /// Context switches of the guest at that time; where CPUs have the clocks, ticks by CPU.
    pub(super) counted: Option<(Instant, Vec<u64>)>,
    /// CPUs cannot have clocks here.
    pub(super) is_refused: bool,
    /// The last attempt to start the clocks of all CPUs failed.
    pub(super) has_failed: bool,
}
