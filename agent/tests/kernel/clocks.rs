//! The sampling clocks of threads and of CPUs: they tick for the time that the accounts show on a CPU.

use guestscope::{
    health::{Fidelity, Outcome, Verdict},
    loader::{self, LoadOptions, Loaded},
};
use guestscope_contract::{Account, SAMPLES_PER_S};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rstest::rstest;

use crate::{
    agreement::{time, up_to_three_times},
    harness::{Case, skipped},
    machine::{Alone, TICK_NS},
};

/// Owner of the sampling clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    OfThreads,
    OfCpus,
    /// First threads, then, from the first edge on, CPUs.
    HandedOver,
}

impl Clocks {
    /// Starts the clocks, before the program is started.
    pub(crate) fn start(self, loaded: &mut Loaded) {
        match self {
            // Without BTF nothing is sampled: no test of that fidelity counts samples.
            Self::OfThreads | Self::HandedOver => {
                let is_sampled = loaded.sample_children();
                assert!(is_sampled || loaded.fidelity == Fidelity::Tracepoint, "a thread has a clock");
            }
            Self::OfCpus => loaded.sample_cpus().expect("CPUs have clocks"),
        }
    }

    /// Hands the clocks over to the CPUs once edges arrive.
    pub(crate) fn hand_over(self, loaded: &mut Loaded, edges: u64) {
        if self == Self::HandedOver && edges > 0 && !loaded.samples_cpus() {
            loaded.sample_cpus().expect("CPUs have clocks");
        }
    }
}

/// More threads than can have clocks of their own, each of which takes two descriptors.
#[test]
fn where_too_many_threads_would_need_clocks_cpus_have_them() {
    let _alone = Alone::lock();
    let Ok(mut loaded) = loader::load(&LoadOptions::default()) else {
        return skipped("clocks::where_too_many_threads", "nothing can be loaded");
    };
    let limits = getrlimit(Resource::RLIMIT_NOFILE).expect("there is a limit");
    setrlimit(Resource::RLIMIT_NOFILE, limits.1.min(4096).max(limits.0), limits.1)
        .expect("up to the hard limit");
    let own = nix::unistd::gettid().as_raw().cast_unsigned();
    assert!((0..1024).all(|_| loaded.sample(own)) && !loaded.samples_cpus());
    assert!(loaded.sample(own) && loaded.samples_cpus());
    let is_sampler = |verdict: &&Verdict| verdict.hook == "perf_event/cpu-clock";
    let verdict = loaded.verdicts.iter().find(is_sampler).expect("it is a hook");
    assert_eq!(verdict.outcome, Outcome::Ok);
}

/// If both a thread and its CPU had a clock, samples would be twice as many; with neither there would be
/// none.
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
            // As for a thread that started before its program had a clock.
            assert!(samples > 0, "{clocks:?}: {phase:?}");
            let sampled_ns = samples * 1_000_000_000 / SAMPLES_PER_S;
            // A late tick replaces the ticks after it: stolen time has one at most.
            let bounds = (cpu_ns.saturating_sub(counts.steal_ns + TICK_NS), cpu_ns);
            time("all_busy", &format!("samples, {clocks:?}"), sampled_ns, bounds, cpu_ns / 20);
        }
    });
}
