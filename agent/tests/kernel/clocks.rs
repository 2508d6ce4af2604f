//! The clocks that tell what lies inside `cpu`, of threads and of CPUs: they tick for what the accounts say was on a CPU.

use guestscope_ebpf::{Account, SAMPLES_PER_S};
use rstest::rstest;

use crate::{
    agreement::{time, up_to_three_times},
    harness::{Case, Clocks},
    machine::TICK_NS,
};

/// A clock that both a thread and its CPU had would tick twice as often, one that nobody has never.
#[rstest]
#[case::of_threads(Clocks::OfThreads)]
#[case::of_cpus(Clocks::OfCpus)]
#[case::handed_over_from_threads(Clocks::HandedOver)]
fn samples_are_as_many_as_the_time_on_a_cpu_asks_for(#[case] clocks: Clocks) {
    up_to_three_times(|| {
        let Some(seen) = Case::new("all_busy").clocks(clocks).run() else { return };
        seen.check();
        for cpu in 1..=seen.book.fact("cpus") {
            let phase = seen.request(cpu);
            let (counts, cpu_ns) = (phase.counts, phase.accounts.get(Account::Cpu));
            let samples = counts.sample_user
                + counts.sample_spin
                + counts.sample_fault
                + counts.sample_syscall
                + counts.sample_irq;
            let sampled_ns = samples * 1_000_000_000 / SAMPLES_PER_S;
            // A tick that is late takes the place of those after it: what was stolen has one at most.
            let bounds = (cpu_ns.saturating_sub(counts.steal_ns + TICK_NS), cpu_ns);
            time("all_busy", &format!("samples, {clocks:?}"), sampled_ns, bounds, cpu_ns / 20);
        }
    });
}
