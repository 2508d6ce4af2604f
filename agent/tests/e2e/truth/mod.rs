//! Faults of known kind and size, injected by `guestscope-workloads stall` and logged by the injector: the
//! agent must name each one first, with its size. Invariant 4.
//!
//! A row per kind. The account of a hit request, minus that of the median spared one, is compared with the
//! injector's own measurement. Other load disturbs single requests, so a row is judged by its median, and
//! repeated if that was disturbed too: a wrong ledger is wrong every time. If other load keeps even the
//! spared requests from their CPU every time, the test is skipped. If waiting for a disk costs as much CPU
//! time as it takes, by the injector's own measurement, either may be named, and the row says so. If the
//! hypervisor takes much of the time, a row that never held is reported as not judged.
//!
//! GUESTSCOPE_REPETITIONS=100 makes 100 faults of each kind, with random sizes and places, each judged
//! separately.

mod explained;
mod many;
mod patience;
mod run;
mod stolen;
mod table;

use std::ffi::OsString;

use guestscope::{
    analyze::{Cause, Overlay},
    phase::Phase,
};
use guestscope_contract::Account;
use rstest::rstest;

use self::{
    run::error,
    table::{HITS, SHARE},
};
use crate::ground::{skipped, variable};

pub(crate) use self::{
    patience::{Look, insist},
    run::{Run, Truth},
    table::{Row, keep},
};

/// One request in this many is hit.
pub(crate) const EVERY: &str = "12";
/// The cause if a helper thread is late.
const HELPER_RUNQ: Cause = Cause::Helper(Account::Runq);
/// Attempts for each row.
pub(crate) const ATTEMPTS: u32 = 8;

fn has_one_cpu() -> bool {
    std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1)
}

/// Whether requests necessarily share their CPU with the agent: with one CPU, and in emulated guests, whose
/// CPUs run in turns while the clock of both goes on (the agent's look at its rings takes 5 ms of CPU time
/// there).
fn has_turns() -> bool {
    has_one_cpu() || variable("GUESTSCOPE_DISPOSABLE").is_some()
}

pub(crate) fn workloads(test: &str, kind: &str) -> Option<OsString> {
    let lacks = match variable("GUESTSCOPE_WORKLOADS_BIN") {
        _ if has_one_cpu() && ["bounce", "helper-late", "spin-openmp"].contains(&kind) => "one CPU only",
        // Guests have only static programs.
        _ if kind == "spin-openmp" && variable("GUESTSCOPE_DISPOSABLE").is_some() => "no libgomp in a guest",
        _ if kind == "shaped-net" && variable("GUESTSCOPE_DISPOSABLE").is_some() => "no iproute2 in a guest",
        None => "GUESTSCOPE_WORKLOADS_BIN is not set",
        found => return found,
    };
    skipped(test, lacks);
    None
}

