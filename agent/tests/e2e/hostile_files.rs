//! Programs that attack the files of their own run: folder, streams, manifest, workload file. The agent is
//! root; the program is the user who called sudo, or root as well.
//!
//! The agent must not read or change files of others, and must not wait; what it observed is kept and summed
//! up all the same.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt, chown},
    path::{Path, PathBuf},
};

use guestscope::folder::{Folder, State};
use rstest::rstest;

use crate::{
    folder::{Seen, only_folder},
    ground::{Ground, eventually, skipped, subject},
    running::{Done, Start},
};

/// The user whose programs attack.
const NOBODY: u32 = 65534;
/// Numbers of requests before and after the attack.
const REQUESTS: (usize, usize) = (40, 10);

fn sudo(start: Start) -> Start {
    start.environment("SUDO_UID", "65534").environment("SUDO_GID", "65534")
}

/// Makes a folder in which the user may make run folders and write the test's notes.
fn give(ground: &Ground) {
    fs::create_dir(ground.path("runs")).expect("the folder is ours");
    fs::write(ground.path("book"), "").expect("the folder is ours");
    for name in ["runs", "book"] {
        chown(ground.path(name), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
}

/// Another run's folder, which only root may read.
fn victim(ground: &Ground) -> PathBuf {
    let private = ground.path("private");
    fs::create_dir(&private).expect("the folder is ours");
    fs::set_permissions(&private, PermissionsExt::from_mode(0o700)).expect("the folder is ours");
    let start = ground.command(&["run", "--json", "--name", "precious", "--output"]).word(&private);
    start.program(subject()).words(&["requests", "3"]).finish().expect(0);
    only_folder(&private)
}

/// Everything below a path, with owners, sizes and times.
fn state(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("it can be listed");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    let mut state = Vec::new();
    for path in paths {
        let found = fs::symlink_metadata(&path).expect("it is there");
        let (owner, times) =
            ((found.uid(), found.gid(), found.mode()), (found.mtime_nsec(), found.ctime_nsec()));
        state.push(format!("{} {owner:?} {} {times:?}", path.display(), found.len()));
        if found.is_dir() {
            state.extend(self::state(&path));
        }
    }
    state
}

/// Runs the program, which attacks after some requests: by then the folder has what the agent writes every
/// second.
fn attacked(ground: &Ground, attack: &str, victim: &Path, is_users: bool) -> Done {
    let script = format!(
        "{subject} requests {before}; sleep 1.3; cd {runs}/*attack || exit 9; V={victim}; D=$PWD; {attack}\n\
         cd /; {subject} requests {after}; exit 0",
        subject = subject().display(),
        before = REQUESTS.0,
        after = REQUESTS.1,
        runs = ground.path("runs").display(),
        victim = victim.display(),
    );
    let start = ground.run().words(&["--name", "attack", "--wait-threshold", "off"]).program("sh");
    let start = start.words(&["-c", &script]);
    if is_users { sudo(start) } else { start }.finish().expect(0)
}

/// Every attack that was found to work on an earlier version, and variants of each.
#[rstest]
#[case::fifo("rm phases.arrows; mkfifo phases.arrows")]
#[case::zero("rm phases.arrows; ln -s /dev/zero phases.arrows")]
#[case::link("rm phases.arrows; ln -s $V/phases.parquet phases.parquet")]
#[case::link_of_the_stream("rm phases.arrows; ln -s $V/phases.parquet phases.arrows")]
#[case::links_of_all("for f in phases threads samples marks waits; do ln -s $V/$f.parquet $f.parquet; done")]
#[case::folder_link("cd ..; mv \"$D\" \"$D.moved\"; ln -s $V \"$D\"")]
#[case::fifo_parquet("mkfifo phases.parquet phases.parquet.tmp")]
#[case::fifo_manifest("rm manifest.json; mkfifo manifest.json manifest.json.tmp")]
#[case::link_manifest(
    "rm manifest.json; ln -s $V/manifest.json manifest.json; ln -s $V/manifest.json manifest.json.tmp"
)]
#[case::fifo_waits("rm waits.arrows; mkfifo waits.arrows")]
#[case::temporary_folders(
    "for f in phases.parquet manifest.json histograms; do mkdir $f.tmp; touch $f.tmp/x; done"
)]
#[case::folders(
    "rm manifest.json; for f in phases.parquet manifest.json histograms; do mkdir $f; touch $f/x; done"
)]
#[case::histograms("ln -s $V histograms")]
#[case::sparse("rm phases.arrows; truncate -s 8T phases.arrows || truncate -s 1T phases.arrows")]
#[case::grown("truncate -s 8T phases.arrows || truncate -s 1T phases.arrows")]
#[case::removed("rm -f *.arrows")]
#[case::shut("chmod 0 .")]
#[case::watched(
    "(cat *.arrows >/dev/null; exec 9<>waits.arrows; flock 9; sleep 30) </dev/null >/dev/null 2>&1 &"
)]
fn a_program_can_do_nothing_with_the_folder_of_its_run(
    #[case] attack: &str,
    #[values(true, false)] is_users: bool,
) {
    let Some(ground) = Ground::new("hostile_files::a_program_can_do_nothing_with_the_folder_of_its_run")
    else {
        return;
    };
    give(&ground);
    let victim = victim(&ground);
    let before = state(&victim);
    let done = attacked(&ground, attack, &victim, is_users);

    let summary = done.summary();
    assert_eq!(summary["requests"], REQUESTS.0 + REQUESTS.1, "{}", done.stderr);
    assert_eq!(done.loss("rows_lost"), 0, "{summary}");
    let found = fs::read_dir(ground.path("runs"))
        .expect("it can be listed")
        .map(|entry| entry.expect("it can be listed"));
    let folders: Vec<PathBuf> = found
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    let [here] = &folders[..] else { panic!("{folders:?}") };
    let seen = Seen::read(here);
    assert_eq!(seen.requests.len(), REQUESTS.0 + REQUESTS.1);
    assert_eq!(seen.manifest.state, State::Closed);
    assert_eq!(seen.manifest.name, "attack");
    assert_eq!(state(&victim), before, "nothing of others is touched");
}

