//! Threads that are kept from running until somebody lets them go on.

use insta::assert_snapshot;

use super::play;

/// Thread 11 slept before it let thread 10 go on, which did not wait for it.
#[test]
fn who_lets_a_stopped_thread_go_on_was_not_waited_for() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1
        180 10/11 wait sleep from=120 ready=179
        200 10/10 wait other from=110 ready=190 waker=11 by=write stopped=1
        210 10/10 wait other from=205 ready=209 waker=11 by=write stopped=2
        220 10/10 wait other from=215 ready=219 waker=11 by=write stopped=4
        300 10/10 end 262144
    "), @"
    wait behind stress  10/11  120..180  outside, sleep 59, runq 1
    wait behind stress  10/10  110..200  in phase 1 of 1, other 80, runq 10, stopped by signal, woken by 11 (cat)
    wait behind stress  10/10  205..210  in phase 1 of 1, other 4, runq 1, stopped by debugger, woken by 11 (cat)
    wait behind stress  10/10  215..220  in phase 1 of 1, other 4, runq 1, stopped by freezer, woken by 11 (cat)
    request job #1      10/10  100..300  cpu 200, stopped_ns 88, helper's runq while waiting 1
    ");
}
