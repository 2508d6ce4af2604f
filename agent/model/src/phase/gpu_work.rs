//! Work of a GPU, as its driver's tracing interface told it, and the phase that asked for it. Plain data.

use super::ids::wait_span_id;
use crate::untrusted::Untrusted;

/// What a row of work is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GpuWorkKind {
    /// A kernel ran.
    #[default]
    Kernel,
    /// Memory was copied.
    Copy,
    /// Memory was filled with a value.
    Set,
    /// A CUDA graph ran, with all kernels in it.
    Graph,
    /// No work, but an interval in which work was recorded. Comes behind the work in it.
    Window,
}

impl GpuWorkKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Kernel, Self::Copy, Self::Set, Self::Graph, Self::Window];

    /// The kind's word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Copy => "copy",
            Self::Set => "memset",
            Self::Graph => "graph",
            Self::Window => "window",
        }
    }

    /// The kind of this name.
    pub fn by_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == word)
    }
}

/// A piece of work of a GPU, or a window. Times are of CLOCK_MONOTONIC, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuWork {
    /// What it is.
    pub kind: GpuWorkKind,
    /// Name of a kernel, or which way a copy went (`host to device`); else empty.
    pub name: Untrusted,
    /// Process ID.
    pub process: u32,
    /// The thread that asked for it; 0 if that was not seen.
    pub thread: u32,
    /// The driver's number of the device.
    pub device: u32,
    /// Number of the context in its process.
    pub context: u32,
    /// Number of the stream in its process.
    pub stream: u32,
    /// Start on the device.
    pub start_ns: u64,
    /// End on the device.
    pub end_ns: u64,
    /// Start of the call that asked for it; 0 if that was not seen.
    pub called_ns: u64,
    /// End of that call.
    pub returned_ns: u64,
    /// Bytes copied or filled.
    pub bytes: u64,
    /// The innermost phase of that thread at the call's start, by its number in the run.
    pub phase: Option<u64>,
    /// The request that this phase is in.
    pub root: Option<u64>,
    /// Work in a window that was not recorded; 0 for work.
    pub lost: u64,
    /// CPU time of the thread that recorded a window, ns; 0 for work.
    pub cost_ns: u64,
}

impl GpuWork {
    /// Its time on the device, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// From the end of the call that asked for it to its start, ns; none if the call was not seen.
    pub fn delay_ns(&self) -> Option<u64> {
        (self.called_ns != 0).then(|| self.start_ns.saturating_sub(self.returned_ns))
    }

    /// The span of this work, by the span of the phase around it. Two that start at one time in one phase
    /// have different streams or devices.
    pub fn span_id(&self, phase: [u8; 8]) -> [u8; 8] {
        let place = u64::from(self.device) << 32 | u64::from(self.stream);
        wait_span_id(wait_span_id(phase, place), self.start_ns)
    }

    /// Whether this is a window and no work.
    pub fn is_window(&self) -> bool {
        self.kind == GpuWorkKind::Window
    }
}
