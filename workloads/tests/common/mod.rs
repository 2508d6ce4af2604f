//! What several tests of the program look at in the same way.

use std::process::Output;

use serde_json::Value;

/// What a run with `--json` printed; it ended well and said nothing else.
pub(crate) fn json(output: &Output) -> Value {
    let (json, said) = json_and_warnings(output);
    assert_eq!(said, "", "nothing but data where no terminal looks");
    json
}

/// What a run with `--json` printed, and what it warned of; it ended well.
pub(crate) fn json_and_warnings(output: &Output) -> (Value, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    (serde_json::from_slice(&output.stdout).expect("--json prints JSON"), said)
}
