//! Work of GPUs for requests of two platforms, as plain data.

use super::Interval;
use crate::analyze::gpu_bound::Bound;

/// Work of a GPU for one request: means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuMeans {
    /// Kernels, and CUDA graphs, that it asked for.
    pub kernels: f64,
    /// Their time on the GPU, ns.
    pub kernels_ns: f64,
    /// Copies and fills.
    pub copies: f64,
    /// Their time, ns.
    pub copies_ns: f64,
    /// Their bytes.
    pub copied_bytes: f64,
}

/// Work of a GPU for the requests of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuDigest {
    /// Requests that lie within windows.
    pub requests: u64,
    /// Means over these.
    pub means: GpuMeans,
}

/// Work of GPUs for the requests of one platform.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuSide {
    /// Runs with enough requests within windows.
    pub runs: usize,
    /// Requests of these runs that lie within windows.
    pub requests: u64,
    /// Means over the runs.
    pub means: GpuMeans,
}

/// What GPUs did on both platforms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuDifference {
    /// On the baseline.
    pub baseline: GpuSide,
    /// On the platform.
    pub platform: GpuSide,
    /// How much longer kernels took on the platform, ns per request.
    pub kernels_ns: Interval,
    /// The same of copies.
    pub copies_ns: Interval,
}

/// What threads waited longer for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuCause {
    /// Kernels or copies.
    pub bound: Bound,
    /// How much longer they took on the platform, ns per request; negative if the baseline is slower.
    pub difference_ns: f64,
    /// The same as a part of the difference in accounts `gpu` and `cpu.gpu`; above 1 where not all of it was
    /// waited for.
    pub share: f64,
}
