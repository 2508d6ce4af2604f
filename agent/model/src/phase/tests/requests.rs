//! How phases nest, move, are suspended and end: one script per shape.

use super::play;

#[test]
fn a_request_with_three_phases() {
    let printed = play(
        "
        100 10/10 request 1 classify #7
        102 10/10 begin 2 preprocess
        150 10/10 end 2                    +fault 8 +minor 3 +voluntary 1
        152 10/10 begin 3 inference
        250 10/10 end 3                    +runq 10 +throttled 20 +involuntary 2 +migrations 1
        252 10/10 begin 4 postprocess
        260 10/10 end 4
        261 10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request classify #7     10/10  100..261  cpu 123, runq 10, throttled 20, fault 8, switch.voluntary 1, switch.involuntary 2, migrate.llc 1, fault.minor 3
      phase preprocess #7   10/10  102..150  cpu 40, fault 8, switch.voluntary 1, fault.minor 3
      phase inference #7    10/10  152..250  cpu 68, runq 10, throttled 20, switch.involuntary 2, migrate.llc 1
      phase postprocess #7  10/10  252..260  cpu 8
    ");
}

/// 262144 is a root, and 262145 to 262147 are phases of it.
#[test]
fn phases_that_join_leave_no_gap() {
    let printed = play(
        "
        100 10/10 request 262144 classify #7 @60
        103 10/10 begin 262145 preprocess after=262144 +runq 2
        150 10/10 begin 262146 inference after=262145  +fault 8 +minor 3 +voluntary 1
        250 10/10 begin 262147 postprocess after=262146 +runq 10
        261 10/10 end 262144 with=262147",
    );
    insta::assert_snapshot!(printed, @"
    request classify #7     10/10  100..261  cpu 141, runq 12, fault 8, switch.voluntary 1, fault.minor 3
      queue queue #7               60..100
      phase preprocess #7   10/10  100..150  cpu 40, runq 2, fault 8, switch.voluntary 1, fault.minor 3
      phase inference #7    10/10  150..250  cpu 90, runq 10
      phase postprocess #7  10/10  250..261  cpu 11
    ");
}

/// No time is left out or counted twice where a program, or a damaged record, claims the impossible.
#[test]
fn what_cannot_join_begins_where_it_is_seen() {
    let printed = play(
        "
        0  10/10 request 262144 a #1
        10 10/10 begin 262145 one after=262144
        20 10/10 begin 262146 afterwards after=262144
        30 10/10 end 262146 with=262145
        35 10/10 end 262145
        40 10/10 begin 262147 again after=262144
        50 10/10 begin 262148 behind-what-is-gone after=262145
        60 10/10 end 262148
        70 10/11 begin 262149 elsewhere after=262144
        80 10/11 end 262149
        90 10/10 end 262144",
    );
    insta::assert_snapshot!(printed, @"
    request elsewhere                 10/11  70..80  cpu 10
    request a #1                      10/10  0..90   cpu 90
      phase one #1                    10/10  0..30   cpu 30
        phase afterwards #1           10/10  20..30  cpu 10, lost
      phase again #1                  10/10  40..90  cpu 50, lost
        phase behind-what-is-gone #1  10/10  50..60  cpu 10
    losses: unmatched ends 3, unended phases 2
    ");
}

#[test]
fn nested_phases_count_for_each_one_around_them() {
    let printed = play(
        "
        0  10/10 begin 1 outer
        10 10/10 begin 2 middle #5          +net 10
        30 10/10 begin 3 inner              +lock 5
        60 10/10 end 3                      +block_io 30 +major 1 +voluntary 1 +wakeups 1
        65 10/10 end 2
        99 10/10 end 1                      +sleep 1",
    );
    insta::assert_snapshot!(printed, @"
    request outer      10/10  0..99   cpu 53, block_io 30, net 10, lock 5, sleep 1, switch.voluntary 1, wakeup 1, fault.major 1
      phase middle #5  10/10  10..65  cpu 20, block_io 30, lock 5, switch.voluntary 1, wakeup 1, fault.major 1
        phase inner    10/10  30..60  block_io 30, switch.voluntary 1, wakeup 1, fault.major 1
    ");
}

#[test]
fn end_0_is_the_innermost() {
    let printed = play(
        "
        0  10/10 begin 1 outer
        10 10/10 begin 2 inner
        20 10/10 end 0
        30 10/10 end 0
        40 10/10 end 0",
    );
    insta::assert_snapshot!(printed, @"
    request outer  10/10  0..30   cpu 30
      phase inner  10/10  10..20  cpu 10
    losses: unmatched ends 1
    ");
}

#[test]
fn a_request_within_a_phase_is_a_trace_of_its_own() {
    let printed = play(
        "
        0  10/10 begin 1 serve
        10 10/10 request 2 classify #1
        15 10/10 begin 3 decode
        20 10/10 end 3
        30 10/10 end 2
        35 10/10 begin 4 log
        40 10/10 end 4
        50 10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request classify #1  10/10  10..30  cpu 20
      phase decode #1    10/10  15..20  cpu 5
    request serve        10/10  0..50   cpu 50
      phase log          10/10  35..40  cpu 5
    ");
}

#[test]
fn tasks_that_take_turns_on_a_thread_are_each_charged_their_own() {
    let printed = play(
        "
        0   10/10 request 100 first #1
        10  10/10 begin 101 download
        20  10/10 leave 101
        20  10/10 leave 100
        25  10/10 request 200 second #2
        45  10/10 leave 200                 +net 20
        50  10/10 enter 100
        50  10/10 enter 101
        60  10/10 end 101
        70  10/10 end 100
        70  10/10 enter 200
        75  10/10 begin 201 decode
        80  10/10 end 201                   +runq 5
        90  10/10 end 200",
    );
    insta::assert_snapshot!(printed, @"
    request first #1     10/10  0..70   cpu 40, suspended 30
      phase download #1  10/10  10..60  cpu 20, suspended 30
    request second #2    10/10  25..90  cpu 15, runq 5, net 20, suspended 25
      phase decode #2    10/10  75..80  runq 5
    ");
}

#[test]
fn a_phase_that_moves_to_another_thread() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        100 10/10 begin 1 job
        120 10/10 leave 1                   +runq 5
        150 10/11 enter 1                   +sleep 140
        160 10/11 begin 2 part
        170 10/11 end 2                     +poll 10
        180 10/11 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request job   10/10  100..180  cpu 35, runq 5, poll 10, suspended 30
      phase part  10/11  160..170  poll 10
    ");
}

#[test]
fn a_phase_on_two_threads_without_leave_is_charged_to_neither_in_between() {
    let printed = play(
        "
        0   10/10 begin 1 stolen
        0   10/11 mark hello
        50  10/11 enter 1                   +lock 50
        60  10/11 end 1                     +lock 10
        70  10/10 begin 2 ended-elsewhere
        80  10/11 end 2                     +sleep 20
        90  10/10 end 0",
    );
    insta::assert_snapshot!(printed, @"
    mark hello               10/11  0       outside
    request stolen           10/10  0..60   lock 10, suspended 50
    request ended-elsewhere  10/10  70..80  suspended 10
    losses: unmatched ends 1
    ");
}

#[test]
fn leave_and_enter_twice_count_once() {
    let printed = play(
        "
        0   10/10 begin 1 job
        10  10/10 leave 1
        20  10/10 leave 1
        30  10/10 enter 1
        40  10/10 enter 1                   +runq 2
        45  10/10 enter 0
        50  10/10 end 1
        60  10/10 enter 1
        70  10/10 leave 1
        80  10/10 enter 0",
    );
    insta::assert_snapshot!(printed, @"
    request job  10/10  0..50  cpu 28, runq 2, suspended 20
    losses: unmatched ends 4
    ");
}

#[test]
fn the_phase_around_ends_what_is_still_open_in_it() {
    // The end of `inner` never came; once its parent has ended on the same thread, it cannot come any more.
    let printed = play(
        "
        0   10/10 begin 1 outer
        10  10/10 begin 2 middle
        20  10/10 begin 3 inner
        25  10/10 end 3 lost
        30  10/10 end 2 lost
        50  10/10 end 1
        60  10/10 begin 4 next
        70  10/10 end 4",
    );
    insta::assert_snapshot!(printed, @"
    request outer    10/10  0..50   cpu 50, edges lost 2
      phase middle   10/10  10..50  cpu 40, edges lost 2, lost
        phase inner  10/10  20..50  cpu 30, edges lost 2, lost
    request next     10/10  60..70  cpu 10
    losses: edges lost 2, unended phases 2
    ");
}

#[test]
fn a_phase_that_is_left_takes_what_is_open_in_it_along() {
    // `inner` was not left: its time must not go on beside its parent's, nor include what follows.
    let printed = play(
        "
        0   10/10 request 1 outer
        10  10/10 begin 2 inner
        20  10/10 leave 1
        30  10/10 begin 3 other
        40  10/10 end 3
        50  10/10 enter 1
        60  10/10 end 2
        70  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request other  10/10  30..40  cpu 10
    request outer  10/10  0..70   cpu 40, suspended 30
      phase inner  10/10  10..60  cpu 10, suspended 40
    ");
}

#[test]
fn overlapping_requests_of_one_thread_do_not_end_each_other() {
    let printed = play(
        "
        0   10/10 request 1 first
        10  10/10 request 2 second
        20  10/10 end 1
        30  10/10 end 2",
    );
    insta::assert_snapshot!(printed, @"
    request first   10/10  0..20   cpu 20
    request second  10/10  10..30  cpu 20
    ");
}

#[test]
fn a_child_on_another_thread_may_outlive_its_parent() {
    let printed = play(
        "
        0   10/10 request 1 parent
        10  10/10 begin 2 child
        20  10/10 leave 2
        25  10/10 end 1
        40  10/11 enter 2
        60  10/11 end 2                     +runq 5",
    );
    insta::assert_snapshot!(printed, @"
    request parent  10/10  0..25   cpu 25
      phase child   10/10  10..60  cpu 25, runq 5, suspended 20
    ");
}

#[test]
fn a_scheduled_request_waits_in_a_queue_that_is_nobodys_time() {
    let printed = play(
        "
        1000 10/10 request 1 infer #1 @400
        1010 10/10 begin 2 run
        1020 10/10 end 2
        1030 10/10 end 1
        2000 10/10 request 3 early #2 @2500
        2010 10/10 end 3
        3000 10/10 request 4 on-time #3 @3000
        3010 10/10 end 4",
    );
    insta::assert_snapshot!(printed, @"
    request infer #1    10/10  1000..1030  cpu 30
      queue queue #1           400..1000
      phase run #1      10/10  1010..1020  cpu 10
    request early #2    10/10  2000..2010  cpu 10
    request on-time #3  10/10  3000..3010  cpu 10
    ");
}

#[test]
fn a_token_used_again_ends_its_last_use() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        10  10/10 begin 1 first
        50  10/10 begin 1 second            +runq 4
        60  10/10 end 1
        70  10/11 begin 9 there             +sleep 69
        90  10/10 begin 9 here              +net 25
        95  10/10 end 9",
    );
    insta::assert_snapshot!(printed, @"
    request first   10/10  10..50  cpu 36, runq 4, lost
    request second  10/10  50..60  cpu 10
    request there   10/11  70..90  suspended 20, lost
    request here    10/10  90..95  cpu 5
    losses: unended phases 2
    ");
}

#[test]
fn two_copies_of_the_library_in_a_process_have_tokens_and_numbers_of_their_own() {
    let printed = play(
        "
        0   10/10 begin 1 python lib=1
        10  10/10 begin 1 torch  lib=2
        20  10/10 end 1          lib=2
        30  10/10 begin 2 torch  lib=2
        40  10/10 end 0          lib=1
        50  10/10 end 1          lib=1",
    );
    insta::assert_snapshot!(printed, @"
    request python  10/10  0..50   cpu 50
      phase torch   10/10  10..20  cpu 10
      phase torch   10/10  30..40  cpu 10
    ");
}

#[test]
fn one_number_in_two_processes_is_two_phases() {
    let printed = play(
        "
        0   10/10 begin 1 ten
        5   20/20 begin 1 twenty
        30  20/20 end 1
        40  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request twenty  20/20  5..30  cpu 25
    request ten     10/10  0..40  cpu 40
    ");
}

#[test]
fn marks_name_the_phase_around_them() {
    let printed = play(
        "
        0   10/10 mark start
        10  10/10 begin 1 step
        15  10/10 mark middle
        20  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    mark start    10/10  0       outside
    mark middle   10/10  15      in phase 1
    request step  10/10  10..20  cpu 10
    ");
}

#[test]
fn clocks_that_step_back_between_threads_cost_no_invariant() {
    // The thread that takes over has a CPU whose clock is 3 ns behind.
    let printed = play(
        "
        100 10/10 begin 1 job
        110 10/10 leave 1
        107 10/11 enter 1
        120 10/11 end 1                     +runq 6",
    );
    insta::assert_snapshot!(printed, @"
    request job  10/10  100..120  cpu 14, runq 6
    ");
}
