//! Go functions: their goroutines leave the thread in the middle of a call, and their stacks move.

use std::collections::HashMap;

use guestscope::phase::{Ending, Phase};
use guestscope_contract::{Account, Source};
use rstest::rstest;

use crate::{
    functions::{told, with},
    ground::{Ground, eventually},
    natives,
    running::{Done, Start},
};

const HANDLES: usize = 200;

/// How long each call took, measured inside and outside of it, by its number.
fn said(stdout: &str) -> HashMap<u64, [u64; 2]> {
    let one = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [number, inside, outside] = *numbers.as_slice() else { return None };
        Some((number, [inside, outside]))
    };
    stdout.lines().filter_map(one).collect()
}

const PHASES: [&str; 4] = [
    "handle=program:main.handle:arg1",
    "inner=program:main.inner",
    "panics=program:main.panics:arg1",
    "ends=program:main.ends",
];

/// Each call of `handle` is a request whose duration lies between the two measurements of the program.
fn assert_handles(done: &Done, said: &HashMap<u64, [u64; 2]>) {
    assert_eq!(said.len(), HANDLES);
    let seen = done.seen();
    let handles = seen.named("handle");
    assert_eq!(handles.len(), HANDLES);
    let mut slept = 0;
    for handle in handles {
        let [root, inner] = handle.phases.as_slice() else { panic!("{handle:#?}") };
        assert_eq!(
            (root.source, root.ending, inner.ending),
            (Source::Function, Ending::Ended, Ending::Ended)
        );
        assert_eq!((inner.name.stored(), inner.parent), ("inner", Some(root.id)));
        let [inside, outside] = said[&root.request];
        assert!((inside..=outside).contains(&root.duration_ns), "{inside} to {outside}: {root:#?}");
        // It works for 1 ms and then sleeps for 2 ms on no thread, which is no account. The sleep begins on
        // the CPU: microseconds until its thread has given it up, more if the thread loses the CPU meanwhile.
        let work_ns = inner.accounts.get(Account::Cpu).saturating_sub(1_000_000);
        let away_ns = inner.suspended_ns + inner.accounts.get(Account::Runq);
        assert!(inner.suspended_ns > 0 && away_ns + work_ns >= 2_000_000, "{handle:#?}");
        assert!(root.suspended_ns >= inner.suspended_ns, "{handle:#?}");
        slept += usize::from(inner.suspended_ns >= 1_000_000);
    }
    assert!(slept >= HANDLES * 9 / 10, "{slept} of {HANDLES} were on no thread for half of their sleep");
}

/// Built as by default, and stripped and position-independent.
#[rstest]
#[case::whole(&[])]
#[case::stripped(&["-ldflags=-s -w"])]
#[case::stripped_pie(&["-ldflags=-s -w", "-buildmode=pie"])]
fn a_goroutine_takes_its_phases_along(#[case] words: &[&str]) {
    let test = "goroutines::a_goroutine_takes_its_phases_along";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = natives::go(test, &ground, "goroutines.go", words) else { return };
    let done = with(ground.run(), &PHASES).program(&program).finish().expect(0);
    assert_handles(&done, &said(&done.stdout));
    // Calls with an odd number are left by a panic.
    let seen = done.seen();
    let endings = |name: &str, ending| {
        seen.named(name).iter().filter(|request| request.root().ending == ending).count()
    };
    let [odd, even] = [8 * 12, 8 * 13];
    assert_eq!((endings("panics", Ending::Lost), endings("panics", Ending::Ended)), (odd, even));
    assert_eq!((endings("ends", Ending::Lost), endings("ends", Ending::Ended)), (20, 0));
    let lost = told(&done, "function", "panics");
    assert!(
        lost.iter().any(|text| text.contains(&format!("{odd} calls")) && text.contains("without a return"))
    );
}

#[test]
fn a_program_of_go_that_runs_is_attached_to() {
    let test = "goroutines::a_program_of_go_that_runs_is_attached_to";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = natives::go(test, &ground, "goroutines.go", &[]) else { return };
    let gate = ground.path("gate");
    let output = std::fs::File::create(ground.path("said")).expect("the folder is ours");
    let subject = Start::new(&ground.path(""), &program).word(&gate).stdout(output).spawn();
    let pid = subject.pid().to_string();
    let start = ground.command(&["attach", "--json", "--output"]).word(ground.path("runs"));
    let run = with(start.words(&["--pid", &pid]), &PHASES).spawn();
    eventually("attached", || run.stderr().contains("attached to ").then_some(()));
    std::fs::write(gate, "").expect("the folder is ours");
    let done = run.finish().expect(0);
    assert_eq!(subject.finish().code(), 0);
    assert_handles(&done, &said(&std::fs::read_to_string(ground.path("said")).expect("it is ours")));
}

/// After a system call, a goroutine that has lost its turn is queued: from then on its thread works for
/// others.
#[test]
fn a_goroutine_that_lost_its_turn_leaves_its_thread() {
    let test = "goroutines::a_goroutine_that_lost_its_turn_leaves_its_thread";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = natives::go(test, &ground, "away.go", &[]) else { return };
    let phases = ["blocks=program:main.blocks:arg1"];
    let done = with(ground.run(), &phases).program(&program).words(&["0"]).finish().expect(0);
    let (seen, said) = (done.seen(), said(&done.stdout));
    let blocks = seen.named("blocks");
    assert_eq!((blocks.len(), said.len()), (20, 20));
    for request in &blocks {
        let root = request.root();
        let [inside, outside] = said[&root.request];
        assert!((inside..=outside).contains(&root.duration_ns), "{inside} to {outside}: {root:#?}");
        assert!(root.accounts.get(Account::Sleep) >= 5 * 2_000_000, "{root:#?}");
    }
    // Waiting for a turn is on no thread, whether the thread sleeps or works for others. A goroutine whose
    // call is fast enough keeps its turn.
    let sum = |of: &dyn Fn(&Phase) -> u64| blocks.iter().map(|request| of(request.root())).sum::<u64>();
    let of_others = sum(&|root| root.accounts.get(Account::Lock) + root.accounts.get(Account::Cpu));
    let away = sum(&|root| root.suspended_ns);
    assert!(away > 20 * 2_000_000 && of_others < away / 4, "{away} {of_others}: {blocks:#?}");
    assert!(done.losses().is_empty(), "{:?}", done.losses());
}

/// The next program has other goroutines at the same addresses.
#[test]
fn a_replaced_program_leaves_no_calls_to_the_next() {
    let test = "goroutines::a_replaced_program_leaves_no_calls_to_the_next";
    let Some(ground) = Ground::new(test) else { return };
    let Some(program) = natives::go(test, &ground, "away.go", &[]) else { return };
    let phases = ["again=program:main.again:arg1"];
    let done = with(ground.run(), &phases).program(&program).words(&["3"]).finish().expect(0);
    let seen = done.seen();
    let mut endings: Vec<(u64, Ending)> =
        seen.named("again").iter().map(|again| (again.root().request, again.root().ending)).collect();
    endings.sort_unstable_by_key(|(number, _)| *number);
    assert_eq!(endings, [(1, Ending::Ended), (2, Ending::Exec), (3, Ending::Exec)]);
    assert_eq!(done.losses(), [("pairing_unended_phases".to_owned(), 2)]);
}
