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

/// A different number of shards has different names, and a reader of the folder would take all of them.
#[test]
fn a_folder_that_has_shards_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let pack = |generate, per_shard| {
        shards(folder.path(), &["--output", "s", "--generate", generate, "--per-shard", per_shard])
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
fn what_is_no_picture_is_left_out_by_name_and_nothing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("in/a")).unwrap();
    fs::write(folder.path().join("in/a/text.jpg"), "no picture").unwrap();
    std::os::unix::fs::symlink("no/such", folder.path().join("in/a/gone.jpg")).unwrap();
    let pack = || shards(folder.path(), &["--output", "s", "--data", "in"]).output().unwrap();
    let said = error(&pack());
    assert!(
        said.starts_with("error: no picture in the folder can be packed: in (2 were tried, the first: "),
        "{said}"
    );
    assert!(said.contains("in/a/gone.jpg: No such file"), "{said}");
    assert!(names(&folder.path().join("s")).is_empty());

    let pixels = vec![0; 40 * 30 * 3];
    let encoder = jpeg_encoder::Encoder::new_file(folder.path().join("in/a/whole.jpg"), 90).unwrap();
    encoder.encode(&pixels, 40, 30, jpeg_encoder::ColorType::Rgb).unwrap();
    let output = pack();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let packed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&packed["pictures"], packed["left_out"].as_array().unwrap().len()), (&1.into(), 2));
    assert_eq!(packed["left_out"][0]["file"], "in/a/gone.jpg");

    // A file that exists and that the kernel does not read, as on a broken disk.
    std::os::unix::fs::symlink("/proc/self/mem", folder.path().join("in/a/broken.jpg")).unwrap();
    let output = shards(folder.path(), &["--output", "t", "--data", "in"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = error(&output);
    assert!(said.starts_with("error: cannot read file: in/a/broken.jpg (Input/output error"), "{said}");
    assert!(names(&folder.path().join("t")).is_empty());
}

#[test]
fn packing_that_is_stopped_leaves_whole_shards_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("s");
    let mut command = shards(folder.path(), &["--output", "s", "--generate", "1000000", "--per-shard", "2"]);
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
