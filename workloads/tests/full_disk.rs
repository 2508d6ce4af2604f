//! Where nothing more can be written: the program says so, ends with 2, and leaves no half file. `h2o generate` has the same in
//! `h2o.rs`.

use std::{
    fs::File,
    path::Path,
    process::{Command, Output},
};

use rstest::rstest;

/// Always full, on every Linux.
const FULL: &str = "/dev/full";
/// Mounts a tmpfs of 64 KiB, which nobody else sees and which is gone with the namespace, and runs the rest of its words there;
/// what is in it then is printed.
const IN_A_SMALL_FOLDER: &str =
    r#"mount -t tmpfs -o size=64k tmpfs "$0" || exit 77; "$@" >&2; code=$?; ls -A "$0"; exit $code"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("all that is printed is UTF-8")
}

fn in_a_small_folder(folder: &Path, words: &[&str]) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", IN_A_SMALL_FOLDER]).arg(folder).args(words);
    // Without the program, or the right to have such a namespace or mount, there is none.
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

#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
}

/// One picture is longer than the disk.
#[rstest]
#[case("tfrecord")]
#[case("tar")]
fn shards_that_have_no_room_leave_nothing_behind(#[case] format: &str) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let program = env!("CARGO_BIN_EXE_guestscope-workloads");
    let words = [program, "shards", "--out", out, "--generate", "2", "--format", format];
    let Some(output) = in_a_small_folder(folder.path(), &words) else {
        return skipped("full_disk.shards", "no mount namespace, or nothing may be mounted in it");
    };
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    let says = format!(
        "error: cannot write a shard: {out}/pictures-00000-of-00001.{format} (No space left on device"
    );
    assert!(error.starts_with(&says), "{error}");
    assert!(
        error.ends_with("hint: name a folder with --out that can be written to and has room\n"),
        "{error}"
    );
    assert_eq!(text(&output.stdout), "", "no half shard stays behind");
}
