//! Stolen time, compared with the kernel's own count.

use guestscope_contract::Account;

use crate::{
    agreement::{time, up_to_three_times},
    harness::Case,
    machine::TICK_NS,
};

#[test]
fn what_was_stolen_is_what_the_kernel_counts() {
    up_to_three_times(|| {
        let Some(seen) = Case::new("all_busy").run() else { return };
        seen.check();
        let phases: Vec<_> = (1..=seen.book.fact("cpus")).map(|cpu| seen.request(cpu)).collect();
        let ours_ns: u64 = phases.iter().map(|phase| phase.counts.steal_ns).sum();
        // Other threads on these CPUs lost their share, and the kernel has not counted each CPU's last tick
        // yet.
        let others_ns: u64 = phases.iter().map(|phase| phase.accounts.get(Account::Runq)).sum();
        let stolen_ns = seen.book.fact("stolen_ns");
        let bounds = (stolen_ns.saturating_sub(TICK_NS), stolen_ns + TICK_NS);
        time("all_busy", "steal", ours_ns, bounds, others_ns + phases.len() as u64 * TICK_NS);
    });
}
