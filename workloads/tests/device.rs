//! `--device` and what belongs to it, where no such graphics processor is: each workload with libtorch says
//! so, with a hint, before it computes anything.

use std::process::{Command, Output};

use rstest::rstest;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"))
        .args(arguments)
        .args(["--smoke", "--json"])
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .env("OMP_WAIT_POLICY", "passive")
        .env_remove("GUESTSCOPE_WORKLOAD_FILE")
        .output()
        .expect("cargo built the binary for this test")
}

fn refusal(arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = String::from_utf8(output.stderr).expect("all that is printed is UTF-8");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{said}");
    said
}

#[rstest]
#[case::neither(&["train", "mnist", "--blocking-sync"], "--blocking-sync")]
#[case::on_a_cpu(&["infer", "ic", "--device", "cpu", "--input-memory", "pinned"], "--input-memory")]
#[case::of_all_parts(&["train", "mnist", "--workers", "2", "--input-memory", "pageable"], "--input-memory")]
fn options_of_gpus_are_refused_on_a_cpu(#[case] arguments: &[&str], #[case] option: &str) {
    let expected = format!(
        "error: no graphics processor takes part, so there is no use of {option}\n\n\
         hint: give --device cuda, or leave it out\n"
    );
    assert_eq!(refusal(arguments), expected);
}

#[cfg(feature = "torch")]
mod with_libtorch {
    use rstest::rstest;
    use serde_json::Value;

    use super::{refusal, run};

    /// No machine has as many. Built against a libtorch without CUDA, the program says that instead.
    #[rstest]
    #[case(&["infer", "ic"])]
    #[case(&["infer", "nlp"])]
    #[case(&["infer", "rs"])]
    #[case(&["infer", "sr"])]
    #[case(&["train", "inception3"])]
    #[case(&["train", "resnet50"])]
    #[case(&["train", "alexnet"])]
    #[case(&["train", "alexnet-tf"])]
    #[case(&["train", "mnist"])]
    #[case(&["train", "mnist", "--workers", "2"])]
    #[case(&["infer", "ic", "--blocking-sync", "--input-memory", "pinned"])]
    fn a_gpu_that_is_not_here_is_said(#[case] arguments: &[&str]) {
        let said = refusal(&[arguments, &["--device", "cuda:4711"]].concat());
        let (error, hint) =
            said.split_once("\n\nhint: take --device cpu or auto, or ").expect("there is a hint");
        let is_so = error == "error: this build's libtorch has no CUDA: cuda:4711"
            || error.starts_with("error: no such device here: cuda:4711 (libtorch sees ");
        assert!(is_so && hint.ends_with('\n'), "{said}");
    }

    /// The first graphics processor if there is one, else the CPU, and then these options have no meaning.
    #[test]
    fn auto_takes_what_is_here() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("workload.json");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"))
            .args(["train", "mnist", "--smoke", "--json", "--threads", "1", "--device", "auto"])
            .args(["--blocking-sync", "--input-memory", "pinned"])
            .env("GUESTSCOPE_WORKLOAD_FILE", &told)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_slice(&std::fs::read(told).unwrap()).unwrap();
        let on_gpu = told["device"] != "cpu";
        assert_eq!(told.get("blocking_sync").is_some(), on_gpu, "{told}");
        assert_eq!(told.get("input_memory").is_some(), on_gpu, "{told}");
    }

    /// On a CPU inputs are not copied: the same numbers come out, and the same phases.
    #[test]
    fn a_cpu_does_the_same_whether_it_was_named_or_not() {
        let result = |arguments: &[&str]| -> Value {
            let output = run(&[&["infer", "ic", "--threads", "1", "--scale", "0.25"], arguments].concat());
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            serde_json::from_slice(&output.stdout).unwrap()
        };
        let (plain, named) = (result(&[]), result(&["--device", "cpu"]));
        for key in ["output_hash", "work_hash"] {
            assert_eq!(plain[key], named[key], "{key}");
        }
        let phases =
            |line: &Value| line["phases_ns"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(phases(&plain), phases(&named));
    }
}
