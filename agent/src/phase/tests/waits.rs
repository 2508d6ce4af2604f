//! Long waits: which phase they lie in, and what damaged ones are cut to.

use insta::assert_snapshot;

use super::play;

#[test]
fn a_wait_lies_in_the_innermost_phase_of_its_thread() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 request 262144 job #1
        110 10/10 wait runq from=105
        120 10/10 begin 262145 inner
        150 10/10 wait lock from=125 ready=140 waker=11
        160 10/10 end 262145
        190 10/10 wait runq from=165 throttled=20
        200 10/10 end 262144
        230 10/10 wait sleep from=205 ready=228
    "), @"
    wait behind stress  10/10  105..110  in phase 1 of 1, runq 5
    wait behind stress  10/10  125..150  in phase 2 of 1, lock 15, runq 10, woken by 11
    wait behind stress  10/10  165..190  in phase 1 of 1, runq 5, throttled 20
    request job #1      10/10  100..200  cpu 100
      phase inner #1    10/10  120..160  cpu 40
    wait behind stress  10/10  205..230  outside, sleep 23, runq 2
    ");
}

#[test]
fn a_wait_of_another_thread_lies_in_no_phase() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1
        150 10/11 wait lock from=120 ready=149
        200 10/10 end 262144
    "), @"
    wait behind stress  10/11  120..150  outside, lock 29, runq 1
    request job #1      10/10  100..200  cpu 100, helper's runq while on cpu 1
    ");
}

#[test]
fn what_a_damaged_wait_claims_is_cut_to_it() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 wait lock from=150 ready=20 throttled=70
        200 10/10 wait lock from=150 ready=900 throttled=70
        300 10/10 wait nonsense from=250 ready=260 throttled=70
    "), @"
    wait behind stress  10/10  150..150  outside
    wait behind stress  10/10  150..200  outside, lock 50
    wait behind stress  10/10  250..300  outside, other 10, throttled 40
    ");
}
