//! `guestscope explain` of folders that are no run folder, damaged, of a later format, still being written,
//! or empty, and of requests that do not exist.

use std::{fs, path::Path, process::Command};

use guestscope::phase::{Ending, GpuWork, GpuWorkKind, WARMUP};
use insta::assert_snapshot;
use serde_json::Value;

use super::{closed, explain, request, usual, written};

#[test]
fn the_answer() {
    let (_parent, folder) = closed(&usual(100));
    assert_snapshot!(explain(&folder, &["--slowest", "1"], 0));
    let json: Value = serde_json::from_str(&explain(&folder, &["--json"], 0)).unwrap();
    let group = &json["groups"][0];
    assert_eq!((&json["is_open"], &group["headline"]["cause"]), (&false.into(), &"lock".into()));
    let part = &group["explained"][0]["phases"][0]["parts"][0];
    assert_eq!((&part["cause"], &part["excess_ns"]), (&"lock".into(), &30_000_000.into()));
    assert_eq!(part["waits"]["by"][0]["culprit"], serde_json::json!({ "kind": "waker", "tid": 4711 }));
    assert_eq!(group["explained"].as_array().unwrap().len(), 3);
}

#[test]
fn one_request_by_its_number() {
    let (_parent, folder) = closed(&usual(30));
    assert_snapshot!(explain(&folder, &["--request", "14"], 0));
    assert_snapshot!(explain(&folder, &["--request", "30"], 2));
    assert_snapshot!(explain(&folder, &["--request", "1", "--slowest", "2"], 2));
    assert_snapshot!(explain(&folder, &["--slowest", "0"], 2));
}

#[test]
fn what_is_no_request_is_said() {
    let mut requests = usual(30);
    requests[7].phases[0].ending = Ending::ObservationStopped;
    requests[8] = request(8, WARMUP, 0);
    let (_parent, folder) = closed(&requests);
    assert_snapshot!(explain(&folder, &["--request", "7"], 2));
    assert_snapshot!(explain(&folder, &["--request", "8"], 2));
}

#[test]
fn nothing_to_explain() {
    let (_parent, folder) = closed(&[]);
    assert_snapshot!(explain(&folder, &[], 1));
    let (_parent, folder) = closed(&[request(1, WARMUP, 0)]);
    assert_snapshot!(explain(&folder, &["--json"], 1));
}

#[test]
fn what_is_no_run_folder() {
    let place = tempfile::tempdir().unwrap();
    assert_snapshot!(explain(&place.path().join("nothing"), &[], 2));
    let (_parent, folder) = closed(&usual(3));
    assert_snapshot!(
        explain(&folder.join("phases.parquet"), &[], 2).replace(&folder.display().to_string(), "FOLDER")
    );
}

/// A folder of these requests with a kernel of each, and a window from the 11th on.
fn with_gpu_work() -> (tempfile::TempDir, std::path::PathBuf) {
    let requests = usual(30);
    let (parent, mut folder) = written(&requests);
    for request in &requests {
        let root = request.root();
        let (start_ns, process) = (root.start_ns + 2_000_000, root.thread.tgid);
        folder.append_gpu_work(&GpuWork {
            name: "gemm".into(),
            process,
            start_ns,
            end_ns: start_ns + 1_000_000,
            phase: Some(root.id),
            root: Some(root.id),
            ..GpuWork::default()
        });
    }
    let start_ns = requests[10].root().start_ns;
    let end_ns = start_ns + 60_000_000_000;
    let window = GpuWork { kind: GpuWorkKind::Window, process: 10, start_ns, end_ns, ..GpuWork::default() };
    folder.append_gpu_work(&window);
    let closed = folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {}).unwrap();
    (parent, closed.path)
}

#[test]
fn a_request_within_a_window_has_its_gpu_work() {
    let (_parent, folder) = with_gpu_work();
    let of = |number: &str| explain(&folder, &["--request", number], 0);
    let (inside, outside) = (of("14"), of("4"));
    let words = inside.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "(GPU) 1 kernel took 1.00 ms (mean 1.00 in 1.00 ms); the GPU did nothing";
    assert!(words.contains(told), "{inside}");
    assert!(words.contains("longest: gemm 1.00 ms"), "{inside}");
    assert!(!outside.contains("(GPU)"), "{outside}");
    fs::write(folder.join("gpu_work.parquet"), "PAR1").unwrap();
    let damaged = of("14");
    assert_eq!(damaged.matches("work of GPUs is missing").count(), 1, "{damaged}");
    assert!(!damaged.contains("(GPU)"), "{damaged}");
}

fn change_manifest(folder: &Path, change: impl FnOnce(&mut Value)) {
    let path = folder.join("manifest.json");
    let mut manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(path, manifest.to_string()).unwrap();
}

#[test]
fn a_later_format_and_a_damaged_folder() {
    let (_parent, folder) = closed(&usual(30));
    change_manifest(&folder, |manifest| manifest["format"] = 3.into());
    assert_snapshot!(explain(&folder, &[], 2));
    fs::write(folder.join("manifest.json"), "{\"format\": 1,").unwrap();
    assert_snapshot!(explain(&folder, &[], 2));
    // Cut in half, a closed file has lost its index.
    let (_parent, folder) = closed(&usual(30));
    let phases = fs::read(folder.join("phases.parquet")).unwrap();
    fs::write(folder.join("phases.parquet"), &phases[..phases.len() / 2]).unwrap();
    let said = explain(&folder, &[], 2);
    assert!(said.starts_with("error: damaged file in the run folder: RUNS/"), "{said}");
    assert!(said.contains("\n\nhint: the other files of the folder may still be read"), "{said}");
}

#[test]
fn without_waits_the_parts_still_stand() {
    let (_parent, folder) = closed(&usual(30));
    fs::remove_file(folder.join("waits.parquet")).unwrap();
    let text = explain(&folder, &["--slowest", "1"], 0);
    assert!(text.contains("\n    lock             +30.0 ms  30.0 ms instead of none\n"), "{text}");
    assert!(text.contains("\nnote          waits are missing: cannot read the run folder"), "{text}");
}

#[test]
fn a_run_that_goes_on_or_was_cut_off() {
    let (_parent, mut folder) = written(&usual(40));
    folder.flush();
    let path = folder.path().to_owned();
    let text = explain(&path, &["--slowest", "1"], 0);
    assert!(text.starts_with("40 requests"), "{text}");
    assert!(text.contains("\nopen          the run is still being written, or was cut off"), "{text}");
    assert!(text.contains("1 wait of 30.0 ms in futex, ended by thread 4711"), "{text}");
    // Requests that are written later are found by the next call.
    usual(60)[40..].iter().for_each(|request| folder.append_request(request));
    folder.flush();
    assert!(explain(&path, &[], 0).starts_with("60 requests"));
    // As after a crash in the middle of a row.
    drop(folder);
    let stream = fs::OpenOptions::new().write(true).open(path.join("phases.arrows")).unwrap();
    stream.set_len(stream.metadata().unwrap().len() - 100).unwrap();
    let text = explain(&path, &["--slowest", "1"], 0);
    assert!(text.starts_with("40 requests"), "{text}");
    assert!(text.contains("bytes of the phases are not whole, and left out"), "{text}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (_parent, folder) = closed(&usual(30));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_guestscope"));
    let status = command.arg("explain").arg(&folder).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
