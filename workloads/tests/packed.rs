//! Shards that do not mix with others, and are whole where packing was stopped. No libtorch takes part.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

fn shards(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    command.arg("shards").args(arguments).arg("--json").current_dir(folder);
    command
}

fn error(output: &Output) -> String {
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder of a test").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Another number of them has other names, and what reads the folder would take all.
#[test]
fn a_folder_that_has_shards_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let pack = |generate, per_shard| {
        shards(folder.path(), &["--out", "s", "--generate", generate, "--per-shard", per_shard])
            .output()
            .unwrap()
    };
    assert_eq!(pack("2", "1").status.code(), Some(0));
    let before = names(&folder.path().join("s"));
    assert_eq!(before, ["pictures-00000-of-00002.tfrecord", "pictures-00001-of-00002.tfrecord"]);
    assert!(error(&pack("2", "2")).starts_with("error: shards are there already: s\n"));
    assert_eq!(names(&folder.path().join("s")), before);
}

#[test]
fn packing_that_is_stopped_leaves_whole_shards_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("s");
    let mut command = shards(folder.path(), &["--out", "s", "--generate", "1000000", "--per-shard", "2"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let limit = Instant::now() + Duration::from_mins(1);
    while Instant::now() < limit && !out.join("pictures-00001-of-500000.tfrecord").exists() {
        thread::yield_now();
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = error(&output);
    let names = names(&out);
    assert!(error.starts_with(&format!("error: interrupted after {} shards: s\n", names.len())), "{error}");
    let expected: Vec<String> =
        (0..names.len()).map(|shard| format!("pictures-{shard:05}-of-500000.tfrecord")).collect();
    assert_eq!(names, expected);
    assert!(names.len() >= 2);
}
