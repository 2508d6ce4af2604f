//! Without room to write, the program says so, exits with 2, and leaves no half file.

use std::{
    fs::File,
    path::Path,
    process::{Command, Output},
};

use rstest::rstest;

/// Always full, on every Linux.
const FULL: &str = "/dev/full";
/// Mounts a tmpfs of 64 KiB, private and gone with the namespace, runs the rest of its words there, and
/// prints the files left in it, at any depth.
const IN_A_SMALL_FOLDER: &str = r#"
    mount -t tmpfs -o size=64k tmpfs "$0" || exit 77
    "$@" >&2
    code=$?
    cd "$0" && find . -mindepth 1
    exit $code"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("all that is printed is UTF-8")
}

fn in_a_small_folder(folder: &Path, words: &[&str]) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", IN_A_SMALL_FOLDER]).arg(folder).args(words);
    // None without `unshare`, or without the right to such a namespace or mount.
    let output = command.output().ok()?;
    let is_there = !text(&output.stderr).starts_with("unshare: ") && output.status.code() != Some(77);
    is_there.then_some(output)
}

#[rstest]
#[case::list(&["list"])]
#[case::list_json(&["list", "--json"])]
#[case::result(&["h2o", "parse", "--rows", "5"])]
fn a_full_standard_output_is_an_error(#[case] arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"));
    command.args(arguments).env("XDG_CACHE_HOME", folder.path()).env_remove("GUESTSCOPE_WORKLOAD_FILE");
    let output = command.stdout(File::options().write(true).open(FULL).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "error: cannot write result: standard output (No space left on device (os error 28))\n\n\
         hint: standard output or the file in GUESTSCOPE_WORKLOAD_FILE cannot be written to\n"
    );
}

/// The warning is lost; the exit status is the same.
#[rstest]
#[case::error(&["infer", "loop", "--scenario", "server"], 2)]
#[case::warning(&["infer", "loop", "--requests", "1", "--duration", "1s", "--beside", "infer loop --requests 1"], 0)]
fn a_full_standard_error_changes_nothing(#[case] arguments: &[&str], #[case] code: i32) {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--json").env_remove("GUESTSCOPE_WORKLOAD_FILE");
    let output = command.stderr(File::options().write(true).open(FULL).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(code));
    assert_eq!(!output.stdout.is_empty(), code == 0);
}

#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
}

/// Expects an error about the full disk with that hint, and the files `left`. Words may name the folder as
/// `{}`.
fn has_no_room(test: &str, words: &[&str], says: &str, hint: &str, left: &str) {
    let folder = tempfile::tempdir().expect("a folder of a test");
    let within = |text: &str| text.replace("{}", folder.path().to_str().expect("it is UTF-8"));
    let words: Vec<String> = words.iter().map(|word| within(word)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(output) = in_a_small_folder(folder.path(), &words) else {
        return skipped(test, "no mount namespace, or nothing may be mounted in it");
    };
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.starts_with(&format!("error: {}", within(says))), "{error}");
    let hint = format!(" (No space left on device (os error 28))\n\nhint: {hint}\n");
    assert!(error.ends_with(&hint), "{error}");
    assert_eq!(text(&output.stdout), left, "nothing half made stays behind");
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_guestscope-workloads");

/// One picture is longer than the disk.
#[rstest]
#[case("tfrecord")]
#[case("tar")]
fn shards_that_have_no_room_leave_nothing_behind(#[case] format: &str) {
    let words = [PROGRAM, "shards", "--output", "{}", "--generate", "2", "--format", format];
    let says = format!("cannot write a shard: {{}}/pictures-00000-of-00001.{format}");
    let hint = "name a folder with --output that can be written to and has room";
    has_no_room("full_disk.shards", &words, &says, hint, "");
}

/// 5,000 flights take half a megabyte.
#[test]
fn flights_that_have_no_room_leave_nothing_behind() {
    let words = [PROGRAM, "h2o", "generate", "--rows", "5000", "{}/flights.csv"];
    let hint = "name a file in a folder that can be written to, on a disk with 106 MB for each million rows";
    has_no_room("full_disk.flights", &words, "cannot write data: {}/flights.csv", hint, "");
}

/// The earlier file is still there.
#[test]
fn a_histogram_that_has_no_room_leaves_the_older_one() {
    let script = "printf old > $1/old.v2; head -c 100000 /dev/zero > $1/full; exec $2 infer loop --requests 200 --work 10us \
                  --warmup 0 --json --histogram $1/old.v2";
    let folder = tempfile::tempdir().unwrap();
    let words = ["sh", "-c", script, "sh", folder.path().to_str().unwrap(), PROGRAM];
    let Some(output) = in_a_small_folder(folder.path(), &words) else {
        return skipped("full_disk.histogram", "no mount namespace, or nothing may be mounted in it");
    };
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("error: cannot write histogram: "), "{error}");
    assert_eq!(text(&output.stdout), "./full\n./old.v2\n", "and nothing half made");
}

/// One recording is longer than the disk. The cache itself is a folder that the next run takes as well.
#[cfg(feature = "torch")]
#[test]
fn recordings_that_have_no_room_leave_nothing_behind() {
    let words = ["env", "XDG_CACHE_HOME={}", PROGRAM, "infer", "sr", "--smoke", "--scale", "0.01"];
    let says = "cannot write generated recordings: {}/guestscope/partial-";
    let hint = "set XDG_CACHE_HOME to a folder that can be written to and has room, or name a folder of files with --data";
    has_no_room("full_disk.recordings", &words, says, hint, "./guestscope\n");
}
