//! Cost of the agent itself, and the guest's pressure, read from /proc.
//!
//! A file that is missing is a missing number, never an error: old kernels have no pressure stall
//! information.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

use crate::{clock, folder::Sample, health::AgentCost};

/// The agent's cost since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    start: Instant,
    cpu_at_start: Duration,
    /// Time from start to all probes in place.
    pub(crate) attach: Duration,
}

impl Cost {
    /// Starts the clock; CPU time before counts too, as part of the agent's start.
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), cpu_at_start: Duration::ZERO, attach: Duration::ZERO }
    }

    /// All probes are in place.
    pub(crate) fn attached(&mut self) {
        self.attach = self.start.elapsed();
    }

    /// Cost so far, including the CPU time of the NVML process.
    pub(crate) fn so_far(&self, nvml: Duration) -> AgentCost {
        AgentCost {
            cpu: cpu().saturating_sub(self.cpu_at_start) + nvml,
            wall: self.start.elapsed(),
            rss_peak_bytes: status_bytes("VmHWM:").unwrap_or(0),
            attach: self.attach,
            bpf: None,
        }
    }
}

/// User and system time of this process.
fn cpu() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let time = |value: nix::sys::time::TimeVal| {
        Duration::new(value.tv_sec().unsigned_abs(), value.tv_usec() as u32 * 1000)
    };
    time(usage.user_time()) + time(usage.system_time())
}

fn status_bytes(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// `total=` of the `some` line of a pressure file, us.
fn pressure(resource: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/pressure/{resource}")).ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let us: u64 = some.rsplit_once("total=")?.1.trim().parse().ok()?;
    us.checked_mul(1_000)
}

/// Steal of all CPUs, ns: the eighth number of /proc/stat's first line, in ticks of 10 ms (USER_HZ is 100
/// everywhere).
fn steal_ns() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(ticks * 10_000_000)
}

/// A sample of the guest and the agent, including the CPU time of the NVML process.
pub(crate) fn sample(edges_read: u64, nvml: Duration) -> Sample {
    Sample {
        time_ns: clock::now_ns(),
        agent_cpu_ns: (cpu() + nvml).as_nanos() as u64,
        agent_rss_bytes: status_bytes("VmRSS:").unwrap_or(0),
        psi_cpu_some_ns: pressure("cpu"),
        psi_memory_some_ns: pressure("memory"),
        psi_io_some_ns: pressure("io"),
        steal_ns: steal_ns(),
        edges_read,
        gpu: None,
    }
}
