//! Hints at the end of a run without marks: real programs that provoke one, and programs that must not.

use std::{net::TcpListener, path::Path, process::Stdio};

use crate::{
    ground::{Ground, eventually, file, python},
    running::{Done, Start},
};

/// The options that the hints suggest, `-` for a hint without one.
fn options(done: &Done) -> Vec<String> {
    let summary = done.summary();
    let hints = summary["hints"].as_array().expect("hints are a list");
    hints.iter().map(|hint| hint["option"].as_str().unwrap_or("-").to_owned()).collect()
}

fn server(start: Start, python: &Path, words: &[&str]) -> Done {
    start.program(python).word(file("tests/data/e2e/unmarked_server.py")).words(words).finish().expect(0)
}

#[test]
fn a_server_that_nothing_marked_is_told_the_option_for_its_port() {
    let test = "hints::a_server_that_nothing_marked_is_told_the_option_for_its_port";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let done = server(ground.run(), &python, &[]);
    assert_eq!(options(&done), [format!("--requests port:{}", ground.book().trim())]);
}

#[test]
fn what_was_asked_for_is_not_suggested() {
    let test = "hints::what_was_asked_for_is_not_suggested";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = free.expect("a port is free").port().to_string();
    let start = ground.run().words(&["--requests", &format!("port:{port}")]).environment("E2E_PORT", &port);
    assert_eq!(options(&server(start, &python, &[])), [""; 0]);
}

#[test]
fn a_program_with_marks_gets_no_hint() {
    let test = "hints::a_program_with_marks_gets_no_hint";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    assert_eq!(options(&server(ground.run(), &python, &["marked"])), [""; 0]);
}

/// A phase of the server's work is marked, and no request.
#[test]
fn a_server_without_requests_is_told_the_option_for_its_port() {
    let test = "hints::a_server_without_requests_is_told_the_option_for_its_port";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let done = server(ground.run().words(&["--mark", "shutil:which"]), &python, &["works"]);
    assert_eq!(done.seen().named("which").len(), 1);
    assert_eq!(options(&done), [format!("--requests port:{}", ground.book().trim())]);
}

#[test]
fn what_goes_on_behind_the_program_is_told() {
    let test = "hints::what_goes_on_behind_the_program_is_told";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let done = server(ground.run(), &python, &["daemon"]);
    let summary = done.summary();
    let saw = summary["hints"][0]["saw"].as_str().unwrap_or_default();
    assert!(saw.contains("continues unobserved (pid "), "{summary}");
}

#[test]
fn a_program_that_has_nothing_to_mark_gets_no_hint() {
    let Some(ground) = Ground::new("hints::a_program_that_has_nothing_to_mark_gets_no_hint") else { return };
    let done = ground.run().program("sleep").word("2").finish().expect(0);
    assert_eq!(options(&done), [""; 0]);
}

/// A file with the name of NVTX's library stands in for it.
#[test]
fn sources_that_were_switched_off_are_suggested() {
    let test = "hints::sources_that_were_switched_off_are_suggested";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let done = server(ground.run().words(&["--sources", "none"]), &python, &["nvtx"]);
    let port = format!("--requests port:{}", ground.book().trim());
    assert_eq!(options(&done), [&*port, "--sources python", "--sources nvtx"]);
}

#[test]
fn a_python_that_was_attached_to_is_told_to_be_started() {
    let test = "hints::a_python_that_was_attached_to_is_told_to_be_started";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let program = Start::new(&ground.path(""), &python)
        .word(file("tests/data/e2e/unmarked_server.py"))
        .environment("E2E_BOOK", ground.path("book"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    // By then a pyenv shim has become Python by exec.
    eventually("it listens", || ground.book().ends_with('\n').then_some(()));
    let pid = program.pid().to_string();
    let attach = ground.command(&["attach", "--json", "--output"]).word(ground.path("runs"));
    let done = attach.words(&["--pid", &pid]).finish().expect(0);
    let port = format!("--requests port:{}", ground.book().trim());
    assert_eq!(options(&done), [&*port, "guestscope run"]);
}
