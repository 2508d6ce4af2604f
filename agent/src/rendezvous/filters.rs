//! Number of seccomp filters on this thread and its children: those of a container, mostly.
//!
//! The marker's library meets the agent as it is loaded. If it finds more filters by then, they are the
//! program's own, which may kill it for that: it does not connect. It reads the kernel's words and decides
//! nothing.

/// Number of seccomp filters of this thread; before 5.9 the kernel only reports whether there are any.
pub(super) fn own() -> u64 {
    std::fs::read_to_string("/proc/thread-self/status").map_or(0, |status| told(&status))
}

fn told(status: &str) -> u64 {
    let of = |name| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    match (of("Seccomp:"), of("Seccomp_filters:")) {
        (None | Some(0), _) => 0,
        (Some(_), count) => count.unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::told;

    #[rstest]
    #[case::none("NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n", 0)]
    #[case::of_a_container("Seccomp:\t2\nSeccomp_filters:\t2\n", 2)]
    #[case::before_5_9("Seccomp:\t2\n", 1)]
    #[case::a_kernel_without("Name:\tSeccomp: 2\n", 0)]
    fn filters_are_counted(#[case] status: &str, #[case] count: u64) {
        assert_eq!(told(status), count);
    }
}
