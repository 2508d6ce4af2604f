//! The scalable workloads, from outside and with libtorch: the same seed gives the same output, the agent's
//! file is written, and each defect of the user's files has its own error. No timing is judged.
#![cfg(feature = "torch")]

mod common;
#[path = "common/memory_group.rs"]
mod memory_group;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use guestscope_workloads::{
    data::{clicks, speech, words::Vocabulary},
    memory::available_bytes,
};
use rstest::rstest;
use serde_json::Value;

use common::{json, json_and_warnings};
use memory_group::MemoryGroup;

const SCALE: &str = "0.01";

/// Runs in `folder`, so that messages name files without a path; generated inputs are shared by all tests.
fn run(folder: &Path, workload: &str, arguments: &[&str]) -> Output {
    let scale: &[&str] = if arguments.contains(&"--scale") { &[] } else { &["--scale", SCALE] };
    Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"))
        .args(["infer", workload, "--smoke"])
        .args(scale)
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

#[rstest]
#[case::nlp("nlp")]
#[case::rs("rs")]
#[case::sr("sr")]
fn a_seed_decides_the_output(#[case] workload: &str) {
    let folder = tempfile::tempdir().unwrap();
    let result = |arguments: &[&str]| json(&run(folder.path(), workload, &[&["--json"], arguments].concat()));
    let with = |requests, batch, threads, seed, precision| {
        let arguments =
            ["--requests", requests, "--batch", batch, "--threads", threads, "--seed", seed, "--warmup", "0"];
        result(&[&arguments[..], &["--precision", precision]].concat())
    };
    let usual = ["--requests", "2", "--batch", "2", "--threads", "2", "--seed", "7", "--warmup", "0"];
    let (first, again) = (with("2", "2", "2", "7", "fp32"), with("2", "2", "2", "7", "fp32"));
    assert_eq!(first["output_hash"], again["output_hash"]);
    assert_eq!(first["work_hash"], again["work_hash"]);

    let others = [
        ("seed", with("2", "2", "2", "8", "fp32")),
        ("batch", with("2", "1", "2", "7", "fp32")),
        ("requests", with("1", "2", "2", "7", "fp32")),
        ("precision", with("2", "2", "2", "7", "bf16")),
        // The fourth input is the first one again.
        ("number of inputs", result(&[&usual[..], &["--inputs", "3"]].concat())),
    ];
    for (what, other) in others {
        assert_ne!(first["output_hash"], other["output_hash"], "another {what}");
        assert_ne!(first["work_hash"], other["work_hash"], "another {what}");
    }
    let other_threads = with("2", "2", "1", "7", "fp32");
    assert_eq!(first["work_hash"], other_threads["work_hash"], "threads are the platform's, not the work's");
}

#[rstest]
#[case::nlp("nlp")]
#[case::rs("rs")]
#[case::sr("sr")]
fn the_agent_is_told_what_ran(#[case] workload: &str) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--requests", "2", "--warmup", "0", "--threads", "1", "--json"];
    let result = json(&run(folder.path(), workload, &arguments));
    let mut told: Value =
        serde_json::from_slice(&fs::read(folder.path().join("workload.json")).unwrap()).unwrap();
    let histograms = told.as_object_mut().unwrap().remove("histograms").unwrap();
    assert!(histograms["latency"].as_str().is_some_and(|text| text.starts_with("HIST")));
    for (name, value) in told.as_object().unwrap() {
        assert_eq!(*value, result[name], "{name}");
    }
    assert_eq!((&told["name"], &told["precision"]), (&workload.into(), &"fp32".into()));
    assert_eq!((&told["requests"], &told["warmup"]), (&2.into(), &0.into()));
    assert_eq!(told["scale"].to_string(), SCALE, "a model that is not the study's is called so");
}

#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(reason: &str) {
    println!("skipped: infer.rs: {reason}");
}

