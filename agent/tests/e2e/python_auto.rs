//! Unmarked Python programs that use only the standard library: packages have separate tests.

use guestscope_contract::Source;
use rstest::rstest;

use crate::ground::{Ground, file, python};

#[test]
fn requests_of_a_server_that_nobody_marked_are_seen() {
    let test = "python_auto::requests_of_a_server_that_nobody_marked_are_seen";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let script = file("tests/data/e2e/python_served.py");
    let done = ground.run().program(python).word(script).finish().expect(0);
    assert_eq!(done.losses(), []);
    let seen = done.seen();
    let roots: Vec<_> = seen.requests.iter().map(guestscope::phase::Request::root).collect();
    let statuses: Vec<u32> = roots.iter().filter_map(|root| root.status).collect();
    let mut expected = vec![200; 20];
    expected[7] = 503;
    assert_eq!(statuses, expected);
    // Names contain no path and no query: there could be any number of them, and they may hold secrets.
    assert!(roots.iter().all(|root| root.name == "GET" && root.source == Source::Python), "{roots:#?}");
    let python = seen.manifest.health.sources.iter().find(|source| source.source == "python");
    let python = python.unwrap_or_else(|| panic!("{:?}", seen.manifest.health.sources));
    assert_eq!((python.requests, python.off.as_deref()), (20, None));
    assert!(python.found.iter().any(|found| found.starts_with("wsgiref")), "{:?}", python.found);
}

#[rstest]
#[case::nothing_asked_for(&["--sources", "none"], &["PYTHONPATH"])]
#[case::another_one_asked_for(&["--sources", "otel"], &["PYTHONPATH"])]
fn what_is_not_asked_for_is_not_there(#[case] words: &[&str], #[case] without: &[&str]) {
    let test = "python_auto::what_is_not_asked_for_is_not_there";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let script = file("tests/data/e2e/python_served.py");
    let start = without.iter().fold(ground.run().words(words), |start, name| start.without(name));
    let done = start.program(python).word(script).finish().expect(0);
    assert!(done.seen().requests.is_empty());
    let said = &done.summary()["sources"];
    let python = said.as_array().and_then(|all| all.iter().find(|one| one["source"] == "python"));
    assert_eq!(python.map(|one| one["off"].as_str()), Some(Some("not asked for")), "{said}");
}

/// Full collections within phases are phases; others, and those outside, are none.
#[test]
fn a_full_garbage_collection_is_a_phase_of_its_request() {
    let test = "python_auto::a_full_garbage_collection_is_a_phase_of_its_request";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    let script = file("tests/data/e2e/python_collects.py");
    let done = ground.run().program(python).word(script).finish().expect(0);
    let (without, with) = ("serve:ended work:ended", "serve:ended work:ended garbage collection:ended");
    assert_eq!(done.seen().endings(), [without, without, with, with]);
}

/// A program still finds its own `sitecustomize`.
#[test]
fn a_sitecustomize_of_the_programs_own_runs() {
    let test = "python_auto::a_sitecustomize_of_the_programs_own_runs";
    let (Some(ground), Some(python)) = (Ground::new(test), python(test)) else { return };
    std::fs::create_dir(ground.path("theirs")).expect("the folder is ours");
    let own = ground.path("theirs/sitecustomize.py");
    std::fs::write(&own, "ran = True\n").expect("the folder is ours");
    let check = "import sitecustomize, sys; assert sitecustomize.ran; print(sitecustomize.__file__)";
    let start = ground.run().program(python).words(&["-c", check]);
    let done = start.environment("PYTHONPATH", ground.path("theirs")).finish().expect(0);
    assert!(done.stdout.contains(own.to_str().expect("it is UTF-8")), "{}", done.stdout);
}
