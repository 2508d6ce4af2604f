//! Roles that look at the same clocks as their observer, right beside each edge.
//!
//! What is noted are readings; whether they agree is the test's to say.

use std::{io::Read as _, time::Duration};

use crate::{burn, clock_ns, note, number, request};

/// What the kernel tells this thread of itself, ns: time, CPU time, waits for a CPU.
fn reading() -> [u64; 3] {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("this kernel has it");
    let run_delay = schedstat.split(' ').nth(1).and_then(|number| number.parse().ok());
    let clocks = [libc::CLOCK_MONOTONIC, libc::CLOCK_THREAD_CPUTIME_ID].map(clock_ns);
    [clocks[0], clocks[1], run_delay.expect("its second number")]
}

/// `witness N WORK_US SLEEP_US`: requests from 1 to N with one phase; a line for each: readings before its
/// begin, after it, before its end and after that, and how often the thread had to leave its CPU by then.
pub(crate) fn witness(arguments: &[String]) {
    let (work, sleep) = (number(arguments, 1), number(arguments, 2));
    // The first edge waits for its observer.
    request("first", 0, Duration::ZERO);
    for at in 1..=number(arguments, 0) {
        let _request = guestscope_marker::request("request", at);
        let before = reading();
        let phase = guestscope_marker::phase("work");
        let begun = reading();
        burn(Duration::from_micros(work));
        if sleep > 0 {
            std::thread::sleep(Duration::from_micros(sleep));
        }
        let ending = reading();
        phase.end();
        let after = reading();
        let numbers = [before, begun, ending, after].concat().into_iter().map(|number| number.to_string());
        note(&format!("{at} {}", numbers.collect::<Vec<String>>().join(" ")));
    }
    note("done");
}

/// `burst N`: a request, then a byte of standard input is waited for, then N requests as fast as they come.
pub(crate) fn burst(arguments: &[String]) {
    request("first", 0, Duration::ZERO);
    note("ready");
    let mut byte = [0];
    std::io::stdin().read_exact(&mut byte).expect("the test sends a byte");
    (1..=number(arguments, 0)).for_each(|at| request("request", at, Duration::ZERO));
    note("done");
}