#[rstest]
#[case::neighbour(&["spin-neighbour", "--size", "20ms"], Cause::Account(Account::Runq), Truth::Injected)]
#[case::quota(&["quota", "--size", "30ms"], Cause::Account(Account::Throttled), Truth::Injected)]
#[case::lock(&["lock", "--size", "20ms"], Cause::Account(Account::Lock), Truth::Injected)]
#[case::socket(&["slow-peer", "--size", "20ms"], Cause::Account(Account::Net), Truth::Injected)]
#[case::slow_link(&["shaped-net", "--size", "20ms"], Cause::Account(Account::Net), Truth::Asleep)]
#[case::pipe(&["slow-peer", "--peer", "pipe", "--size", "20ms"], Cause::Account(Account::Other), Truth::Injected)]
#[case::sleep(&["sleep", "--size", "20ms"], Cause::Account(Account::Sleep), Truth::Injected)]
#[case::disk(&["disk", "--size", "30ms"], Cause::Account(Account::BlockIo), Truth::Asleep)]
#[case::fault(&["fault", "--size", "1024"], Cause::Account(Account::Fault), Truth::Asleep)]
#[case::touch(&["touch", "--size", "16384"], Cause::Overlay(Overlay::Fault), Truth::Injected)]
#[case::syscalls(&["syscalls", "--size", "20ms"], Cause::Overlay(Overlay::Syscall), Truth::Injected)]
#[case::spin(&["spin", "--size", "20ms"], Cause::Account(Account::Cpu), Truth::Cpu)]
#[case::spin_in_libgomp(&["spin-openmp", "--size", "20ms"], Cause::Overlay(Overlay::Spin), Truth::Cpu)]
#[case::sleeping_for_a_late_helper(&["helper-late", "--wait", "sleep", "--size", "20ms"], HELPER_RUNQ, Truth::Injected)]
#[case::spinning_for_a_late_helper(&["helper-late", "--wait", "spin", "--size", "20ms"], HELPER_RUNQ, Truth::Injected)]
fn a_fault_is_named_first_with_its_size(#[case] words: &[&str], #[case] cause: Cause, #[case] truth: Truth) {
    let test = "truth::a_fault_is_named_first_with_its_size";
    let Some(workloads) = workloads(test, words[0]) else { return };
    if let Some(repetitions) = many::repetitions() {
        return many::judge(test, &workloads, words, (cause, truth), repetitions);
    }
    insist(test, &words.join(" "), |attempt| {
        let seed = attempt.to_string();
        let more = ["--every", EVERY, "--seed", &seed];
        let all: Vec<&str> = words.iter().copied().chain(more).collect();
        let run = Run::of(test, &workloads, &all)?;
        let row = Row::of(&run, words[0], words.join(" "), (cause, truth));
        keep(row.text());
        Some(Look { holds: row.holds(), is_busy: row.busy, text: row.text() })
    });
}

#[test]
fn a_wait_for_a_late_helper_is_explained_by_what_that_one_went_through() {
    let test = "truth::a_wait_for_a_late_helper";
    let Some(workloads) = workloads(test, "helper-late") else { return };
    insist(test, "helper-late explained", |attempt| {
        let seed = attempt.to_string();
        let words = ["helper-late", "--wait", "sleep", "--size", "20ms", "--every", EVERY, "--seed", &seed];
        let run = Run::of(test, &workloads, &words)?;
        let explained = run.injections("helper-late").filter(|injection| {
            let root = run.request(injection.request).0.id;
            let blames =
                run.waits.iter().filter(|wait| wait.root == Some(root)).filter_map(|wait| wait.blame);
            let of_runq = blames.filter(|blame| blame.account == Account::Runq && blame.depth == 1);
            of_runq.map(|blame| error((injection.ns, blame.ns)).abs()).any(|error| error <= SHARE)
        });
        let explained = explained.count();
        let text = format!("{explained} of {HITS} were explained");
        Some(Look { holds: explained + 1 >= HITS, is_busy: false, text })
    });
}

#[test]
fn moves_are_counted_to_the_last() {
    let test = "truth::moves_are_counted_to_the_last";
    let Some(workloads) = workloads(test, "bounce") else { return };
    let moves = |phase: &Phase| {
        let counts = phase.counts;
        counts.migrate_smt + counts.migrate_llc + counts.migrate_node + counts.migrate_remote
    };
    if let Some(repetitions) = many::repetitions() {
        return many::moves(test, &workloads, repetitions, moves);
    }
    let Some(run) = Run::of(test, &workloads, &["bounce", "--size", "16", "--every", EVERY]) else { return };
    assert_eq!(run.spared(moves), 0, "the others stay where they are");
    assert_eq!(run.injections("bounce").count(), HITS);
    for injection in run.injections("bounce") {
        assert_eq!(moves(&run.request(injection.request).0), injection.count);
    }
}