/// A program may damage its own rows; the agent reports it.
#[test]
fn what_a_program_cuts_off_its_own_rows_is_said() {
    let Some(ground) = Ground::new("hostile_files::what_a_program_cuts_off_its_own_rows_is_said") else {
        return;
    };
    give(&ground);
    let victim = victim(&ground);
    let done = attacked(&ground, "truncate -s 100 phases.arrows", &victim, true);
    let error = done.summary()["folder_error"].as_str().unwrap_or_default().to_owned();
    assert!(error.starts_with("damaged file in the run folder: "), "{error}");
}

/// Existing parents keep their owners. Parents that the user could not have made belong to root.
#[rstest]
#[case::in_the_users_place("runs/a/b", NOBODY)]
#[case::in_roots_place("roots/b", 0)]
fn parents_belong_to_who_could_have_made_them(#[case] below: &str, #[case] owner: u32) {
    let Some(ground) = Ground::new("hostile_files::parents_belong_to_who_could_have_made_them") else {
        return;
    };
    give(&ground);
    let output = ground.path(below);
    fs::create_dir_all(ground.path("roots/b")).expect("the folder is ours");
    let start = ground.command(&["run", "--json", "--output"]).word(&output);
    let done = sudo(start.environment("E2E_BOOK", ground.path("book")).program(subject()));
    let done = done.words(&["requests", "3"]).finish().expect(0);
    let here = only_folder(&output);
    for path in [output.parent().expect("it has one"), &output, &here, &here.join("phases.parquet")] {
        assert_eq!(fs::metadata(path).expect("it is there").uid(), owner, "{}", path.display());
    }
    assert_eq!(fs::metadata(ground.path("")).expect("it is there").uid(), 0);
    assert_eq!(done.stderr.contains("the run folder is root's"), owner == 0, "{}", done.stderr);
    let folder = Folder::open(here).expect("it is a run folder");
    assert_eq!(folder.requests().expect("phases can be read").flatten().count(), 4);
}

