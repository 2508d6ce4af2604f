//! An incident in its stored form: what a resident agent noticed, and the time around it that it kept.

use serde::{Deserialize, Serialize};

/// Why a folder was kept, and what it covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IncidentRecord {
    /// When it was noticed, wall time, RFC 3339.
    pub at: String,
    /// What noticed it, for people: `slower than 500 ms`, `SIGUSR1`.
    pub trigger: String,
    /// Name of the request that was slow; empty if something else was noticed.
    pub request: String,
    /// Its duration, with the wait before it, ns.
    pub duration_ns: u64,
    /// Typical duration of requests of that name until then, ns; none before the hundredth.
    pub typical_ns: Option<u64>,
    /// The largest part of what it took longer, such as `throttled`; empty if unknown.
    pub cause: String,
    /// Begin of what was kept, CLOCK_MONOTONIC, ns.
    pub from_ns: u64,
    /// Its end, ns.
    pub to_ns: u64,
}
