//! Tests of the first lines: each sentence where it is said, and where it is not.

use guestscope_contract::Account;
use insta::assert_snapshot;
use rstest::rstest;

use super::{
    RunFacts, Style, render_hidden, render_summary, render_summary_json,
    tests::fixtures::{facts, healthy, summary_of},
};
use crate::{
    analyze::{Hidden, Summary, Untracked, samples::inference},
    phase::{AllUnfinished, Doing, Fate, OpenWait, Others, Stopper, ThreadId, Unfinished},
};

const MS: u64 = 1_000_000;

fn locked(is_private: Option<bool>) -> Doing {
    Doing::Waits(OpenWait {
        account: Account::Lock,
        syscall: u32::try_from(libc::SYS_futex).ok(),
        stopped_by: None,
        since_ns: 100 * MS,
        object: None,
        is_private,
    })
}

/// `others`: those alive, those that wait for locks.
fn one(fate: Fate, until_ms: u64, doing: Doing, others: Option<(u32, u32)>) -> Unfinished {
    Unfinished {
        id: 1,
        name: "serve".into(),
        request: 7,
        thread: ThreadId { tid: 12, tgid: 11, born_ns: 5 },
        start_ns: 0,
        until_ns: until_ms * MS,
        path: vec!["outer".into(), "tokenize".into()],
        phase_start_ns: 90 * MS,
        fate,
        doing,
        others: others.map(|(alive, locked)| Others { alive, locked, forked_from: None }),
    }
}

fn hidden(requests: Vec<Unfinished>, untracked: Untracked) -> Hidden {
    let open = requests.iter().filter(|one| one.fate.is_open()).count() as u64;
    let ended = requests.len() as u64 - open;
    let whole = inference(30);
    let summary = Summary::new(|| whole.iter().cloned());
    Hidden::new(AllUnfinished { open, ended, requests }, untracked, Some(&summary))
}

/// The sentences, without advice.
fn told(requests: Vec<Unfinished>) -> String {
    let text = render_hidden(&hidden(requests, Untracked::default()), true, Style::PLAIN);
    let sentences = text.split_once("\nadvice").map(|(sentences, _)| format!("{sentences}\n\n"));
    sentences.unwrap_or(text)
}

/// Advice follows from what the request waits for, in the words and in the JSON; there is none where nothing
/// does.
#[rstest]
#[case::alone(locked(Some(true)), Some((0, 0)), "The only thread of its process waits")]
#[case::perhaps_alone(locked(None), Some((0, 0)), "The only thread of its process waits")]
#[case::shared(locked(Some(false)), Some((0, 0)), "")]
#[case::all_wait(locked(Some(true)), Some((3, 3)), "All threads of the process wait")]
#[case::one_does_not(locked(Some(true)), Some((3, 2)), "")]
#[case::nobody_is_known(locked(Some(true)), None, "")]
#[case::stopped(stopped(), Some((0, 0)), "A signal stopped the program, or the one")]
#[case::runs(Doing::Runs, Some((0, 0)), "")]
fn advice_on_a_request_that_hangs(
    #[case] doing: Doing,
    #[case] others: Option<(u32, u32)>,
    #[case] begin: &str,
) {
    let hung = one(Fate::Open, 13_800, doing, others);
    let hidden = hidden(vec![hung], Untracked::default());
    let text = render_hidden(&hidden, true, Style::PLAIN);
    let line = text.lines().find_map(|line| line.strip_prefix("advice"));
    assert_eq!(line.is_some(), !begin.is_empty(), "{text}");
    assert!(line.unwrap_or_default().trim_start().starts_with(begin), "{text}");
    let json = render_summary_json(&summary_of(&[]), &healthy(), &RunFacts { hidden, ..facts() });
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let advice = json["open"][0]["advice"].as_str();
    assert_eq!(advice.is_some(), !begin.is_empty(), "{json:#}");
    assert!(advice.unwrap_or_default().starts_with(begin), "{json:#}");
}

/// A child that a fork made is alone because of that.
#[test]
fn a_request_that_hangs_in_a_child_of_a_fork() {
    let others = Others { alive: 0, locked: 0, forked_from: Some(4_700) };
    let hung = Unfinished { others: Some(others), ..one(Fate::Open, 13_800, locked(Some(true)), None) };
    let hidden = hidden(vec![hung], Untracked::default());
    assert_snapshot!(render_hidden(&hidden, true, Style::PLAIN), @r#"
    1 request is still open: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s; no other thread of its process, forked from process 4700, is alive: nobody can wake it
    advice        A fork copies one thread alone, and a lock that another thread had then stays locked
                  in the child: fork before threads start, or spawn workers (forkserver; for Hugging
                  Face TOKENIZERS_PARALLELISM=false).
                  kernel documentation: fork(2): the child has a single thread, the one that called
                  fork, and locks keep their states
    "#);
    let json = render_summary_json(&summary_of(&[]), &healthy(), &RunFacts { hidden, ..facts() });
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["open"][0]["forked_from"], 4_700);
}

