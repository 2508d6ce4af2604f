//! A CPU is taken away and comes back while marked threads run: they are moved, and none of their time is
//! lost.

use std::{fs, path::Path, thread::sleep, time::Duration};

use crate::{
    disposable::{holds_while, is_ours},
    ground::skipped,
};

const SWITCH: &str = "/sys/devices/system/cpu/cpu1/online";
/// Time before and after each change: some requests run with both CPUs, some with one.
const BETWEEN: Duration = Duration::from_millis(50);

#[test]
fn cpus_come_and_go() {
    let test = "hotplug::cpus_come_and_go";
    if !is_ours(test) {
        return;
    }
    if !Path::new(SWITCH).exists() {
        return skipped(test, "this kernel cannot take a CPU away");
    }
    let cycle = || {
        for state in ["0", "1"] {
            fs::write(SWITCH, state).expect("root may switch a CPU off and on");
            sleep(BETWEEN);
        }
        1
    };
    holds_while(test, cycle, |_| {});
    assert_eq!(fs::read_to_string(SWITCH).expect("it is there").trim(), "1", "both CPUs are back");
}
