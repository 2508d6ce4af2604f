//! What a recorder keeps and removes, and what it takes over from the one before it.

use std::time::SystemTime;

use rstest::rstest;

use super::*;

const S: u64 = 1_000_000_000;

fn at(seconds: u64) -> ClockPair {
    ClockPair { monotonic_ns: seconds * S, wall_ns: (1_000_000 + seconds) * S }
}

/// So many seconds after the boot, with the wall time of now, as files have it.
fn real(seconds: u64) -> ClockPair {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later");
    let wall_ns = u64::try_from(since_1970.as_nanos()).expect("not that late");
    ClockPair { monotonic_ns: seconds * S, wall_ns }
}

fn after(now: ClockPair, seconds: u64) -> ClockPair {
    ClockPair { monotonic_ns: now.monotonic_ns + seconds * S, wall_ns: now.wall_ns + seconds * S }
}

fn folder(parent: &Path) -> RunFolder {
    let start = manifest::ClockPair { monotonic_ns: 0, wall_ns: 1_000_000 * S };
    let manifest = Manifest { boot_id: "boot".to_owned(), ..Manifest::new([7; 16], "watch", start) };
    RunFolder::create(&CreateOptions { parent: parent.to_owned(), owner: None }, manifest)
        .expect("a folder can be made")
}

fn options(parent: &Path) -> RecorderOptions {
    let (length, keep) = (Duration::from_secs(10), Duration::from_mins(1));
    RecorderOptions { parent: parent.to_owned(), length, keep, most_bytes: 1 << 30 }
}

fn directories(parent: &Path) -> usize {
    fs::read_dir(parent).expect("it is there").count()
}

#[test]
fn segments_come_and_go() {
    let place = tempfile::tempdir().expect("a folder can be made");
    let mut current = folder(place.path());
    let mut recorder = Recorder::new(options(place.path()), &current, at(0));
    for second in 0..=300 {
        recorder.tick(&mut current, at(second));
    }
    // The last minute, and the current one.
    assert_eq!((recorder.count(), directories(place.path())), (7, 8));
    let spans: Vec<_> = recorder.segments(255 * S, 265 * S).iter().map(|one| one.span_ns).collect();
    assert_eq!(spans, [(250 * S, 260 * S), (260 * S, 270 * S)]);
    assert!(recorder.last_error().is_none());
}

#[test]
fn a_segment_that_is_read_stays() {
    let place = tempfile::tempdir().expect("a folder can be made");
    let mut current = folder(place.path());
    let mut recorder = Recorder::new(options(place.path()), &current, at(0));
    recorder.tick(&mut current, at(10));
    let read = recorder.segments(0, S);
    assert_eq!(read.len(), 1);
    for second in 11..=200 {
        recorder.tick(&mut current, at(second));
    }
    assert!(Folder::open(read[0].path()).is_ok());
    assert_eq!(recorder.count(), 8, "those behind it that are older than a minute are gone");
    drop(read);
    recorder.tick(&mut current, at(201));
    assert!(recorder.segments(0, S).is_empty());
}

#[test]
fn bytes_are_bounded() {
    let place = tempfile::tempdir().expect("a folder can be made");
    let mut current = folder(place.path());
    let one = bytes_of(current.path());
    let most_bytes = one * 20;
    let mut recorder =
        Recorder::new(RecorderOptions { most_bytes, ..options(place.path()) }, &current, at(0));
    for second in 0..100 {
        recorder.roll(&mut current, at(second));
        assert!(recorder.bytes() <= most_bytes, "{second}");
    }
    assert!(recorder.count() >= 10);
}

#[test]
fn what_an_earlier_agent_left_is_found_by_the_next_and_foreign_folders_stay() {
    let place = tempfile::tempdir().expect("a folder can be made");
    fs::create_dir(place.path().join("notes")).expect("the place is ours");
    let mut before = folder(place.path());
    before.end();
    drop(before);
    let mut current = folder(place.path());
    let now = real(50);
    let mut recorder = Recorder::new(options(place.path()), &current, now);
    assert_eq!(recorder.segments(0, 60 * S).len(), 1, "of this boot");
    recorder.tick(&mut current, after(now, 450));
    assert_eq!(recorder.segments(0, 49 * S).len(), 0);
    assert!(place.path().join("notes").exists());
}