fn stopped() -> Doing {
    let Doing::Waits(wait) = locked(None) else { return Doing::Unknown };
    Doing::Waits(OpenWait { stopped_by: Some(Stopper::Signal), ..wait })
}

/// A program whose requests are hidden is not told to mark some.
#[test]
fn a_summary_begins_with_what_it_does_not_contain() {
    let untracked = Untracked { marks: 800, requests: 200, for_want_of_room: true, max_threads: Some(8) };
    let hung = one(Fate::Open, 13_800, locked(None), Some((0, 0)));
    let with = RunFacts { hidden: hidden(vec![hung], untracked), ..facts() };
    let of = |facts: &RunFacts| render_summary(&summary_of(&[]), &healthy(), facts, Style::PLAIN);
    let text = of(&with);
    assert!(text.starts_with("1 request is still open: serve 7 (pid 11), for 13.8 s in"), "{text}");
    assert!(text.contains("no request counts") && !text.contains("no request was marked"), "{text}");
    assert!(of(&facts()).starts_with("nothing was observed: no request was marked"), "{}", of(&facts()));
    let json = render_summary_json(&summary_of(&[]), &healthy(), &with);
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(
        (&json["open"][0]["kind"], &json["open"][0]["state_ns"]),
        (&"hung".into(), &13_700_000_000_u64.into())
    );
    assert_eq!((&json["unfinished"]["open"], &json["unfinished"]["ended"]), (&1.into(), &0.into()));
}

#[test]
fn nothing_hidden_is_no_line() {
    assert_eq!(told(Vec::new()), "");
    // One is always in flight while the program runs.
    assert_eq!(told(vec![one(Fate::Open, 999, Doing::Runs, Some((0, 0)))]), "");
}

#[test]
fn a_request_that_is_in_flight_at_the_end_hangs_nowhere() {
    assert_snapshot!(told(vec![one(Fate::Stopped, 999, locked(Some(true)), Some((0, 0)))]), @"1 request was in flight at the end: serve 7 (pid 11), for 999 ms in outer/tokenize");
    let two = [12, 999].map(|ms| one(Fate::Stopped, ms, locked(None), None));
    assert_snapshot!(told(two.into()), @"2 requests were in flight at the end, the oldest: serve 7 (pid 11), for 999 ms in outer/tokenize");
}

