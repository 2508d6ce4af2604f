//! The manifest's record of what the agent cost.

use serde::{Deserialize, Serialize};

use crate::health::AgentCost;

/// [`AgentCost`] in its stored form: nanoseconds and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CostRecord {
    /// CPU time of the agent, ns.
    pub cpu_ns: u64,
    /// Wall time that this refers to, ns.
    pub wall_ns: u64,
    /// Largest resident set, bytes.
    pub rss_peak_bytes: u64,
    /// Time from start to all probes attached, ns.
    pub attach_ns: u64,
    /// CPU time inside the BPF programs, ns, where the kernel counts it.
    pub bpf_ns: Option<u64>,
}

impl From<&AgentCost> for CostRecord {
    fn from(cost: &AgentCost) -> Self {
        let AgentCost { cpu, wall, rss_peak_bytes, attach, bpf } = *cost;
        let [cpu_ns, wall_ns, attach_ns] = [cpu, wall, attach].map(|time| time.as_nanos() as u64);
        Self { cpu_ns, wall_ns, rss_peak_bytes, attach_ns, bpf_ns: bpf.map(|time| time.as_nanos() as u64) }
    }
}