#[rstest]
#[case::an_hour_forward(3600)]
#[case::an_hour_back(-3600)]
fn a_step_of_the_wall_clock_changes_nothing(#[case] step_s: i64) {
    let place = tempfile::tempdir().expect("a folder can be made");
    let mut current = folder(place.path());
    let mut recorder = Recorder::new(options(place.path()), &current, at(0));
    for second in 0..=300 {
        let mut now = at(second);
        if second > 150 {
            now.wall_ns = now.wall_ns.saturating_add_signed(step_s * 1_000_000_000);
        }
        recorder.tick(&mut current, now);
        assert!(second < 70 || (6..=7).contains(&recorder.count()), "{second}: {}", recorder.count());
    }
}

#[test]
fn segments_of_this_boot_follow_each_other_by_its_clock() {
    let place = tempfile::tempdir().expect("a folder can be made");
    let mut before = folder(place.path());
    let mut recorder = Recorder::new(options(place.path()), &before, at(0));
    assert!(recorder.roll(&mut before, at(10)));
    // The wall clock goes back before the last segment, so its files are the oldest ones.
    let stepped = ClockPair { wall_ns: 1_000 * S, ..at(20) };
    assert!(recorder.roll(&mut before, stepped));
    let last = before.path().to_owned();
    drop((recorder, before));
    for file in fs::read_dir(last).expect("it is there").flatten() {
        let file = fs::File::options().write(true).open(file.path()).expect("it is ours");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000)).expect("it is ours");
    }
    let current = folder(place.path());
    let recorder = Recorder::new(options(place.path()), &current, real(30));
    let begun: Vec<_> = recorder.segments(0, 30 * S).iter().map(|one| one.span_ns.0).collect();
    assert_eq!(begun, [0, 10 * S, 20 * S]);
    let ended: Vec<_> = recorder.segments(0, 30 * S).iter().map(|one| one.span_ns.1).collect();
    assert_eq!(ended[..2], [10 * S, 20 * S], "as their manifests say, not as wall time says");
}

#[rstest]
#[case::killed_before_the_manifest("2026-11-21T08-30-21-MVM-2-VNL-CPU-watch", None)]
#[case::tables_alone("a", Some(("phases.arrows", "")))]
#[case::of_a_later_agent("b", Some(("manifest.json", "{\"format\": 4000000000}")))]
fn what_cannot_be_read_takes_room_and_is_removed(
    #[case] name: &str,
    #[case] file: Option<(&str, &str)>,
    #[values(false, true)] is_for_room: bool,
) {
    let place = tempfile::tempdir().expect("a folder can be made");
    let left = place.path().join(name);
    fs::create_dir(&left).expect("the place is ours");
    fs::write(left.join("rows"), vec![1; 100_000]).expect("the place is ours");
    if let Some((file, text)) = file {
        fs::write(left.join(file), text).expect("the place is ours");
    }
    let mut current = folder(place.path());
    let now = real(50);
    let most_bytes = if is_for_room { 90_000 } else { 1 << 30 };
    let mut recorder = Recorder::new(RecorderOptions { most_bytes, ..options(place.path()) }, &current, now);
    assert_eq!(recorder.count(), 1);
    assert!(recorder.bytes() >= 100_000, "{}", recorder.bytes());
    assert!(recorder.segments(0, u64::MAX).is_empty(), "no incident can have any of it");
    recorder.tick(&mut current, after(now, if is_for_room { 1 } else { 61 }));
    assert!(!left.exists());
}

#[test]
fn a_segment_goes_on_where_no_next_one_can_be_made() {
    let place = tempfile::tempdir().expect("a folder can be made");
    let mut current = folder(place.path());
    let path = current.path().to_owned();
    let parent = place.path().join("file");
    fs::write(&parent, "in the way").expect("the place is ours");
    let mut recorder = Recorder::new(options(&parent), &current, at(0));
    assert!(!recorder.roll(&mut current, at(10)));
    assert_eq!((recorder.count(), current.path()), (0, &*path));
    assert!(recorder.last_error().is_some());
}
