//! Runs with bounds on what they keep: a random part of the requests, a budget of bytes.

use std::{collections::HashSet, fs};

use guestscope::folder::Folder;
use nix::sys::signal::Signal;

use crate::{
    folder::{Seen, only_folder},
    ground::{Ground, eventually, subject},
};

/// What is kept and what is left out is all there was; waits are of kept requests, and people are told.
#[test]
fn a_part_of_the_requests() {
    let Some(ground) = Ground::new("bounded::a_part_of_the_requests") else { return };
    let run = ground.run().words(&["--sample", "1/5"]);
    let done = run.program(subject()).words(&["requests", "2000", "20", "20"]).finish().expect(0);
    let seen = done.seen();
    let kept = seen.manifest.kept.expect("a part was kept");
    assert_eq!(seen.requests.len() as u64 + kept.sampled_out, 2000);
    // Within five standard deviations of a fifth.
    assert!((310..=490).contains(&seen.requests.len()), "{}", seen.requests.len());
    let summary = done.summary();
    assert_eq!(summary["requests"], seen.requests.len());
    let told = format!("20 % of the requests, chosen at random; {} others are left out", kept.sampled_out);
    assert!(summary["kept"].as_str().is_some_and(|text| text.replace(',', "") == told.replace(',', "")));
    let explain = ground.command(&["explain"]).word(&seen.path).finish().expect(0);
    assert!(explain.stdout.contains("chosen at random"), "{}", explain.stdout);
    // As many a second as there were, not as were kept.
    let per_s = summary["groups"][0]["throughput_per_s"].as_f64().expect("there is a group");
    let (first, last) = (seen.requests[0].root(), seen.requests[seen.requests.len() - 1].root());
    let all_per_s = 2000.0 * 1e9 / (last.start_ns - first.start_ns) as f64;
    assert!((per_s / all_per_s - 1.0).abs() < 0.25, "{per_s} of {all_per_s}");
}

/// Waits inside requests are those of the kept ones.
#[test]
fn waits_of_a_part_of_the_requests() {
    let Some(ground) = Ground::new("bounded::waits_of_a_part_of_the_requests") else { return };
    let run = ground.run().words(&["--sample", "1/2"]).program(subject());
    let seen = run.words(&["waits", "60"]).finish().expect(0).seen();
    let roots: HashSet<u64> = seen.requests.iter().map(|request| request.root().id).collect();
    let folder = Folder::open(&seen.path).expect("it is a run folder");
    let waits = folder.waits().expect("waits can be read").map(|wait| wait.expect("and are whole"));
    let of_requests: HashSet<u64> =
        waits.filter(|wait| wait.phase.is_some()).filter_map(|wait| wait.root).collect();
    let kept = seen.manifest.kept.expect("a part was kept");
    assert_eq!(roots.len() as u64 + kept.sampled_out, 60);
    assert_eq!(of_requests, roots);
}

/// The oldest rows go, the newest stay, and both add up to all there were.
#[test]
fn a_budget_of_bytes() {
    let Some(ground) = Ground::new("bounded::a_budget_of_bytes") else { return };
    let run = ground.run().words(&["--keep", "2MiB", "--wait-threshold", "off"]);
    let done = run.program(subject()).words(&["requests", "30000", "0", "200"]).finish().expect(0);
    assert_eq!(done.loss("rows_lost"), 0);
    let seen = done.seen();
    let kept = seen.manifest.kept.expect("not all was kept");
    let rows: usize = seen.requests.iter().map(|request| request.phases.len()).sum();
    assert!(kept.phases_removed > 0);
    assert_eq!(rows as u64 + kept.phases_removed, 90_000);
    assert_eq!(seen.requests.last().map(|request| request.root().request), Some(30_000));
    // A request is in the segment in which it ended.
    let first = seen.requests[0].root();
    assert!(kept.from_ns > 0 && first.start_ns + 2_000_000_000 >= kept.from_ns, "{kept:?}: {first:?}");
    assert_eq!(seen.processes.len(), 1);
    assert!(!seen.path.join("segments").exists());
    let summary = done.summary();
    assert!(summary["kept"].as_str().is_some_and(|text| text.contains("to keep to the budget")), "{summary}");
}

/// A run that fits its budget is like any other.
#[test]
fn a_budget_that_is_not_used_up() {
    let Some(ground) = Ground::new("bounded::a_budget_that_is_not_used_up") else { return };
    let run = ground.run().words(&["--keep", "1GiB"]);
    let done = run.program(subject()).words(&["requests", "300", "100"]).finish().expect(0);
    let seen = done.seen();
    assert!(seen.manifest.kept.is_none());
    assert_eq!(seen.requests.len(), 300);
    assert!(done.summary().get("kept").is_none());
}

/// If the agent is killed, its segments are run folders that can be read.
#[test]
fn segments_outlive_the_agent() {
    let Some(ground) = Ground::new("bounded::segments_outlive_the_agent") else { return };
    let run = ground.run().words(&["--keep", "16MiB"]).program(subject());
    let run = run.words(&["requests", "400", "1000", "9000"]).spawn();
    eventually("300 requests", || (ground.book().lines().count() > 300).then_some(()));
    run.signal(Signal::SIGKILL);
    eventually("the program ends by itself", || ground.book().contains("done").then_some(()));
    run.finish().expect(1000 + Signal::SIGKILL as i32);
    let segments = only_folder(&ground.path("runs")).join("segments");
    let segments =
        fs::read_dir(segments).expect("segments are there").map(|entry| entry.expect("it is").path());
    let requests: usize = segments.map(|path| Seen::read(&path).requests.len()).sum();
    // A row is in the file two seconds later: 200 requests take that long.
    assert!(requests >= 80, "{requests}");
    let whole = only_folder(&ground.path("runs"));
    let explain = ground.command(&["explain"]).word(&whole).finish().expect(1);
    assert!(explain.stderr.contains("segments"), "{}", explain.stderr);
}

/// A folder that is moved during the run has its rows in the end.
#[test]
fn a_folder_that_is_moved() {
    let Some(ground) = Ground::new("bounded::a_folder_that_is_moved") else { return };
    let run = ground.run().words(&["--keep", "16MiB"]).program(subject());
    let run = run.words(&["requests", "300", "1000", "9000"]).spawn();
    eventually("100 requests", || (ground.book().lines().count() > 100).then_some(()));
    let moved = ground.path("elsewhere");
    fs::rename(only_folder(&ground.path("runs")), &moved).expect("the place is ours");
    run.finish().expect(0);
    let seen = Seen::read(&moved);
    assert_eq!(seen.requests.len(), 300, "{:?}", seen.manifest.health.folder_error);
    assert!(!moved.join("segments").exists());
}
