//! What the GPU did for most of the time of phases, by the sums of their recorded work.

use super::{advice, gpu_work::PhaseWork, headline::ENOUGH_REQUESTS};

/// Part of the time of requests from which on copies are what takes it.
const COPYING: f64 = 0.3;
/// The same for all work.
const WORKING: f64 = 0.8;

/// What the GPU did for most of the time of phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Kernels ran.
    Busy,
    /// Memory was copied.
    Copy,
}

impl Bound {
    /// The cause's name in reports, and the key of the advice on it.
    pub const fn name(self) -> &'static str {
        match self {
            Bound::Busy => advice::GPU_BUSY,
            Bound::Copy => advice::GPU_COPY,
        }
    }

    /// The key of the advice where it takes longer on one platform than on another.
    pub const fn longer(self) -> &'static str {
        match self {
            Bound::Busy => advice::GPU_BUSY_LONGER,
            Bound::Copy => advice::GPU_COPY_LONGER,
        }
    }
}

impl PhaseWork {
    /// Part of the phases' time: 0 to 1, or more where several things ran at once.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.duration_ns.max(1) as f64
    }

    /// Part of the phases' time in which the GPU did nothing for the process: 0 to 1.
    pub fn idle(&self) -> f64 {
        1.0 - self.share(self.busy_ns)
    }

    /// What took most of the phases' time, if it was the GPU; none of fewer phases than say anything.
    pub fn bound(&self) -> Option<Bound> {
        let is_known = self.count >= ENOUGH_REQUESTS;
        let is_copying = self.copies_ns >= self.kernels_ns && self.share(self.copies_ns) >= COPYING;
        match is_known {
            true if is_copying => Some(Bound::Copy),
            true if self.share(self.busy_ns) >= WORKING => Some(Bound::Busy),
            _ => None,
        }
    }
}
