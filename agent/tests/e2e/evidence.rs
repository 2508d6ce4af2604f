//! The script that asks a real card, `agent/gpu/evidence/measure.py`, on the stubs: it comes to its end, says
//! what it found, and fails where the agent says nothing of GPUs.

use std::{ffi::OsStr, process::Command};

use rstest::rstest;

use crate::ground::{Ground, example, file, python};

/// Rows that say what the agent named; the others depend on how busy the machine is.
const NAMED: [&str; 2] = ["batch 1 ", "two processes "];
/// What was recorded inside the program does not depend on NVML.
const RECORDED: &str = "batch 128, recorded: kernels ";

#[rstest]
#[case::with_the_driver(None, "yes")]
#[case::with_drivers_left_alone(Some("off"), "NO")]
fn the_script_for_a_card_can_fail(#[case] nvml: Option<&str>, #[case] holds: &str) {
    let test = "evidence::the_script_for_a_card_can_fail";
    let Some(ground) = Ground::new(test) else { return };
    let Some(python) = python(test) else { return };
    let library = ground.path("libcuda.so.1");
    std::fs::copy(example("libcuda_stub.so"), &library).expect("the place is ours");
    let of_card = example("libnvidia_ml_stub.so");
    let mut command = Command::new(&python);
    command.arg(file("gpu/evidence/measure.py")).arg("--quick").arg("--python").arg(&python);
    command.arg("--guestscope").arg(ground.agent()).arg("--stub").arg(&library);
    command.arg("--cupti").arg(example("libcupti_stub.so"));
    command.arg("--nvml").arg(nvml.map_or(of_card.as_os_str(), OsStr::new));
    let done = command.env("TMPDIR", ground.path("")).output().expect("it starts");
    let (told, why) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(matches!(done.status.code(), Some(0 | 1)), "{told}{why}");
    for begin in NAMED {
        let row = told.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{told}{why}"));
        assert!(row.ends_with(holds), "{told}{why}");
    }
    let recorded = told.lines().find(|line| line.starts_with(RECORDED));
    assert!(recorded.is_some_and(|row| row.ends_with("yes")), "{told}{why}");
    let rows = told.lines().filter(|line| line.ends_with("yes") || line.ends_with("NO")).count();
    assert_eq!(rows, 12, "{told}");
}
