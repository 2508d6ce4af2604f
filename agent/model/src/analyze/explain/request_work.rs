//! Work of a GPU for one request, as plain data.

use super::super::gpu_work::{KernelWork, PhaseWork};

/// What a GPU did for one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestWork {
    /// Work that the request and its phases asked for, and how long the GPU did anything for its process
    /// while it ran.
    pub sums: PhaseWork,
    /// The kernels that took longest, longest first.
    pub longest: Vec<KernelWork>,
}