/// Runs where a small model fits. Gives exit code and error; none if there can be no such group.
fn in_700_mib(test: &str, arguments: &[&str]) -> Option<(Option<i32>, String)> {
    let group = MemoryGroup::of(test, 700 << 20)?;
    let mut command = group.program();
    command.args(["infer", arguments[0], "--smoke", "--threads", "1"]).args(&arguments[1..]);
    let output =
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")).output().expect("a shell starts it");
    Some((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[rstest]
#[case::nlp(&["nlp"], "BERT-Large, SQuAD (1336377352")]
#[case::rs(&["rs"], "DLRM, Criteo Kaggle (2162708868")]
#[case::sr_of_workers(&["sr", "--scenario", "offline", "--workers", "5"], "RNN-T (906460740")]
#[case::ic_of_workers(&["ic", "--scenario", "offline", "--workers", "8"], "ResNet-50 v1.5 (817825024")]
fn a_model_too_large_for_memory_is_named(#[case] arguments: &[&str], #[case] model: &str) {
    let Some((code, error)) = in_700_mib("infer.model_memory", arguments) else { return };
    assert_eq!(code, Some(2), "{error}");
    let hint = match arguments[0] {
        "ic" => "this model has one size, whatever --scale: try fewer --workers, or more memory",
        _ => "if memory ran out, try a smaller --scale, or fewer --workers",
    };
    let says = format!("error: not enough memory for a model: {model} bytes needed, ");
    assert!(error.starts_with(&says) && error.ends_with(&format!("hint: {hint}\n")), "{error}");
}

/// 1,024 questions at a tenth of BERT's width, 400,000 records as 27 vectors each, 15 s of each of 1,024
/// recordings.
#[rstest]
#[case::nlp("nlp", "0.1", "libtorch failed: ")]
#[case::rs("rs", "0.01", "libtorch failed: ")]
#[case::sr("sr", "0.1", "not enough memory: ")]
fn a_batch_too_large_for_memory_is_an_error_and_no_death(
    #[case] workload: &str,
    #[case] scale: &str,
    #[case] says: &str,
) {
    let infer = |batch| in_700_mib("infer.memory", &[workload, "--scale", scale, "--batch", batch]);
    let Some(small) = infer("1") else { return };
    assert_eq!(small, (Some(0), String::new()));
    let Some((code, error)) = infer("1024") else { return };
    assert_eq!(code, Some(2), "{error}");
    assert!(error.starts_with(&format!("error: {says}")), "{error}");
    assert!(error.ends_with("try a smaller --batch\n"), "{error}");
}

/// The tables alone are 2.16 GB of that. The peak over all children of this process; no other is as large.
#[test]
fn the_whole_of_dlrm_needs_less_than_3_gib() {
    const MOST_BYTES: u64 = 3 << 30;
    if available_bytes().is_some_and(|bytes| bytes < MOST_BYTES) {
        return skipped("less than 3 GiB of memory are left");
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--scale", "1", "--requests", "2", "--warmup", "0", "--threads", "1", "--json"];
    let result = json(&run(folder.path(), "rs", &arguments));
    assert_eq!(result["parameters"], 540_677_217);
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN).unwrap();
    let most_bytes = usage.max_rss().unsigned_abs() * 1024;
    assert!(most_bytes > 540_677_217 * 4, "every table was there: {most_bytes}");
    assert!(most_bytes <= MOST_BYTES, "{most_bytes}");
}

/// The same inputs by two workers, each with its own model, in another order: the same outputs.
#[rstest]
#[case::nlp("nlp")]
#[case::rs("rs")]
#[case::sr("sr")]
fn workers_compute_what_one_computes(#[case] workload: &str) {
    let folder = tempfile::tempdir().unwrap();
    let result = |arguments: &[&str]| {
        let common = ["--requests", "4", "--threads", "1", "--json"];
        json(&run(folder.path(), workload, &[arguments, &common].concat()))
    };
    let alone = result(&[]);
    let offline = result(&["--scenario", "offline", "--workers", "2"]);
    assert_eq!(offline["output_hash"], alone["output_hash"]);
    assert_ne!(offline["work_hash"], alone["work_hash"], "another scenario is another work");
}

/// The file of that number as the workload itself would make it.
fn file(workload: &str, place: u64) -> (&'static str, Vec<u8>) {
    match workload {
        "nlp" => ("txt", Vocabulary::new(1).file(1, place)),
        "rs" => ("tsv", clicks::file(1, place)),
        _ => ("wav", speech::file(1, place)),
    }
}

/// The tokens of the user's texts decide the work as much as the texts do.
#[test]
fn a_vocabulary_decides_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("texts")).unwrap();
    fs::write(at("texts/0.txt"), Vocabulary::new(1).file(1, 0)).unwrap();
    for seed in [1, 2] {
        fs::write(at(&format!("{seed}.vocab")), Vocabulary::new(seed).tokens.join("\n")).unwrap();
    }
    let hashes = |arguments: &[&str]| {
        let common = ["--data", "texts", "--requests", "1", "--warmup", "0", "--threads", "1", "--json"];
        let result = json(&run(folder.path(), "nlp", &[&common, arguments].concat()));
        ["work_hash", "output_hash"].map(|name| result[name].clone())
    };
    let of_seed = hashes(&[]);
    assert_eq!(hashes(&["--vocab", "1.vocab"]), of_seed, "the same tokens");
    let other = hashes(&["--vocab", "2.vocab"]);
    assert!(other[0] != of_seed[0] && other[1] != of_seed[1], "{other:?} {of_seed:?}");
}

#[rstest]
#[case::nlp("nlp", "a question in the first line and a passage behind it are expected")]
#[case::rs("rs", "line 2: 2 columns instead of 40, or 39 without the first")]
#[case::sr("sr", "it is no WAV file")]
fn a_broken_file_is_left_out_and_the_next_one_takes_its_place(#[case] workload: &str, #[case] reason: &str) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| fs::write(folder.path().join(name), content).unwrap();
    for name in ["broken", "whole"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let ((ending, first), (_, second)) = (file(workload, 1), file(workload, 2));
    let broken = match workload {
        // Its first line is good.
        "rs" => [first.split_inclusive(|byte| *byte == b'\n').next().unwrap(), b"1\t2\n"].concat(),
        _ => b"no such thing".to_vec(),
    };
    for (name, content) in [("0", &first), ("1", &broken), ("2", &second)] {
        write(&format!("broken/{name}.{ending}"), content);
    }
    for (name, content) in [("0", &first), ("1", &second), ("2", &second)] {
        write(&format!("whole/{name}.{ending}"), content);
    }
    let common = ["--requests", "4", "--batch", "2", "--warmup", "0", "--threads", "1"];
    let result = |data: &str, more: &[&str]| {
        run(folder.path(), workload, &[&["--data", data], &common[..], more].concat())
    };
    let (broken, said) = json_and_warnings(&result("broken", &["--json"]));
    let whole = json(&result("whole", &["--json"]));
    assert_eq!(broken["output_hash"], whole["output_hash"]);
    assert_eq!((&broken["skipped_files"], &whole["skipped_files"]), (&1.into(), &0.into()));
    let warning = "warning: not all could be used: 1 file or record left out";
    assert_eq!(said, format!("{warning}\n  broken/1.{ending}: {reason}\n"));
    let text = String::from_utf8(result("broken", &["--text"]).stdout).unwrap();
    assert!(text.contains("left out     1 file or record that could not be used"), "{text}");
}

#[rstest]
#[case::nlp_empty_folder("nlp", "nlp_empty_folder", &["--data", "empty"])]
#[case::nlp_no_passage("nlp", "nlp_no_passage", &["--data", "broken"])]
#[case::nlp_blank_passage("nlp", "nlp_blank_passage", &["--data", "blank"])]
#[case::nlp_other_vocabulary("nlp", "nlp_other_vocabulary", &["--data", "broken", "--vocab", "broken/input.txt"])]
#[case::nlp_absent_vocabulary("nlp", "nlp_absent_vocabulary", &["--data", "broken", "--vocab", "absent.txt"])]
#[case::nlp_vocabulary_of_made_texts("nlp", "nlp_vocabulary_of_made_texts", &["--vocab", "broken/input.txt"])]
#[case::nlp_other_weights("nlp", "nlp_other_weights", &["--weights", "other.safetensors"])]
#[case::sr_empty_folder("sr", "sr_empty_folder", &["--data", "empty"])]
#[case::sr_short_recording("sr", "sr_short_recording", &["--data", "broken"])]
#[case::sr_other_weights("sr", "sr_other_weights", &["--weights", "other.safetensors"])]
#[case::empty_folder("rs", "rs_empty_folder", &["--data", "empty"])]
#[case::no_records("rs", "rs_no_records", &["--data", "broken"])]
#[case::absent_weights("rs", "rs_absent_weights", &["--weights", "absent.safetensors"])]
#[case::weights_of_another_model("rs", "rs_other_weights", &["--weights", "other.safetensors"])]
#[case::no_scale("rs", "rs_no_scale", &["--scale", "0"])]
#[case::no_precision("rs", "rs_no_precision", &["--precision", "fp61"])]
fn says_what_is_wrong(#[case] workload: &str, #[case] snapshot: &str, #[case] arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["empty", "broken", "blank"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("blank/input.txt"), "Is this a question without a passage?\n \n").unwrap();
    fs::write(at("broken/input.tsv"), "1\t2\t3\n").unwrap();
    fs::write(at("broken/input.txt"), "Is this a question without a passage?").unwrap();
    fs::write(at("broken/input.wav"), guestscope_workloads::data::wav::write(&[1; 256])).unwrap();
    let value = 1.0_f32.to_le_bytes();
    let tensor = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1], &value).unwrap();
    fs::write(at("other.safetensors"), safetensors::serialize([("conv1.weight", tensor)], None).unwrap())
        .unwrap();

    let output = run(folder.path(), workload, arguments);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"");
    assert!(!at("workload.json").exists(), "nothing is told of a run that failed");
    insta::assert_snapshot!(snapshot, String::from_utf8(output.stderr).unwrap());
}
