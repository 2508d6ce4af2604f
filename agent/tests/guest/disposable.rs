//! A disposable machine, and runs of a stall while the machine is disturbed.
//!
//! Yields the truth suite's result and the run folder. Nothing is disturbed unless `cargo xtask vm` says that
//! this is a guest of its own.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use guestscope::analyze::Cause;
use guestscope_contract::Account;

use crate::{
    folder::{Seen, only_folder},
    ground::{Ground, skipped, variable},
    truth::{ATTEMPTS, EVERY, Row, Run, Truth, keep, workloads},
};

/// Two threads, two faults: both must be found whatever is done to the machine.
const FAULTS: [&str; 5] = ["lock", "--size", "30ms", "--and", "sleep:20ms"];

/// Whether this is a guest that is thrown away afterwards.
pub(crate) fn is_ours(test: &str) -> bool {
    let ours = variable("GUESTSCOPE_DISPOSABLE").is_some();
    if !ours {
        skipped(test, "only in a guest of `cargo xtask vm`");
    }
    ours
}

/// Ends the disturbance, also if the run fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Repeats a stall, while `disturb` runs in a thread of its own, until its faults are named with their sizes;
/// `check` gets every run. `disturb` returns how often it disturbed.
pub(crate) fn holds_while(test: &str, disturb: impl Fn() -> u64 + Sync, check: impl Fn(&Seen)) {
    let Some(workloads) = workloads(test, FAULTS[0]) else { return };
    for attempt in 1..=ATTEMPTS {
        let Some(ground) = Ground::new(test) else { return };
        let seed = attempt.to_string();
        let more = ["--every", EVERY, "--seed", &seed];
        let words: Vec<&str> = FAULTS.into_iter().chain(more).collect();
        let is_over = AtomicBool::new(false);
        let (run, times) = thread::scope(|scope| {
            let disturber = scope.spawn(|| {
                let mut times = 0;
                while !is_over.load(SeqCst) {
                    times += disturb();
                }
                times
            });
            let over = Over(&is_over);
            let run = Run::on(&ground, &workloads, &words);
            drop(over);
            (run, disturber.join().expect("what disturbs does not panic"))
        });
        assert!(times >= 2, "{test}: it was disturbed: {times} times");
        check(&Seen::read(&only_folder(&ground.path("runs"))));
        let row = |kind, account| {
            let what = format!("{kind}, {times} times {}", test.rsplit("::").next().unwrap_or(test));
            Row::of(&run, kind, what, (Cause::Account(account), Truth::Injected))
        };
        let (lock, sleep) = (row("lock", Account::Lock), row("sleep", Account::Sleep));
        for row in [&lock, &sleep] {
            keep(row.text());
        }
        if lock.holds() && sleep.is_sized() {
            return;
        }
        assert!(attempt < ATTEMPTS, "every time, the last:\n{}\n{}", lock.text(), sleep.text());
    }
}
