//! What this machine cannot give: a second CPU, hooks that came with later kernels.

/// Whether tests share the only CPU with what they look at.
pub(crate) fn has_one_cpu() -> bool {
    std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1)
}

/// Hooks that came late, or that a kernel refuses. A guest of `cargo xtask vm` may have a kernel without them, and that verb
/// knows which one lacks what.
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

/// What /proc/stat counts in: one more may not show yet.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// Stolen time of all CPUs: the eighth number of /proc/stat's first line, in ticks.
pub(crate) fn steal_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc is mounted");
    let ticks = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    ticks.expect("the kernel counts it") * TICK_NS
}