/// What is said of who could wake it.
#[test]
fn a_hung_request_comes_with_its_wait_and_who_could_end_it() {
    let of = |is_private, others| told(vec![one(Fate::Open, 13_800, locked(is_private), others)]);
    assert_snapshot!(of(Some(true), Some((0, 0))), @r#"
    1 request is still open: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s; no other thread of its process is alive: nobody can wake it
    "#);
    assert_snapshot!(of(Some(false), Some((0, 0))), @r#"
    1 request is still open: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s; no other thread of its process is alive: another process or a time limit may wake it
    "#);
    assert_snapshot!(of(None, Some((0, 0))), @r#"
    1 request is still open: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s; no other thread of its process is alive to wake it
    "#);
    assert_snapshot!(of(None, Some((1, 0))), @r#"
    1 request is still open: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s; the other thread of its process can wake it
    "#);
    assert_snapshot!(of(None, Some((1, 1))), @r#"
    1 request is still open: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s; the other thread of its process waits for a lock as well
    "#);
    assert_snapshot!(of(None, Some((5, 5))), @r#"
    1 request is still open: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s; all 5 other threads of its process wait for locks as well
    "#);
    assert_snapshot!(of(None, Some((1_500, 0))), @r#"
    1 request is still open: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s; 1,500 other threads of its process can wake it
    "#);
    assert_snapshot!(of(None, Some((1_500, 5))), @r#"
    1 request is still open: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s; 5 of 1,500 other threads of its process wait for locks as well
    "#);
    assert_snapshot!(of(None, None), @r#"
    1 request is still open: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s
    "#);
    let was = |fate, others| told(vec![one(fate, 13_800, locked(Some(true)), Some(others))]);
    assert_snapshot!(was(Fate::Stopped, (0, 0)), @r#"
    1 request was still open at the end: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in
      futex (lock) for 13.7 s; no other thread of its process was alive: nobody could wake it
    "#);
    assert_snapshot!(was(Fate::ProcessEnded, (5, 5)), @r#"
    1 request did not end: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s, until its process ended; all 5 other threads of its process waited for locks as well
    "#);
    assert_snapshot!(was(Fate::ProcessEnded, (2, 1)), @r#"
    1 request did not end: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s, until its process ended; 1 of 2 other threads of its process waited for a lock as well
    "#);
    assert_snapshot!(was(Fate::ThreadEnded, (1, 1)), @r#"
    1 request did not end: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s, until its thread ended; the other thread of its process waited for a lock as well
    "#);
    assert_snapshot!(was(Fate::Replaced, (1, 0)), @r#"
    1 request did not end: serve 7 (pid 11), for 13.8 s in outer/tokenize, waiting in futex (lock) for
      13.7 s, until its process executed another program; the other thread of its process could wake it
    "#);
}

#[test]
fn other_states_have_words_of_their_own() {
    let wait = OpenWait {
        account: Account::Poll,
        syscall: u32::try_from(libc::SYS_read).ok(),
        stopped_by: None,
        since_ns: 800 * MS,
        object: Some("pipe:[4711]".into()),
        is_private: None,
    };
    let of = |doing| told(vec![one(Fate::Open, 1_800, doing, Some((0, 0)))]);
    assert_snapshot!(of(Doing::Waits(wait.clone())), @r#"
    1 request is still open: serve 7 (pid 11), for 1.80 s in outer/tokenize, waiting in read (poll) of
      pipe:[4711] for 1.00 s
    "#);
    let stopped = OpenWait { stopped_by: Some(Stopper::Signal), account: Account::Other, ..wait.clone() };
    assert_snapshot!(of(Doing::Waits(stopped)), @r#"
    1 request is still open: serve 7 (pid 11), for 1.80 s in outer/tokenize, stopped by a signal for
      1.00 s
    "#);
    assert_snapshot!(of(Doing::Waits(OpenWait { syscall: None, object: None, ..wait })), @"1 request is still open: serve 7 (pid 11), for 1.80 s in outer/tokenize, waiting (poll) for 1.00 s");
    assert_snapshot!(of(Doing::Runs), @"1 request is still open: serve 7 (pid 11), for 1.80 s in outer/tokenize, running");
    assert_snapshot!(of(Doing::Queued { since_ns: 800 * MS }), @r#"
    1 request is still open: serve 7 (pid 11), for 1.80 s in outer/tokenize, runnable without a CPU for
      1.00 s
    "#);
    assert_snapshot!(of(Doing::Suspended { since_ns: 800 * MS }), @"1 request is still open: serve 7 (pid 11), for 1.80 s in outer/tokenize, on no thread for 1.00 s");
    assert_snapshot!(of(Doing::Unknown), @"1 request is still open: serve 7 (pid 11), for 1.80 s in outer/tokenize");
    let outside = Unfinished { path: Vec::new(), ..one(Fate::Open, 1_800, Doing::Runs, None) };
    assert_snapshot!(told(vec![outside]), @"1 request is still open: serve 7 (pid 11), for 1.80 s outside its phases, running");
}

#[test]
fn of_several_the_longest_is_named() {
    let open = |ms| one(Fate::Open, ms, Doing::Runs, None);
    let stopped = |ms| one(Fate::Stopped, ms, Doing::Runs, None);
    let ended = |ms| one(Fate::ProcessEnded, ms, Doing::Unknown, None);
    assert_snapshot!(told(vec![open(1_800), open(9_000), ended(20), ended(80)]), @r#"
    2 requests are still open, the oldest: serve 7 (pid 11), for 9.00 s in outer/tokenize, running
    2 requests did not end, the longest: serve 7 (pid 11), for 80.0 ms in outer/tokenize, until its
      process ended
    "#);
    assert_snapshot!(told(vec![stopped(1_800), stopped(9_000), stopped(20)]), @r#"
    2 requests were still open at the end, the oldest: serve 7 (pid 11), for 9.00 s in outer/tokenize,
      running
    1 request was in flight at the end: serve 7 (pid 11), for 20.0 ms in outer/tokenize
    "#);
}

#[test]
fn marks_of_threads_that_were_not_tracked_come_with_the_option() {
    let of = |marks, requests, for_want_of_room, max_threads| {
        let untracked = Untracked { marks, requests, for_want_of_room, max_threads };
        render_hidden(&hidden(Vec::new(), untracked), true, Style::PLAIN)
    };
    assert_snapshot!(of(1_000, 200, true, Some(4_096)), @"
    1,000 marks (200 requests) came from threads that were not tracked: raise --max-threads (now 4,096)
    ");
    assert_snapshot!(of(1, 1, true, Some(8)), @"
    1 mark (1 request) came from threads that were not tracked: raise --max-threads (now 8)
    ");
    assert_snapshot!(of(35, 0, true, None), @"
    35 marks came from threads that were not tracked: raise --max-threads
    ");
    assert_snapshot!(of(35, 0, false, Some(4_096)), @"35 marks came from threads that were not tracked");
    assert_eq!(of(0, 0, true, Some(8)), "");
}
