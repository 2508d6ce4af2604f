//! Whether this process may load programs, asked before anything is tried, so that the answer can be a
//! sentence.
//!
//! Reads the effective capabilities from /proc/self/status. It gains and drops nothing.

/// CAP_SYS_ADMIN, which includes what kernels before 5.8 require.
const CAP_SYS_ADMIN: u32 = 21;
/// CAP_PERFMON: uprobes and reading kernel memory.
const CAP_PERFMON: u32 = 38;
/// CAP_BPF: loading programs and maps.
const CAP_BPF: u32 = 39;

/// Missing capabilities for BPF programs; none if nothing is missing.
pub fn missing_for_bpf() -> Option<&'static str> {
    missing(own_capabilities()?)
}

/// Whether perf_event_open accepts a uprobe from this process. Some older kernels require less.
pub fn may_probe() -> bool {
    own_capabilities().is_some_and(|capabilities| capabilities >> CAP_SYS_ADMIN & 1 != 0)
}

fn own_capabilities() -> Option<u64> {
    effective_capabilities(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(value.trim(), 16).ok()
}

fn missing(capabilities: u64) -> Option<&'static str> {
    let has = |capability: u32| capabilities >> capability & 1 != 0;
    if has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON)) {
        return None;
    }
    Some(match (has(CAP_BPF), has(CAP_PERFMON)) {
        (true, _) => "CAP_PERFMON",
        (_, true) => "CAP_BPF",
        _ => "CAP_BPF and CAP_PERFMON",
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::root("CapEff:\t000001ffffffffff", None)]
    #[case::nobody("CapEff:\t0000000000000000", Some("CAP_BPF and CAP_PERFMON"))]
    #[case::old_admin("CapEff:\t0000000000200000", None)]
    #[case::both("CapEff:\t000000c000000000", None)]
    #[case::half("CapEff:\t0000008000000000", Some("CAP_PERFMON"))]
    fn capabilities(#[case] status: &str, #[case] expected: Option<&str>) {
        assert_eq!(missing(effective_capabilities(status).unwrap()), expected);
    }
}
