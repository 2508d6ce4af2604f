//! News from the NVML process, and its texts as far as they are believed.

use guestscope_base::untrusted;
use guestscope_model::phase::{GpuError, GpuMemory, GpuProcesses, GpuReading};
use guestscope_nvml::Hello;

/// News from the NVML process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The devices; comes first.
    Known(Hello),
    /// One reading of one device.
    Reading(GpuReading),
    /// What processes used of one device.
    Processes(GpuProcesses),
    /// What processes hold of one device's memory.
    Memory(GpuMemory),
    /// An error of one device.
    Error(GpuError),
    /// A trouble that leaves the rest intact, for people, such as a lost device.
    Trouble(String),
    /// No more news, and the reason, for people; no reason if there is no device.
    Over(Option<String>),
}

/// Text of another program, which is not trusted: without control characters, and no longer than this.
pub(super) fn cleaned(given: &str, most: usize) -> String {
    given.chars().filter(|one| !untrusted::is_unsafe(*one)).take(most).collect()
}
