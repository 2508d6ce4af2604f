//! Checks of the program that several tests share.

use std::process::Output;

use serde_json::Value;

/// The JSON of a run with `--json`; it succeeded without any warning.
pub(crate) fn json(output: &Output) -> Value {
    let (json, said) = json_and_warnings(output);
    assert_eq!(said, "", "nothing but data where no terminal looks");
    json
}

/// The JSON and the warnings of a run with `--json`; it succeeded.
pub(crate) fn json_and_warnings(output: &Output) -> (Value, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    (serde_json::from_slice(&output.stdout).expect("--json prints JSON"), said)
}
