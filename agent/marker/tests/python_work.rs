//! The hooks of work phases and of OpenTelemetry spans, by programs that use packages which look like the
//! real ones: each checks itself what is called of the marker library, and what comes out of the packages.
#![cfg(target_os = "linux")]

mod library;

use std::process::Command;

use rstest::rstest;

/// Says why a test had to be left out, in the form that the project's test verb counts.
#[expect(clippy::print_stdout, reason = "the test verb reads it there")]
fn skipped(name: &str, reason: &str) {
    println!("skipped: {name}: {reason}");
}

#[rstest]
#[case::training("training.py")]
#[case::work("work.py")]
#[case::engines("engines.py")]
#[case::vllm("vllm_engine.py")]
#[case::spans("spans.py")]
fn a_program_has_the_phases_of_its_libraries(#[case] program: &str) {
    let folder = library::package().join("tests/python_work");
    let path = format!("{}:{}", library::package().join("python").display(), folder.display());
    let mut python = Command::new("python3");
    python.arg(folder.join(program)).env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env_remove("GUESTSCOPE_MARK").env_remove("GUESTSCOPE_PYTHON").env_remove("GUESTSCOPE_ROUTES");
    let Ok(output) = python.output() else { return skipped(program, "there is no python3") };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}
