//! `infer ic` from outside, with libtorch: the same seed gives the same output, the agent's file is written,
//! and each defect of the user's files has its own error. No timing is judged.
#![cfg(feature = "torch")]

mod common;
#[path = "common/memory_group.rs"]
mod memory_group;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use rstest::rstest;
use serde_json::Value;

use common::{json, json_and_warnings};
use memory_group::MemoryGroup;

/// Runs in `folder`, so that messages name files without a path; generated pictures are shared by all tests.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"))
        .args(["infer", "ic", "--smoke"])
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        // Two threads that spin for each other on a busy machine take 100 times as long; these tests run in
        // parallel.
        .env("OMP_WAIT_POLICY", "passive")
        .env("GUESTSCOPE_WORKLOAD_FILE", folder.join("workload.json"))
        .output()
        .expect("cargo built the binary for this test")
}

#[test]
fn a_seed_decides_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let result = |arguments: &[&str]| json(&run(folder.path(), &[arguments, &["--json"]].concat()));
    let first = result(&["--batch", "2", "--threads", "2", "--seed", "7"]);
    let again = result(&["--batch", "2", "--threads", "2", "--seed", "7"]);
    assert_eq!(first["output_hash"], again["output_hash"]);
    assert_eq!(first["work_hash"], again["work_hash"]);

    let other_seed = result(&["--batch", "2", "--threads", "2", "--seed", "8"]);
    assert_ne!(first["output_hash"], other_seed["output_hash"]);
    assert_ne!(first["work_hash"], other_seed["work_hash"]);

    let other_batch = result(&["--threads", "2", "--seed", "7"]);
    assert_ne!(first["work_hash"], other_batch["work_hash"]);
    let smaller = result(&["--batch", "2", "--threads", "2", "--seed", "7", "--scale", "0.25"]);
    assert_ne!(first["work_hash"], smaller["work_hash"]);
    assert_ne!(first["output_hash"], smaller["output_hash"]);
    assert_eq!((&smaller["scale"], &smaller["parameters"]), (&Value::from(0.25), &first["parameters"]));

    // The same network and pictures in bfloat16 are other work.
    let rounded = result(&["--batch", "2", "--threads", "2", "--seed", "7", "--precision", "bf16"]);
    assert_ne!(first["work_hash"], rounded["work_hash"]);
    assert_ne!(first["output_hash"], rounded["output_hash"]);
    assert_eq!((&rounded["precision"], &rounded["parameters"]), (&"bf16".into(), &first["parameters"]));

    let other_threads = result(&["--batch", "2", "--threads", "1", "--seed", "7"]);
    assert_eq!(first["work_hash"], other_threads["work_hash"], "threads are the platform's, not the work's");
}

#[test]
fn the_agent_is_told_what_ran() {
    let folder = tempfile::tempdir().unwrap();
    let result = json(&run(folder.path(), &["--requests", "2", "--warmup", "0", "--threads", "1", "--json"]));
    let mut told: Value =
        serde_json::from_slice(&fs::read(folder.path().join("workload.json")).unwrap()).unwrap();
    let histograms = told.as_object_mut().unwrap().remove("histograms").unwrap();
    assert!(histograms["latency"].as_str().is_some_and(|text| text.starts_with("HIST")));
    let names: Vec<&str> = told.as_object().unwrap().keys().map(String::as_str).collect();
    insta::assert_snapshot!(names.join(" "), @"batch model name output_hash parameters percentile precision requests scenario seed threads valid warmup work_hash workers");
    for name in names {
        assert_eq!(told[name], result[name], "{name}");
    }
    assert_eq!(told["parameters"], 25_557_032);
    assert_eq!(told["requests"], 2);
    assert_eq!(told["warmup"], 0);
}

