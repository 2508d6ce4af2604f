//! Role `waits`: phases that wait, each for one thing, and one that waits often.
//!
//! It does not measure its waits: the kernel does.

use std::{
    sync::{Barrier, Mutex},
    thread::sleep,
    time::Duration,
};

use crate::{note, number};

/// Long compared with what a neighbour takes.
const LONG: Duration = Duration::from_millis(20);
/// Above the agent's default threshold.
const SHORT: Duration = Duration::from_micros(300);

/// `waits N`: N requests, each with a phase that sleeps and waits for a lock in an inner phase, and a phase
/// with 60 short sleeps.
pub(crate) fn waits(arguments: &[String]) {
    for at in 1..=number(arguments, 0) {
        let _request = guestscope_marker::request("request", at);
        {
            let _phase = guestscope_marker::phase("asleep");
            sleep(LONG);
            let _inner = guestscope_marker::phase("locked_out");
            locked_out();
        }
        let _phase = guestscope_marker::phase("restless");
        (0..60).for_each(|_| sleep(SHORT));
    }
    note("done");
}

/// Waits for a lock that another thread holds.
fn locked_out() {
    let (lock, held) = (Mutex::new(()), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = lock.lock();
            held.wait();
            sleep(LONG);
        });
        held.wait();
        drop(lock.lock());
    });
}
