//! A guest is stopped from outside while marked threads run: the pause is named, with the size that the
//! stopper measured by its own clock.

use guestscope::analyze::Cause;

use crate::{
    disposable::is_ours,
    ground::{Ground, skipped, variable},
    truth::{ATTEMPTS, EVERY, Row, Run, Truth, keep, workloads},
};

#[test]
fn a_pause_is_named_first_with_its_size() {
    let test = "pauses::a_pause_is_named_first_with_its_size";
    if !is_ours(test) {
        return;
    }
    if variable("GUESTSCOPE_STOPPER").is_none() {
        return skipped(test, "only in the guest `stopped`, whose clocks are real");
    }
    let Some(workloads) = workloads(test, "pause") else { return };
    for size in ["100ms", "300ms"] {
        for attempt in 1..=ATTEMPTS {
            let Some(ground) = Ground::new(test) else { return };
            let seed = attempt.to_string();
            let words = ["pause", "--size", size, "--every", EVERY, "--seed", &seed];
            let run = Run::on(&ground, &workloads, &words);
            let row = Row::of(&run, "pause", format!("pause {size}"), (Cause::Pause, Truth::Injected));
            keep(row.text());
            if row.holds() {
                break;
            }
            assert!(attempt < ATTEMPTS, "every time, the last: {}", row.text());
        }
    }
}