#[test]
fn takes_the_users_pictures() {
    let folder = tempfile::tempdir().unwrap();
    // Made by this crate's generator, but under the user's names and larger than the crop in one direction
    // only.
    let mut jpeg = Vec::new();
    let pixels: Vec<u8> = (0..120 * 90 * 3).map(|i| (i % 251) as u8).collect();
    jpeg_encoder::Encoder::new(&mut jpeg, 80).encode(&pixels, 120, 90, jpeg_encoder::ColorType::Rgb).unwrap();
    fs::write(folder.path().join("a.JPEG"), &jpeg).unwrap();
    fs::write(folder.path().join("b.jpg"), &jpeg[..jpeg.len() / 2]).unwrap();
    let (mine, said) = json_and_warnings(&run(folder.path(), &["--data", ".", "--threads", "1", "--json"]));
    assert_eq!(mine["skipped_files"], 1, "half a picture is none");
    assert!(
        said.starts_with("warning: not all could be used: 1 file or record left out\n  ./b.jpg: "),
        "{said}"
    );
    let generated = json(&run(folder.path(), &["--threads", "1", "--json"]));
    assert_ne!(mine["output_hash"], generated["output_hash"]);
    assert_ne!(mine["work_hash"], generated["work_hash"]);
}

#[rstest]
#[case::absent_folder("absent_folder", &["--data", "absent"])]
#[case::empty_folder("empty_folder", &["--data", "empty"])]
#[case::not_a_jpeg("not_a_jpeg", &["--data", "broken"])]
#[case::absent_weights("absent_weights", &["--weights", "absent.safetensors"])]
#[case::weights_of_another_format("weights_of_another_format", &["--weights", "pickle.pth"])]
#[case::weights_of_another_model("weights_of_another_model", &["--weights", "other.safetensors"])]
fn says_what_is_wrong(#[case] snapshot: &str, #[case] arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("empty")).unwrap();
    fs::create_dir(at("broken")).unwrap();
    fs::write(at("broken/picture.jpg"), "no picture at all").unwrap();
    fs::write(at("pickle.pth"), b"PK\x03\x04 archive/data.pkl and so on").unwrap();
    let value = 1.0_f32.to_le_bytes();
    let tensor = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1], &value).unwrap();
    fs::write(at("other.safetensors"), safetensors::serialize([("conv1.weight", tensor)], None).unwrap())
        .unwrap();

    let output = run(folder.path(), arguments);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"");
    assert!(!at("workload.json").exists(), "nothing is told of a run that failed");
    insta::assert_snapshot!(snapshot, String::from_utf8(output.stderr).unwrap());
}

/// The same pictures by two workers, each with its own model, in another order: the same outputs.
#[test]
fn workers_compute_what_one_computes() {
    let folder = tempfile::tempdir().unwrap();
    let result = |arguments: &[&str]| {
        let common = ["--requests", "6", "--threads", "1", "--json"];
        json(&run(folder.path(), &[arguments, &common].concat()))
    };
    let alone = result(&[]);
    let offline = result(&["--scenario", "offline", "--workers", "2"]);
    let server = result(&["--scenario", "server", "--qps", "50", "--workers", "2"]);
    for shared in [&offline, &server] {
        assert_eq!(shared["output_hash"], alone["output_hash"]);
        assert_ne!(shared["work_hash"], alone["work_hash"], "another scenario is another work");
    }
    assert_eq!((&offline["scenario"], &server["scenario"]), (&"Offline".into(), &"Server".into()));
    assert!(server["queue_ns"]["p99"].is_u64() && offline.get("queue_ns").is_none());
}

/// Pictures that do not fit, and pictures that the model's first layer makes four times as large.
#[rstest]
#[case::as_pictures("1024", "error: not enough memory: ", "try a smaller --batch")]
#[case::in_the_model("256", "error: libtorch failed: ", "if memory ran out, try a smaller --batch")]
fn a_batch_too_large_for_memory_is_an_error_and_no_death(
    #[case] batch: &str,
    #[case] says: &str,
    #[case] hint: &str,
) {
    let Some(group) = MemoryGroup::of("ic.memory", 700 << 20) else { return };
    let infer = |batch: &str| {
        let mut command = group.program();
        command.args(["infer", "ic", "--smoke", "--threads", "1", "--batch", batch]);
        let output = command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(infer("1"), (Some(0), String::new()));
    let (code, error) = infer(batch);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.starts_with(says) && error.ends_with(&format!("hint: {hint}\n")), "{error}");
}
