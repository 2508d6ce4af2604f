//! What several tests of the program look at in the same way.

use std::process::Output;

use serde_json::Value;

/// What a run with `--json` printed; it ended well and said nothing else.
pub(crate) fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stderr, b"", "nothing but data where no terminal looks");
    serde_json::from_slice(&output.stdout).expect("--json prints JSON")
}
