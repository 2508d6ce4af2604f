//! A row of `samples`, as plain data.

use crate::phase::GpuReading;

/// The guest and the agent at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// CPU time of the agent's process so far, ns.
    pub agent_cpu_ns: u64,
    /// Its resident set, bytes.
    pub agent_rss_bytes: u64,
    /// Pressure of the guest so far, `some total` of /proc/pressure/cpu, ns; none where the kernel lacks it.
    pub psi_cpu_some_ns: Option<u64>,
    /// The same of memory.
    pub psi_memory_some_ns: Option<u64>,
    /// The same of I/O.
    pub psi_io_some_ns: Option<u64>,
    /// Time stolen by the hypervisor so far, all CPUs, ns; none where it does not say.
    pub steal_ns: Option<u64>,
    /// Edges that the agent has read so far.
    pub edges_read: u64,
    /// What a graphics processor was doing then, where this row was made for one.
    pub gpu: Option<GpuReading>,
}
