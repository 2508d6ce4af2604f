//! Limits of this machine: a second CPU, hooks of later kernels, load by others.

use std::{cell::Cell, fs::File, thread::available_parallelism, time::Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

/// Whether the tests share the only CPU with the programs that they observe.
pub(crate) fn has_one_cpu() -> bool {
    available_parallelism().is_ok_and(|cpus| cpus.get() == 1)
}

/// The lock that makes runs wait for each other.
pub(crate) struct Alone(#[expect(dead_code, reason = "closing the file gives the lock back")] File);

impl Alone {
    pub(crate) fn lock() -> Self {
        let path = std::env::current_exe().expect("a running program has a path");
        let file = File::open(path).expect("it can be read");
        file.lock().expect("a file can be locked");
        Self(file)
    }
}

/// Hooks that only later kernels have, or that a kernel refuses. A guest of `cargo xtask vm` may lack them,
/// and that verb checks which kernel lacks what.
pub(crate) fn may_be_missing(hook: &str) -> bool {
    let late = [
        "tp_btf/block_",
        "tp_btf/hrtimer_",
        "tp_btf/sock_send_length",
        "tp_btf/sock_recv_length",
        "iter/task",
    ];
    let is_late = late.iter().any(|late| hook.starts_with(late));
    std::env::var_os("GUESTSCOPE_DISPOSABLE").is_some() && is_late
}

/// The unit of /proc/stat's times: one tick more may not be counted yet.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// Stolen time of all CPUs: the eighth number of /proc/stat's first line, in ticks.
pub(crate) fn steal_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc is mounted");
    let ticks = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    ticks.expect("the kernel counts it") * TICK_NS
}

thread_local! {
    static WAS_DISTURBED: Cell<bool> = const { Cell::new(false) };
}

/// Whether others used CPUs while this thread's last case ran, by the kernel's own counters.
pub(crate) fn was_disturbed() -> bool {
    WAS_DISTURBED.get()
}

/// The kernel's counters at the start of a case.
pub(crate) struct Others {
    ns: u64,
    since: Instant,
}

impl Others {
    pub(crate) fn begin() -> Self {
        Self { ns: others_ns(), since: Instant::now() }
    }

    /// Reads the counters at the end of the case, when its program has been waited for. They count in ticks
    /// of each CPU.
    pub(crate) fn end(self) {
        let cpus = available_parallelism().map_or(1, usize::from) as u64;
        let allowed_ns = self.since.elapsed().as_nanos() as u64 / 10 + 2 * TICK_NS * cpus;
        WAS_DISTURBED.set(others_ns().saturating_sub(self.ns) > allowed_ns);
    }
}

/// CPU time of all processes except this one and those that it has waited for, plus stolen time: /proc/stat's
/// first line without idle and guest time.
fn others_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc is mounted");
    let ticks = stat.lines().next().into_iter().flat_map(|line| line.split_whitespace().skip(1));
    let is_used = |place: &usize| matches!(place, 0..=2 | 5..=7);
    let used: u64 = (ticks.enumerate())
        .filter(|(place, _)| is_used(place))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum();
    let own_ns = |who| {
        let usage = getrusage(who).expect("of oneself it is told");
        (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as u64 * 1_000
    };
    (used * TICK_NS).saturating_sub(own_ns(UsageWho::RUSAGE_SELF) + own_ns(UsageWho::RUSAGE_CHILDREN))
}
