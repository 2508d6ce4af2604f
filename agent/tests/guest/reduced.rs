//! Injected faults where the agent sees less: without BTF (fidelity `tracepoint`) and without BPF (`procfs`).
//! The accounts that it still has (on a CPU, in a run queue, elsewhere) must have the right sizes.
//!
//! The guest's row in `xtask/kernels.toml` gives the fidelity. Root also tests the same faults without BPF.

use guestscope::analyze::Cause;
use guestscope_contract::Account;
use nix::unistd::geteuid;
use rstest::rstest;

use crate::{
    folder::{Seen, only_folder},
    ground::{Ground, skipped, variable},
    truth::{ATTEMPTS, EVERY, Row, Run, Truth, keep, workloads},
};

/// The fidelities to test here; none, with a note on stdout, in any other guest.
fn fidelities(test: &str) -> Vec<String> {
    let Some(fidelity) = variable("GUESTSCOPE_FIDELITY") else {
        skipped(test, "only in guests that let the agent see less");
        return Vec::new();
    };
    let fidelity = fidelity.into_string().expect("a name");
    let without_bpf = geteuid().is_root() && fidelity != "procfs";
    [fidelity].into_iter().chain(without_bpf.then(|| "procfs".to_owned())).collect()
}

/// Also works for an ordinary user.
fn ground() -> Ground {
    Ground::with(variable("GUESTSCOPE_BIN").expect("GUESTSCOPE_BIN is set").into())
}

/// A run of the stall with these arguments, checked for its fidelity.
fn run_of(ground: &Ground, kind: &str, words: &[&str], fidelity: &str) -> Option<Run> {
    let workloads = workloads("reduced", kind)?;
    let forced: &[&str] =
        if variable("GUESTSCOPE_FIDELITY")? == fidelity { &[] } else { &["--fidelity", fidelity] };
    let run = Run::of_start(ground, ground.run().words(forced), &workloads, words);
    let seen = Seen::read(&only_folder(&ground.path("runs")));
    assert_eq!(seen.manifest.fidelity, fidelity);
    Some(run)
}

/// Waiting without quota counts as `runq`, as in the kernel's own counters of a thread; every other wait is
/// `other`.
#[rstest]
#[case::neighbour(&["spin-neighbour", "--size", "20ms"], Account::Runq, Truth::Injected, true)]
#[case::quota(&["quota", "--size", "30ms"], Account::Runq, Truth::Injected, true)]
#[case::lock(&["lock", "--size", "20ms"], Account::Other, Truth::Injected, false)]
#[case::socket(&["slow-peer", "--size", "20ms"], Account::Other, Truth::Injected, false)]
#[case::pipe(&["slow-peer", "--peer", "pipe", "--size", "20ms"], Account::Other, Truth::Injected, false)]
#[case::sleep(&["sleep", "--size", "20ms"], Account::Other, Truth::Injected, false)]
#[case::spin(&["spin", "--size", "20ms"], Account::Cpu, Truth::Cpu, false)]
fn a_fault_is_named_by_what_can_be_told_apart(
    #[case] words: &[&str],
    #[case] account: Account,
    #[case] truth: Truth,
    #[case] needs_root: bool,
) {
    let test = "reduced::a_fault_is_named_by_what_can_be_told_apart";
    if needs_root && !geteuid().is_root() {
        return skipped(test, &format!("{} needs root", words[0]));
    }
    for fidelity in fidelities(test) {
        for attempt in 1..=ATTEMPTS {
            let ground = ground();
            let seed = attempt.to_string();
            let all: Vec<&str> = words.iter().copied().chain(["--every", EVERY, "--seed", &seed]).collect();
            let Some(run) = run_of(&ground, words[0], &all, &fidelity) else { return };
            let what = format!("{}, {fidelity}", words.join(" "));
            let row = Row::of(&run, words[0], what, (Cause::Account(account), truth));
            keep(row.text());
            if row.holds() {
                break;
            }
            assert!(attempt < ATTEMPTS, "every time, the last: {}", row.text());
        }
    }
}

#[test]
fn where_nothing_was_injected_nothing_is_named() {
    let test = "reduced::where_nothing_was_injected_nothing_is_named";
    for fidelity in fidelities(test) {
        for attempt in 1..=ATTEMPTS {
            let (ground, seed) = (ground(), attempt.to_string());
            let words = ["sleep", "--every", "1000000", "--seed", &seed, "--log-spared"];
            let Some(run) = run_of(&ground, "sleep", &words, &fidelity) else { return };
            let named = run.headline();
            let is_true = named != "none" && run.is_confirmed(&named);
            let told = run.headline_text();
            let text = format!(
                "no fault, {fidelity}: {named}, {}: {told}",
                if is_true { "true" } else { "not confirmed" }
            );
            keep(text.clone());
            if named == "none" || is_true {
                break;
            }
            assert!(attempt < ATTEMPTS, "every time, the last: {text}");
        }
    }
}
