//! What the BPF programs did not see, by their own counters and the kernel's.

use std::{
    fs,
    os::fd::{AsFd as _, AsRawFd as _},
};

use aya::programs::Program;
use guestscope_contract::Counter;

use super::{LoadError, loaded::Loaded};
use crate::health::KernelLosses;

impl Loaded {
    /// Losses that the BPF programs counted, over all CPUs.
    pub fn losses(&self) -> Result<KernelLosses, LoadError> {
        let counts = self.counters()?;
        let sum = |counter: Counter| counts.of(counter);
        Ok(KernelLosses {
            edges: sum(Counter::LostEdge),
            task_events: sum(Counter::LostFork)
                + sum(Counter::LostExec)
                + sum(Counter::LostExit)
                + sum(Counter::LostRename),
            tasks_missed: sum(Counter::MissedTask),
            edges_torn: sum(Counter::TornEdge),
            stale_slots: sum(Counter::StaleSlot),
            unknown_abi: sum(Counter::UnknownAbi),
            waits: sum(Counter::LostWait),
            sums_torn: sum(Counter::TornSum),
            ends_unseen: sum(Counter::UnseenEnd),
            ios: sum(Counter::LostIo) + sum(Counter::StaleIo),
            edges_unfinished: 0,
            marks_untracked: sum(Counter::UntrackedMark),
            requests_untracked: sum(Counter::UntrackedRequest),
            runs_left_out: self.ebpf.programs().filter_map(|(_, program)| left_out(program)).sum(),
        })
    }
}

/// Number of times that the kernel skipped a program because it was already running on that CPU, for any task
/// (5.12 and later, else none). Read from the text of its descriptor: aya does not offer it.
fn left_out(program: &Program) -> Option<u64> {
    let descriptor = program.fd().ok()?.as_fd().as_raw_fd();
    of_text(&fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?)
}

fn of_text(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("recursion_misses:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::of_text;

    #[test]
    fn the_text_of_a_descriptor() {
        let text = "pos:\t0\nprog_type:\t26\nrun_cnt:\t0\nrecursion_misses:\t17\nverified_insns:\t9\n";
        assert_eq!(of_text(text), Some(17));
        assert_eq!(of_text("pos:\t0\nprog_type:\t26\n"), None, "before 5.12");
    }
}
