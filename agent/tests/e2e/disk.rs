//! Disks that are full, small or gone: the program runs on, and the summary says what is missing.

use std::{fs, io::Write as _};

use guestscope::folder::Folder;

use crate::{
    folder::{Seen, only_folder},
    ground::{Ground, eventually, subject},
    mounts::{in_private_mounts, tiny_disk},
};

/// The disk becomes full during the run.
#[test]
fn full_in_the_middle() {
    let test = "disk::full_in_the_middle";
    let Some(ground) = Ground::new(test) else { return };
    in_private_mounts(test, || {
        let runs = ground.path("runs");
        fs::create_dir(&runs).expect("the folder is ours");
        tiny_disk(&runs, 1 << 20);
        // Without long waits, whose number is unknown.
        let start = ground.run().words(&["--wait-threshold", "off"]).program(subject());
        let run = start.words(&["requests", "1500", "100", "1900"]).spawn();
        // For more than a second, since rows are written every second.
        eventually("some requests", || (ground.book().lines().count() > 700).then_some(()));
        let mut ballast = fs::File::create(runs.join("ballast")).expect("the disk is writable");
        while ballast.write_all(&[1; 512]).is_ok() {}
        let done = run.finish().expect(0);
        fs::remove_file(runs.join("ballast")).expect("it is there");

        assert!(ground.book().contains("done"));
        let summary = done.summary();
        let error = summary["folder_error"].as_str().unwrap_or_default();
        assert!(error.contains("No space left on device"), "{summary}");
        let seen = Seen::read(&only_folder(&runs));
        assert!(!seen.requests.is_empty() && seen.requests.len() < 1500, "{} requests", seen.requests.len());
        // Kept and lost rows add up to all there were: three phases for each request, and the process.
        let kept =
            seen.requests.iter().map(|request| request.phases.len()).sum::<usize>() + seen.processes.len();
        assert_eq!(
            kept as u64 + done.loss("rows_lost"),
            4501 + lost_elsewhere(&seen),
            "{}",
            summary["losses"]
        );
        assert_eq!(summary["requests"], seen.requests.len());
    });
}

/// Lost rows of other tables: the counter includes threads, samples and marks.
fn lost_elsewhere(seen: &Seen) -> u64 {
    // The subject has one thread.
    1 - seen.threads.len() as u64
}

/// The disk is full from the start: there is no room even for a manifest.
#[test]
fn full_from_the_begin() {
    let test = "disk::full_from_the_begin";
    let Some(ground) = Ground::new(test) else { return };
    in_private_mounts(test, || {
        let runs = ground.path("runs");
        fs::create_dir(&runs).expect("the folder is ours");
        tiny_disk(&runs, 64 << 10);
        let mut ballast = fs::File::create(runs.join("ballast")).expect("the disk is writable");
        while ballast.write_all(&[1; 512]).is_ok() {}
        let done = ground.run_subject(&["requests", "1"]).finish().expect(2);
        insta::assert_snapshot!(done.stderr, @r"
        error: cannot write to the run folder: phases.arrows: No space left on device (os error 28)

        hint: free space on that file system, or put the folder elsewhere: --output DIR; what was written stays readable
        ");
        assert_eq!(ground.book(), "", "the program has run");
        let left: Vec<_> =
            fs::read_dir(&runs).expect("it is ours").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["ballast"]);
    });
}

/// The run folder is deleted during the run.
#[test]
fn the_folder_is_deleted_meanwhile() {
    let Some(ground) = Ground::new("disk::the_folder_is_deleted_meanwhile") else { return };
    let run = ground.run_subject(&["requests", "300", "100", "1900"]).spawn();
    eventually("some requests", || (ground.book().lines().count() > 100).then_some(()));
    fs::remove_dir_all(ground.path("runs")).expect("the folder is ours");
    let done = run.finish();
    assert!(ground.book().contains("done"));
    // The agent returns the program's exit code. It still prints a summary of what it has in memory, and says
    // that nothing was kept.
    let done = done.expect(0);
    let summary = done.summary();
    assert_eq!(summary["requests"], 300, "{summary}");
    let error = summary["folder_error"].as_str().unwrap_or_default();
    assert!(error.contains("cannot write to the run folder: "), "{summary}");
    assert!(done.loss("rows_lost") > 900, "{summary}");
}

/// The run folder is renamed during the run: everything is written all the same.
#[test]
fn the_folder_is_renamed_meanwhile() {
    let Some(ground) = Ground::new("disk::the_folder_is_renamed_meanwhile") else { return };
    let run = ground.run_subject(&["requests", "300", "100", "1900"]).spawn();
    eventually("some requests", || (ground.book().lines().count() > 100).then_some(()));
    let here = only_folder(&ground.path("runs"));
    fs::rename(&here, ground.path("elsewhere")).expect("the folder is ours");
    run.finish().expect(0);
    let folder = Folder::open(ground.path("elsewhere")).expect("it is a run folder");
    assert_eq!(folder.requests().expect("phases can be read").flatten().count(), 301);
}
