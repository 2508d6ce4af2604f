//! What a person sees of `guestscope-workloads`: help, the table, and the errors that need no libtorch.
//! `ic.rs` checks the numbers of a real run.

use std::process::{Command, Output};

use rstest::rstest;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guestscope-workloads"))
        .args(arguments)
        // Without a terminal, help is wrapped at this width.
        .env_remove("COLUMNS")
        .output()
        .expect("cargo built the binary for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("all that is printed is UTF-8")
}

#[rstest]
#[case::all("help", &["--help"])]
#[case::ic("help_ic", &["infer", "ic", "--help"])]
#[case::infer("help_infer", &["infer", "--help"])]
#[case::nlp("help_nlp", &["infer", "nlp", "--help"])]
#[case::rs("help_rs", &["infer", "rs", "--help"])]
#[case::sr("help_sr", &["infer", "sr", "--help"])]
#[case::infer_loop("help_loop", &["infer", "loop", "--help"])]
#[case::train("help_train", &["train", "--help"])]
#[case::shards("help_shards", &["shards", "--help"])]
#[case::stall("help_stall", &["stall", "--help"])]
#[case::h2o("help_h2o", &["h2o", "--help"])]
#[case::h2o_generate("help_h2o_generate", &["h2o", "generate", "--help"])]
#[case::h2o_parse("help_h2o_parse", &["h2o", "parse", "--help"])]
#[case::h2o_glm("help_h2o_glm", &["h2o", "glm", "--help"])]
#[case::h2o_mlp("help_h2o_mlp", &["h2o", "mlp", "--help"])]
#[case::list("list", &["list"])]
#[case::list_json("list_json", &["list", "--json"])]
fn prints(#[case] snapshot: &str, #[case] arguments: &[&str]) {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
    insta::assert_snapshot!(snapshot, text(&output.stdout));
}

#[rstest]
#[case::no_requests("no_requests", &["infer", "ic", "--requests", "0"])]
#[case::batch_too_large("batch_too_large", &["infer", "ic", "--batch", "5000"])]
#[case::unknown_workload("unknown_workload", &["infer", "icc"])]
#[case::unknown_option("unknown_option", &["infer", "ic", "--thread", "2"])]
#[case::unknown_step("unknown_step", &["h2o", "gml"])]
#[case::unknown_fault("unknown_fault", &["stall", "slep"])]
#[case::unknown_addition("unknown_addition", &["stall", "sleep", "--and", "lok:20ms"])]
#[case::unknown_addition_unlike_any("unknown_addition_unlike_any", &["stall", "sleep", "--and", "xyz"])]
#[case::unknown_beside("unknown_beside", &["h2o", "glm", "--beside", "h2o pars"])]
fn refuses(#[case] snapshot: &str, #[case] arguments: &[&str]) {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    insta::assert_snapshot!(snapshot, text(&output.stderr));
}

#[cfg(not(feature = "torch"))]
#[test]
fn says_how_to_get_libtorch() {
    let output = run(&["infer", "ic", "--smoke"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    insta::assert_snapshot!("no_torch", text(&output.stderr));
}
