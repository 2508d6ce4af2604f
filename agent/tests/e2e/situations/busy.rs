//! How much of this machine's CPU time others used meanwhile: what is said is then about them, too.

/// Share of all CPUs' time above which a wrong sentence may be theirs.
const MUCH: f64 = 0.1;

/// Ticks since the machine started.
pub(super) struct Busy {
    /// Time of all CPUs that was not idle, and all of it.
    cpus: [u64; 2],
    /// CPU time of this process and of the children that it has waited for.
    own: u64,
}

impl Busy {
    /// Ticks by /proc/stat and by this process's own.
    pub(super) fn now() -> Self {
        let numbers = |path: &str, skipped: usize| -> Vec<u64> {
            let text = std::fs::read_to_string(path).expect("/proc is mounted");
            let line = text.lines().next().expect("it has lines");
            line.split_whitespace().skip(skipped).filter_map(|tick| tick.parse().ok()).collect()
        };
        let ticks = numbers("/proc/stat", 1);
        let all: u64 = ticks[..8].iter().sum();
        // User and system time, of the process and of its children, are fields 14 to 17.
        let own = numbers("/proc/self/stat", 13)[..4].iter().sum();
        Self { cpus: [all - ticks[3] - ticks[4], all], own }
    }

    /// Whether others used much since then.
    pub(super) fn is_much(&self) -> bool {
        let now = Self::now();
        let used = (now.cpus[0] - self.cpus[0]).saturating_sub(now.own - self.own);
        used as f64 / (now.cpus[1] - self.cpus[1]).max(1) as f64 > MUCH
    }
}