/// Shares of samples over all hits: 6 times 25 ms are 150 samples, so a share has an error of 4 percentage
/// points. System calls map and unmap the new memory, so both shares belong to its faults.
#[rstest]
#[case::page_faults(
    &["touch", "--size", "8192"],
    |phase: &Phase| phase.counts.sample_fault + phase.counts.sample_syscall
)]
#[case::system_calls(&["syscalls", "--size", "20ms"], |phase: &Phase| phase.counts.sample_syscall)]
fn samples_tell_what_lies_inside_cpu(#[case] words: &[&str], #[case] samples: fn(&Phase) -> u64) {
    const POINTS: f64 = 15.0;
    let test = "truth::samples_tell_what_lies_inside_cpu";
    let Some(workloads) = workloads(test, words[0]) else { return };
    insist(test, &words.join(" "), |_| {
        let all: Vec<&str> = words.iter().copied().chain(["--every", EVERY]).collect();
        let run = Run::of(test, &workloads, &all)?;
        let (mut injected_ns, mut cpu_ns, mut of_kind, mut all) = (0, 0, 0, 0);
        for injection in run.injections(words[0]) {
            let phase = &run.request(injection.request).0;
            let counts = &phase.counts;
            injected_ns += injection.cpu_ns;
            cpu_ns += phase.accounts.get(Account::Cpu);
            of_kind += samples(phase);
            all += counts.sample_user + counts.sample_fault + counts.sample_syscall;
        }
        let (truth, seen) = (injected_ns as f64 / cpu_ns as f64, of_kind as f64 / all.max(1) as f64);
        let text = format!("{} of {all} samples are {seen:.3}, injected {truth:.3}", words.join(" "));
        keep(text.clone());
        let holds = all >= 50 && (truth - seen).abs() * 100.0 <= POINTS;
        Some(Look { holds, is_busy: false, text })
    });
}

/// Other load may disturb a run and is named then: a run without disturbance names nothing.
#[test]
fn where_nothing_was_injected_nothing_is_named() {
    let test = "truth::where_nothing_was_injected_nothing_is_named";
    let Some(workloads) = workloads(test, "sleep") else { return };
    if let Some(repetitions) = many::repetitions() {
        return many::without_faults(test, &workloads, repetitions);
    }
    insist(test, "no fault", |attempt| {
        let run = many::without_fault(test, &workloads, u64::from(attempt))?;
        let holds = run.headline() == "none" || (has_turns() && run.is_confirmed(&run.headline()));
        Some(Look { holds, is_busy: false, text: run.headline_text().to_owned() })
    });
}

#[test]
fn of_two_faults_the_larger_comes_first() {
    let test = "truth::of_two_faults_the_larger_comes_first";
    let Some(workloads) = workloads(test, "lock") else { return };
    if let Some(repetitions) = many::repetitions() {
        return many::mixtures(test, &workloads, repetitions);
    }
    insist(test, "lock 24ms and sleep 12ms", |attempt| {
        let seed = attempt.to_string();
        let words = ["lock", "--size", "24ms", "--and", "sleep:12ms", "--every", EVERY, "--seed", &seed];
        let run = Run::of(test, &workloads, &words)?;
        let [lock, sleep] = [Account::Lock, Account::Sleep].map(Cause::Account);
        let rows = [("lock", lock), ("sleep", sleep)].map(|(kind, cause)| {
            Row::of(&run, kind, "lock 24ms and sleep 12ms".to_owned(), (cause, Truth::Injected))
        });
        let named = run.headline() == "lock" && rows[0].named + 1 >= HITS;
        let holds = named && rows.iter().all(Row::is_sized);
        for row in &rows {
            keep(row.text());
        }
        // In the slowest request both causes appear, in the order of their sizes.
        let parts = &run.summary["groups"][0]["slowest"][0]["parts"];
        let causes: Vec<_> = (0..2).map(|index| parts[index]["cause"].as_str().unwrap_or_default()).collect();
        let holds = holds && causes == ["lock", "sleep"];
        Some(Look { holds, is_busy: rows[0].busy, text: format!("{causes:?} {parts}") })
    });
}