/// Neither a directory nor a file with a name that the caller chose: a name alone can do harm (/etc/nologin),
/// and sudo may allow the user no more than this command.
#[test]
fn nothing_is_made_with_roots_rights_under_a_name_of_the_callers() {
    let test = "hostile_files::nothing_is_made_with_roots_rights_under_a_name_of_the_callers";
    let Some(ground) = Ground::new(test) else { return };
    give(&ground);
    let (place, runs) = (ground.path("roots"), ground.path("runs"));
    fs::create_dir(&place).expect("the folder is ours");
    let run = |output: &Path| {
        let start = ground.command(&["run", "--json", "--output"]).word(output);
        let start = start.environment("E2E_BOOK", ground.path("book")).program(subject());
        sudo(start).words(&["requests", "3"]).finish()
    };
    let refused = run(&place.join("nologin")).expect(2);
    assert!(refused.stderr.contains("Permission denied"), "{}", refused.stderr);
    run(&runs).expect(0);
    let made = only_folder(&runs);
    for words in [&["export", "--to", "otlp-json"][..], &["export", "--to", "perfetto"], &["report"]] {
        let out = place.join("ld.so.preload");
        let done = sudo(ground.command(words).word("--output").word(&out).word(&made)).finish().expect(2);
        assert!(done.stderr.contains("Permission denied"), "{words:?}: {}", done.stderr);
    }
    assert_eq!(fs::read_dir(&place).expect("it is ours").count(), 0);
    // A place of the caller's own is accepted.
    let out = runs.join("trace.json");
    sudo(ground.command(&["export", "--to", "otlp-json", "--output"]).word(&out).word(&made))
        .finish()
        .expect(0);
    assert_eq!(fs::metadata(&out).expect("it was made").uid(), NOBODY);
}

/// Writing and exporting threads: the kernel checks what the user may do.
#[test]
fn the_threads_that_write_have_the_users_rights_and_no_capability() {
    let test = "hostile_files::the_threads_that_write_have_the_users_rights_and_no_capability";
    let Some(ground) = Ground::new(test) else { return };
    give(&ground);
    let start = ground.run().words(&["--otlp", "http://127.0.0.1:9"]).program(subject());
    let run = sudo(start.words(&["await-sigterm"])).spawn();
    let field = |text: &str, name: &str| -> Vec<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let threads = eventually("the threads", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", run.pid())).ok()?;
        let status = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
        let all: Vec<String> = status
            .filter(|status| {
                ["export", "otlp-export"].iter().any(|name| field(status, "Name:").concat() == *name)
            })
            .collect();
        let settled = |status: &String| field(status, "CapPrm:") == ["0000000000000000"];
        (all.len() == 2 && all.iter().all(settled)).then_some(all)
    });
    for status in threads {
        assert_eq!(field(&status, "Uid:"), ["0", "0", "0", "65534"], "{status}");
        assert_eq!(field(&status, "Gid:"), ["0", "0", "0", "65534"], "{status}");
        assert_eq!(field(&status, "CapEff:"), ["0000000000000000"], "{status}");
    }
    eventually("the program", || (!ground.book().is_empty()).then_some(()));
    run.signal(nix::sys::signal::Signal::SIGTERM);
    run.finish();
}

/// A lease would block opening the file while it grows; without one it just grows.
const LEASE: &str = r#"
import fcntl, os, signal, sys
file = os.open(os.environ["GUESTSCOPE_WORKLOAD_FILE"], os.O_RDWR)
os.write(file, b"{}")
def grow(*_):
    os.ftruncate(file, 8 << 30)
    try: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError: pass
    os._exit(0)
ready, done = os.pipe()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGIO, grow)
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    try: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError: 
        os.ftruncate(file, 8 << 30)
    os.write(done, b"x")
    signal.alarm(20)
    for at in (0, 1, 2): os.close(at)
    while True: signal.pause()
os.read(ready, 1)
"#;

#[rstest]
fn a_leased_or_grown_workload_file_is_left_out(#[values(true, false)] is_users: bool) {
    let test = "hostile_files::a_leased_or_grown_workload_file_is_left_out";
    let Some(ground) = Ground::new(test) else { return };
    // A Python in root's home is not readable for others.
    let python = PathBuf::from("/usr/bin/python3");
    if !python.exists() {
        return skipped(test, "no Python in /usr/bin");
    }
    give(&ground);
    let start = ground.run().program(python).words(&["-c", LEASE]);
    let done = if is_users { sudo(start) } else { start }.finish().expect(0);
    let said = "what the workload says about itself is left out: larger than 524288 bytes";
    assert!(done.stderr.contains(said), "{}", done.stderr);
    assert_eq!(Seen::read(&only_folder(&ground.path("runs"))).manifest.workload, None);
}
