//! Share of this machine's time that its hypervisor took. If it is large, the injector itself is late, and a
//! hit request suffers from another fault as well: after all its attempts, such a row is not judged.

/// Share of all CPUs' time above which a row is not judged. When 5 % and more of single phases was stolen,
/// seven of eight rows with a late helper were wrong by 10 to 29 %.
const MUCH: f64 = 0.02;

/// Ticks of all CPUs since the machine started: stolen ones, and all.
pub(super) struct Stolen([u64; 2]);

impl Stolen {
    /// Ticks by the first line of /proc/stat.
    pub(super) fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/stat").expect("/proc is mounted");
        let line = stat.lines().next().expect("it has lines");
        let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|tick| tick.parse().ok()).collect();
        Self([ticks[7], ticks[..8].iter().sum()])
    }

    /// The share of the time since then, if it is above the limit.
    pub(super) fn if_much(&self) -> Option<f64> {
        let Self([stolen, all]) = Self::now();
        let share = (stolen - self.0[0]) as f64 / (all - self.0[1]).max(1) as f64;
        (share >= MUCH).then_some(share)
    }
}
