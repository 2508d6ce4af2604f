//! How much of this machine's time its hypervisor has taken: where that is much, a fault of known size is one of several, and
//! the largest may be another. Such a row is printed as not judged.

use super::keep;

/// Of all CPUs' time, also of what lies between the requests: one request in twelve is hit, so what those lose is twelve times as
/// much. 5 to 7 % were seen where each read of the disk cost the CPU that asked for it.
const MUCH: f64 = 0.005;

/// Ticks of all CPUs since the machine started: stolen ones, and all.
pub(super) struct Stolen([u64; 2]);

impl Stolen {
    /// As the first line of /proc/stat has them.
    pub(super) fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/stat").expect("/proc is mounted");
        let line = stat.lines().next().expect("it has lines");
        let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|tick| tick.parse().ok()).collect();
        Self([ticks[7], ticks[..8].iter().sum()])
    }

    /// Whether it was much since then. It is said if so.
    pub(super) fn is_much(&self, row: &str) -> bool {
        let Self([stolen, all]) = Self::now();
        let share = (stolen - self.0[0]) as f64 / (all - self.0[1]).max(1) as f64;
        if share >= MUCH {
            keep(format!("{row}: not judged, the hypervisor took {:.1} % of the time", share * 100.0));
        }
        share >= MUCH
    }
}
