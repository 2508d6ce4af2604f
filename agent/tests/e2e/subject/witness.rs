//! Roles that read the clocks of their observer directly before and after each edge.
//!
//! They note readings; the test decides whether these agree with the agent's.

use std::{io::Read as _, time::Duration};

use crate::{burn, clock_ns, note, number, request};

/// The kernel's numbers for this thread, ns: time, CPU time, waiting for a CPU.
fn reading() -> [u64; 3] {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("this kernel has it");
    let run_delay = schedstat.split(' ').nth(1).and_then(|number| number.parse().ok());
    let clocks = [libc::CLOCK_MONOTONIC, libc::CLOCK_THREAD_CPUTIME_ID].map(clock_ns);
    [clocks[0], clocks[1], run_delay.expect("its second number")]
}

/// `witness N WORK_US SLEEP_US`: N requests with one phase each. Notes a line for each: readings before its
/// start, after it, before its end and after that, and the involuntary switches so far.
pub(crate) fn witness(arguments: &[String]) {
    let (work, sleep) = (number(arguments, 1), number(arguments, 2));
    // The first edge waits for the agent.
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

/// `burst N`: a request, then waits for a byte of standard input, then N requests without a pause.
pub(crate) fn burst(arguments: &[String]) {
    request("first", 0, Duration::ZERO);
    note("ready");
    let mut byte = [0];
    std::io::stdin().read_exact(&mut byte).expect("the test sends a byte");
    (1..=number(arguments, 0)).for_each(|at| request("request", at, Duration::ZERO));
    note("done");
}
