//! What remains of the measurements without any BTF: fidelity `tracepoint`, by classic tracepoints and their
//! formats.
//!
//! Switches and the times on a CPU, waiting for one, and waiting for anything else are compared with the same
//! counters. Waiting without quota counts as `runq`, every other wait as `other`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use guestscope::{
    health::{Fidelity, Outcome},
    loader::{self, LoadError, LoadOptions},
    phase::Ending,
    probes::{Hook, sched},
};
use guestscope_contract::Account;
use rstest::rstest;

use crate::{
    agreement::{compare_switches, count, disagree, up_to, up_to_three_times},
    harness::{Case, skipped},
    lives::assert_same_threads,
    machine::Alone,
    seen::Seen,
};

/// On 6.18 switches away from ending tasks reach no tracepoint, and without BTF the kernel's stamps are not
/// available: if a neighbour starts and ends processes all the time, one run of three was disturbed.
const ATTEMPTS: u32 = 8;

/// A case, and its name in the table.
fn classic(name: &'static str) -> (Case, String) {
    (Case::new(name).by_events(), format!("tp {name}"))
}

/// Asserts that only the three accounts have time.
fn assert_folded(seen: &Seen) {
    let told = [Account::Cpu, Account::Runq, Account::Other];
    for phase in seen.requests.iter().flat_map(|request| &request.phases) {
        let others = Account::ALL.into_iter().filter(|account| !told.contains(account));
        assert_eq!(others.map(|account| phase.accounts.get(account)).sum::<u64>(), 0, "{phase:?}");
    }
}

#[rstest]
#[case::spin("spin", 1, 0)]
#[case::yields("yield", 2, 0)]
#[case::interrupted("interrupted", 1, 200)]
#[case::contenders("contend", 2, 0)]
#[case::without_quota("quota", 1, 0)]
#[case::sleep("sleep", 1, 0)]
#[case::lock("lock", 2, 0)]
#[case::pipe("pipe", 2, 0)]
#[case::recv("recv", 2, 0)]
fn times_and_switches(#[case] name: &'static str, #[case] phases: u64, #[case] signals: u64) {
    up_to(ATTEMPTS, || {
        let (case, name) = classic(name);
        let Some(seen) = case.run() else { return };
        seen.check();
        if seen.book.refused() {
            return skipped(&name, "refused here");
        }
        seen.check_no_losses();
        assert_folded(&seen);
        // The kernel skips these programs while any call of bpf(2) reads a map on that CPU: from 7.0 on such
        // a call can be preempted, and a switch was missing (1 of 200). The count does not say for which
        // task: if others read maps all the time, most of it is theirs.
        let compare = || {
            (1..=phases).for_each(|number| {
                compare_switches(&name, seen.request(number), seen.book.row(number), signals);
            });
        };
        if seen.runs_left_out == 0 {
            return compare();
        }
        if catch_unwind(AssertUnwindSafe(compare)).is_err() {
            disagree(format!("{name}: {} runs of programs were left out", seen.runs_left_out));
        }
    });
}

#[test]
fn every_descendant_is_tracked() {
    up_to_three_times(|| {
        let (case, name) = classic("descend");
        let Some(seen) = case.run() else { return };
        seen.check();
        seen.check_no_losses();
        assert_same_threads(&seen, seen.threads.iter());
        // As with BTF, threads of one process are recognised by how they were created.
        assert_eq!(seen.processes.len(), 7, "{:?}", seen.processes);
        let nameless = seen.threads.iter().filter(|thread| thread.comm.is_empty()).count() as u64;
        count(&name, "nameless", nameless, (0, 0));
    });
}

#[test]
fn a_thread_that_starts_a_program_becomes_the_leader() {
    up_to_three_times(|| {
        let (case, name) = classic("exec_thread");
        let Some(seen) = case.run() else { return };
        seen.check();
        assert_eq!(seen.slots_held, 0);
        let (replaced, after) = (seen.request(1), seen.request(3));
        assert_eq!(replaced.ending, Ending::Exec);
        compare_switches(&name, after, seen.book.row(3), 0);
        assert_eq!((after.thread.tid, after.thread.born_ns), (replaced.thread.tgid, replaced.thread.born_ns));
        assert_eq!(seen.threads.len(), 2, "{:?}", seen.threads);
        assert!(seen.threads.iter().all(|thread| !thread.comm.is_empty()), "{:?}", seen.threads);
    });
}

/// The kernel refuses a typed program if the tracepoint does not pass what the program reads.
#[test]
fn a_refused_program_is_replaced_by_its_twin() {
    let _alone = Alone::lock();
    let mut prepared = match loader::prepare(&LoadOptions::default()) {
        Ok(prepared) => prepared,
        Err(error @ LoadError::Permission(_)) => return skipped("fallback", &error.to_string()),
        Err(error) => panic!("the object is taken: {error}"),
    };
    assert_eq!(prepared.fidelity, Fidelity::Full);
    let of = |program: &str| {
        let hook = sched::HOOKS.iter().find(|hook| hook.program == program);
        *hook.expect("a hook of the family")
    };
    let waking = of("sched_waking");
    let wrong = Hook { program: "sched_switch", ..waking };
    assert!(prepared.attach(&wrong).is_err(), "the program of another tracepoint is refused");
    let verdict = prepared.put_in_place(&wrong).expect("the twin is taken");
    assert_eq!(verdict.outcome, Outcome::Fallback);
    assert_eq!(verdict.consequence, "end of a wait, by raw_tp/sched_waking: it was refused");
    let without = Hook { twin: None, ..wrong };
    assert!(prepared.put_in_place(&without).is_err(), "without a twin nothing can be observed");
    let optional = Hook { is_needed: false, ..without };
    let verdict = prepared.put_in_place(&optional).expect("it can be done without");
    assert_eq!(verdict.outcome, Outcome::Broken);
}
