//! Three processes of a training, each under an agent of its own, with a stand-in of NCCL whose collectives
//! last until all have come: the slow one is named, with what it does longer; where all are equal, nobody is.

use std::{fs, path::Path, time::Duration};

use guestscope::phase::{PhaseKind, Request};
use rstest::rstest;
use serde_json::Value;

use crate::{
    folder::{Seen, only_folder},
    functions::{compiled, with},
    ground::{Ground, eventually},
    running::Done,
};

const RANKS: usize = 3;
const STEPS: u64 = 60;
/// What the slow one does longer in each step.
const LONGER_NS: i64 = 8_000_000;

/// Observes each process in a folder of its own, all at once; none without a compiler.
fn trained(test: &str, how: &str) -> Option<Vec<(Ground, Done)>> {
    let grounds: Vec<Ground> = (0..RANKS).map(|_| Ground::new(test)).collect::<Option<_>>()?;
    let first = &grounds[0];
    compiled(first, test, ("nccl.c", "libnccl.so.2"), &["-shared", "-fPIC"])?;
    let program = compiled(first, test, ("nccl.c", "train"), &["-DPROGRAM", "-ldl"])?;
    let note = first.path("note");
    let start = |(rank, ground): (usize, &Ground)| {
        let start =
            with(ground.run(), &["nccl", "train_step=train:train_step"]).words(&["--sources", "none"]);
        let start = start.program(&program).word(first.path("libnccl.so.2")).word(&note);
        start.words(&[&rank.to_string(), &RANKS.to_string(), &STEPS.to_string(), how]).spawn()
    };
    let running: Vec<_> = grounds.iter().enumerate().map(start).collect();
    for rank in 0..RANKS {
        eventually("ready", || first.path(&format!("note.ready.{rank}")).exists().then_some(()));
    }
    // The agents look for new maps once a second.
    std::thread::sleep(Duration::from_secs(3));
    fs::write(first.path("note.go"), "").expect("the folder is ours");
    let done: Vec<Done> = running.into_iter().map(|one| one.finish().expect(0)).collect();
    Some(grounds.into_iter().zip(done).collect())
}

/// The answer on these folders, as text and as JSON.
fn judged(trained: &[(Ground, Done)]) -> (String, Value) {
    let said = |words: &[&str]| {
        let start = trained[0].0.command(&["ranks"]).words(words).environment("COLUMNS", "80");
        let folder = |ground: &Ground| only_folder(&ground.path("runs"));
        let start = trained.iter().fold(start, |start, (ground, _)| start.word(folder(ground)));
        start.finish().expect(0).stdout
    };
    let json = serde_json::from_str(&said(&["--json"])).expect("it is JSON");
    (said(&[]), json)
}

fn pid(folder: &Path) -> u64 {
    let seen = Seen::read(folder);
    let steps = seen.requests.iter().map(Request::root);
    let mut steps = steps.filter(|root| root.kind == PhaseKind::Request && root.name == "train_step");
    steps.next().map_or(0, |root| root.thread.tgid.into())
}

#[rstest]
#[case::sleeps("sleep", "sleep")]
#[case::computes("cpu", "cpu")]
fn the_slow_rank_is_named_with_what_it_does_longer(#[case] how: &str, #[case] account: &str) {
    let test = "ranks::the_slow_rank_is_named_with_what_it_does_longer";
    let Some(trained) = trained(test, how) else { return };
    let (text, json) = judged(&trained);
    let all_reduce = &json["collectives"][0];
    assert_eq!(all_reduce["calls"], STEPS, "{text}");
    assert_eq!((&all_reduce["unmatched"], &json["clocks"]), (&0.into(), &1.into()), "{text}");
    assert_eq!(all_reduce["verdict"], "late", "{text}");
    let straggler = &json["straggler"];
    assert_eq!(straggler["rank"], 1, "{text}");
    let slow = only_folder(&trained[1].0.path("runs"));
    assert_eq!(json["ranks"][1]["pid"], pid(&slow), "{text}");
    // The others may be held up as well, on a machine that does other things.
    let late_ns = straggler["margin_ns"].as_i64().expect("a number");
    assert!((LONGER_NS / 2..LONGER_NS * 2).contains(&late_ns), "{late_ns} {text}");
    let first = &straggler["steps"]["accounts"][0];
    assert_eq!(
        (&straggler["steps"]["name"], &first["account"]),
        (&"train_step".into(), &account.into()),
        "{text}"
    );
    let more_ns = first["difference_ns"].as_i64().expect("a number");
    assert!((LONGER_NS / 2..LONGER_NS * 2).contains(&more_ns), "{more_ns} {text}");
    assert!(text.starts_with("rank 1 (process "), "{text}");
    // The sentence may be wrapped anywhere.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!(" ms of {account} (")), "{text}");
    assert!(text.contains("\nclock         one: all ranks ran in one boot of one guest\n"), "{text}");
}

#[test]
fn ranks_that_are_slow_in_turns_are_not_named() {
    let test = "ranks::ranks_that_are_slow_in_turns_are_not_named";
    let Some(trained) = trained(test, "turns") else { return };
    let (text, json) = judged(&trained);
    assert!(json["straggler"].is_null() && json["collectives"][0]["verdict"] == "even", "{text}");
    assert_eq!(json["collectives"][0]["calls"], STEPS, "{text}");
    assert!(text.starts_with("no rank is late\nall_reduce: rank "), "{text}");
}
