//! How the thread that keeps incidents is spoken to, what makes room, and what is saved.

use rstest::rstest;

use super::*;
use crate::{
    untrusted::Shown,
    watch::{
        shared::{Listed, Status},
        tables::Config,
    },
};

/// Makes folders of 100 kB.
fn folders(parent: &Path, names: &[&str]) {
    for name in names {
        fs::create_dir(parent.join(name)).expect("the place is ours");
        fs::write(parent.join(name).join("rows"), vec![1; 100_000]).expect("the place is ours");
    }
}

fn names(parent: &Path) -> Vec<String> {
    let entries = fs::read_dir(parent).expect("it is there");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("it is there").file_name();
    let mut names: Vec<String> = entries.map(|entry| name(entry).shown().to_string()).collect();
    names.sort();
    names
}

#[test]
fn the_oldest_incidents_make_room_and_the_newest_stays() {
    let place = tempfile::tempdir().expect("a folder can be made");
    folders(place.path(), &["2026-01-01-a", "2026-01-02-b", "2026-01-03-c"]);
    let trim = |most_bytes| trim(place.path(), most_bytes, None, &HashMap::new()).len();
    assert_eq!((trim(1 << 20), names(place.path()).len()), (0, 3));
    assert_eq!(trim(250_000), 1);
    assert_eq!(names(place.path()), ["2026-01-02-b", "2026-01-03-c"]);
    assert_eq!(trim(1), 1);
    assert_eq!(names(place.path()), ["2026-01-03-c"]);
}

#[test]
fn after_the_clock_was_set_back_the_order_is_that_of_the_numbers() {
    let place = tempfile::tempdir().expect("a folder can be made");
    // By name, and by time of making, the newest would go first.
    folders(place.path(), &["2026-01-01-newest", "2026-01-02-older", "2026-01-03-oldest"]);
    let mut list = List::default();
    for name in ["2026-01-03-oldest", "2026-01-02-older", "2026-01-01-newest"] {
        let folder = place.path().join(name).shown().stored().to_owned();
        list.add(Listed { folder, ..Listed::default() });
    }
    let removed = trim(place.path(), 250_000, None, &numbers(&list));
    assert_eq!(names(place.path()), ["2026-01-01-newest", "2026-01-02-older"]);
    forget(&mut list, &removed);
    let is_gone: Vec<bool> = list.incidents.iter().map(|one| one.folder.is_empty()).collect();
    assert_eq!(is_gone, [true, false, false]);
    assert!(list.incidents[0].error.contains("incidents.keep"));
    assert!(list.incidents[1].error.is_empty());
    // One that was just made, and is not listed any more.
    let made = place.path().join("2026-01-02-older");
    trim(place.path(), 1, Some(&made), &numbers(&list));
    assert_eq!(names(place.path()), ["2026-01-02-older"]);
}

fn job(number: u64, record: IncidentRecord) -> Job {
    let (segments, stretches) = (Vec::new(), Vec::new());
    Job { number, record, segments, stretches, unfinished: AllUnfinished::default(), kept: None }
}

#[test]
fn saves_take_no_places_of_incidents() {
    let (keeper, keeping) = Keeper::pair();
    for _ in 0..100 {
        keeper.save();
    }
    for number in 0..JOBS as u64 {
        assert!(keeper.keep(job(number, IncidentRecord::default())), "{number}");
    }
    assert!(!keeper.keep(job(JOBS as u64, IncidentRecord::default())), "there is an end to it");
    assert_eq!(keeping.to_do.try_iter().filter(|work| matches!(work, Work::Save)).count(), 1);
}

#[test]
fn what_fails_is_told_and_what_changes_after_a_save_is_saved_again() {
    let place = tempfile::tempdir().expect("a folder can be made");
    let config = Config { directory: place.path().to_owned(), ..Config::default() };
    let mut list = List::default();
    let number = list.add(Listed::default());
    let shared = Shared::new(config, Status::default(), list);
    let (mut keeper, keeping) = Keeper::pair();
    // Nothing was recorded of it.
    assert!(keeper.keep(job(number, IncidentRecord::default())));
    keeper.save();
    keeper.work = None;
    run(&shared, &keeping);
    assert_eq!(keeper.failed(), [number]);
    let listed = &saved(place.path()).incidents[0];
    assert!(listed.error.starts_with("nothing was recorded then"), "{}", listed.error);
    assert!(!keeping.save_waits.load(Ordering::Acquire));
}

#[rstest]
#[case::a_request("GET /", "GET / slower than 1s")]
#[case::no_request("", "slower than 1s")]
fn what_was_noticed_is_told(#[case] request: &str, #[case] expected: &str) {
    let trigger = "slower than 1s".to_owned();
    let record = IncidentRecord { request: request.to_owned(), trigger, ..IncidentRecord::default() };
    assert_eq!(told(&record), expected);
}

#[test]
fn a_list_survives_and_a_damaged_one_does_no_harm() {
    let place = tempfile::tempdir().expect("a folder can be made");
    assert_eq!(saved(place.path()), List::default());
    let mut list = List::default();
    list.add(Listed { folder: "/a".to_owned(), ..Listed::default() });
    list.add(Listed::default());
    let text = guestscope_base::json::pretty(&list).expect("it is JSON");
    fs::write(place.path().join(LIST), text).expect("the place is ours");
    let mut again = saved(place.path());
    assert_eq!(again.incidents[0].folder, "/a");
    assert!(!again.incidents[1].error.is_empty());
    assert_eq!(again.add(Listed::default()), 2);
    fs::write(place.path().join(LIST), "{\"next\": -1").expect("the place is ours");
    assert_eq!(saved(place.path()), List::default());
}
