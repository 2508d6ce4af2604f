//! What is in no number comes first: requests without an end, and marks of threads that were not tracked.

use std::process::Stdio;

use guestscope::folder::Folder;
use nix::sys::signal::Signal;

use crate::{
    folder::only_folder,
    ground::{Ground, eventually, subject},
    running::Start,
};

/// What `explain` prints first, on one line.
fn first_of_explain(ground: &Ground) -> String {
    let folder = only_folder(&ground.path("runs"));
    let done = ground.command(&["explain"]).word(folder).finish().expect(0);
    let block = done.stdout.lines().take_while(|line| !line.is_empty());
    block.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The sentence before the advice, and whether there is advice on forks.
fn sentence_and_advice(ground: &Ground) -> (String, bool) {
    let said = without_times(&first_of_explain(ground));
    let (sentence, advice) = said.split_once(" advice ").unwrap_or((&said, ""));
    (sentence.to_owned(), advice.contains("A fork copies one thread alone"))
}

/// Without times and numbers of processes: they are this machine's.
fn without_times(sentence: &str) -> String {
    let words: Vec<&str> = sentence.split(' ').collect();
    let is_time = |at: usize| at > 0 && words[at - 1] == "for" && words[at].starts_with(char::is_numeric);
    let is_pid = |at: usize| at > 0 && ["(pid", "process"].contains(&words[at - 1]);
    let pid = |at: usize| words[at].trim_start_matches(char::is_numeric);
    let is_number = |at: usize| is_pid(at) && words[at].starts_with(char::is_numeric);
    let of = |at: usize| match () {
        () if is_time(at) => "N".to_owned(),
        () if is_number(at) => format!("N{}", pid(at)),
        () => words[at].to_owned(),
    };
    let is_unit = |at: usize| at > 0 && is_time(at - 1);
    let rest = |at: usize| words[at].trim_start_matches(char::is_alphabetic).to_owned();
    let said = (0..words.len()).map(|at| if is_unit(at) { format!("s{}", rest(at)) } else { of(at) });
    said.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_hung_child_is_the_first_thing_said() {
    let Some(ground) = Ground::new("hidden::a_hung_child_is_the_first_thing_said") else { return };
    let start = ground.run_subject(&["hang"]).environment("E2E_GO_ON", ground.path("go-on"));
    let running = start.spawn();
    eventually("the hung request is looked at", || {
        if !ground.path("runs").exists() {
            return None;
        }
        let folder = Folder::open(only_folder(&ground.path("runs"))).ok()?;
        let seen = &folder.manifest().unfinished.requests;
        seen.first().filter(|one| one.is_private.is_some()).map(|_| ())
    });
    let told = "1 request is still open: serve 1 (pid N), for N s in tokenize, waiting in futex (lock) for N s; \
                no other thread of its process, forked from process N, is alive: nobody can wake it";
    assert_eq!(sentence_and_advice(&ground), (told.to_owned(), true));
    std::fs::write(ground.path("go-on"), "").expect("the folder is ours");
    let done = running.finish().expect(0);
    let told = "1 request did not end: serve 1 (pid N), for N s in tokenize, waiting in futex (lock) for N s, \
                until its process ended; no other thread of its process, forked from process N, was alive: \
                nobody could wake it";
    assert_eq!(sentence_and_advice(&ground), (told.to_owned(), true));
    let summary = done.summary();
    let open = summary["open"].as_array().expect("it is a list");
    assert_eq!(open.len(), 1);
    let one = &open[0];
    let words = ["kind", "fate", "name", "state", "account"].map(|key| one[key].as_str().unwrap_or_default());
    assert_eq!(words, ["ended", "process_ended", "serve", "waiting", "lock"]);
    assert_eq!((&one["path"][0], &one["other_threads"]), (&"tokenize".into(), &0.into()));
    assert_eq!((&summary["unfinished"]["open"], &summary["requests"]), (&0.into(), &5.into()));
}

/// One request or another is always open: that is no news.
#[test]
fn a_request_in_flight_at_the_end_does_not_hang() {
    let Some(ground) = Ground::new("hidden::a_request_in_flight_at_the_end_does_not_hang") else { return };
    let start = ground.run_subject(&["in-flight"]).environment("E2E_GO_ON", ground.path("go-on"));
    let done = start.finish().expect(0);
    std::fs::write(ground.path("go-on"), "").expect("the folder is ours");
    assert_eq!(
        without_times(&first_of_explain(&ground)),
        "1 request was in flight at the end: request 3 (pid N), for N s in work"
    );
    let open = &done.summary()["open"];
    assert_eq!((&open[0]["kind"], &open[0]["fate"]), (&"in_flight".into(), &"stopped".into()));
}

#[test]
fn marks_of_threads_without_a_slot_come_with_the_option_that_helps() {
    let Some(ground) = Ground::new("hidden::marks_of_threads_without_a_slot_come_with_the_option_that_helps")
    else {
        return;
    };
    let start = ground.run().words(&["--max-threads", "8"]).program(subject()).words(&["threads", "32"]);
    let done = start.finish().expect(0);
    let marks = done.loss("kernel_marks_untracked");
    assert_eq!(done.loss("kernel_requests_untracked"), 25);
    assert_eq!(
        first_of_explain(&ground),
        format!(
            "{marks} marks (25 requests) came from threads that were not tracked: raise --max-threads (now 8)"
        )
    );
}

#[test]
fn where_nothing_is_hidden_the_numbers_come_first() {
    let Some(ground) = Ground::new("hidden::where_nothing_is_hidden_the_numbers_come_first") else { return };
    let done = ground.run_subject(&["threads", "32"]).finish().expect(0);
    assert_eq!(done.summary()["open"].as_array().map(Vec::len), Some(0));
    assert!(first_of_explain(&ground).starts_with("32 requests"), "{}", first_of_explain(&ground));
}

/// Threads that mark while `attach` makes their ledgers are from before, not untracked.
#[test]
fn marks_while_threads_are_adopted_are_not_untracked() {
    let test = "hidden::marks_while_threads_are_adopted_are_not_untracked";
    let Some(ground) = Ground::new(test) else { return };
    let program = Start::new(&ground.path(""), &subject()).words(&["marks-after", "1000"]);
    let program = program.environment("E2E_BOOK", ground.path("book"));
    let program = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    eventually("the program marks", || ground.book().contains("marking").then_some(()));
    let run = ground.command(&["attach", "--json", "--output"]).word(ground.path("runs"));
    let run = run.words(&["--pid", &program.pid().to_string()]).spawn();
    eventually("attached", || run.stderr().contains("attached to ").then_some(()));
    run.signal(Signal::SIGINT);
    let done = run.finish().expect(0);
    let losses = done.losses();
    assert!(losses.iter().all(|(key, _)| key.starts_with("pairing_")), "{losses:?}");
    assert_eq!(done.seen().threads.len(), 1003);
    program.signal(Signal::SIGTERM);
    assert_eq!(program.finish().code(), 1000 + libc::SIGTERM);
}
