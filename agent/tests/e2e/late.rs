//! An agent that does not run when a program's first mark waits for it: after 2 s the program runs on, and
//! the summary says that its first edges were not seen.

use std::fs;

use nix::sys::signal::Signal;

use crate::{
    ground::{Ground, eventually, subject},
    running::{Done, Running},
};

/// Starts the subject, which reaches its first mark only after the agent was stopped.
fn stopped_before(ground: &Ground, role: &str) -> Running {
    let gate = format!("touch there; until [ -e go ]; do sleep 0.01; done; exec \"$0\" {role}");
    let run = ground.run().program("bash").words(&["-c", &gate]).word(subject()).spawn();
    eventually("the program", || ground.path("there").exists().then_some(()));
    run.signal(Signal::SIGSTOP);
    fs::write(ground.path("go"), "").expect("the folder is ours");
    run
}

/// The summary and the manifest have the same count.
fn check(done: &Done) {
    assert_eq!(done.loss("programs_unanswered"), 1, "{}", done.stdout);
    let losses = done.seen().manifest.health.losses;
    assert_eq!(losses.get("programs.unanswered"), Some(&1), "{losses:?}");
}

/// The program ends before the agent runs again: none of its requests was seen, and only this count tells of
/// them.
#[test]
fn a_program_that_ends_unmet_is_counted() {
    let Some(ground) = Ground::new("late::a_program_that_ends_unmet_is_counted") else { return };
    let run = stopped_before(&ground, "requests 3");
    eventually("the program's end", || ground.book().contains("done").then_some(()));
    run.signal(Signal::SIGCONT);
    let done = run.finish().expect(0);
    check(&done);
    assert_eq!(done.summary()["requests"], 0, "{}", done.stdout);
}

/// The program runs on and is observed from then on.
#[test]
fn a_program_that_goes_on_unmet_is_counted_and_observed_later() {
    let test = "late::a_program_that_goes_on_unmet_is_counted_and_observed_later";
    let Some(ground) = Ground::new(test) else { return };
    let run = stopped_before(&ground, "requests 400 100 9900");
    eventually("its first requests", || (ground.book().lines().count() > 3).then_some(()));
    run.signal(Signal::SIGCONT);
    let done = run.finish().expect(0);
    check(&done);
    let requests = done.summary()["requests"].as_u64().expect("a number");
    assert!((1..=397).contains(&requests), "{}", done.stdout);
    assert!(done.loss("pairing_edges_before") > 0, "{}", done.stdout);
}

/// A program that is met in time is not counted, however late its first mark comes.
#[test]
fn a_program_that_is_met_is_not_counted() {
    let Some(ground) = Ground::new("late::a_program_that_is_met_is_not_counted") else { return };
    let done = ground.run_subject(&["requests", "3"]).finish().expect(0);
    assert_eq!((done.loss("programs_unanswered"), done.losses()), (0, vec![]));
    assert_eq!(done.summary()["requests"], 3);
}
