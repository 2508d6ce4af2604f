//! Several threads inside one phase at a time, as pools, tasks and event loops do it.

use rstest::rstest;

use super::play;

/// The pool's thread is there before the loop's has left: the loop's time is its own, the pool's comes behind
/// it.
#[test]
fn a_thread_that_enters_too_early_goes_on_where_the_other_leaves() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        100 10/10 request 262144 get #1
        120 10/11 enter 262144              +poll 119
        130 10/10 leave 262144              +runq 5
        140 10/11 begin 393217 model        +lock 10
        190 10/11 end 393217                +runq 20
        200 10/11 leave 262144
        210 10/10 enter 262144              +poll 80
        220 10/10 end 262144",
    );
    insta::assert_snapshot!(printed, @"
    request get #1    10/10  100..220  cpu 75, runq 25, lock 10, suspended 10
      phase model #1  10/11  140..190  cpu 30, runq 20
    ");
}

/// Most of the pool's wait lies behind the loop's leave, and all of it is for the phase.
#[test]
fn a_wait_that_began_before_the_other_left_is_of_the_phase() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        100 10/10 request 262144 get #1
        120 10/11 enter 262144              +poll 119
        130 10/10 leave 262144              +runq 5
        190 10/11 wait sleep from=125 ready=190
        200 10/11 leave 262144              +sleep 65
        210 10/10 enter 262144              +poll 80
        220 10/10 end 262144",
    );
    insta::assert_snapshot!(printed, @"
    wait behind stress  10/11  125..190  in phase 1 of 1, sleep 65
    request get #1      10/10  100..220  cpu 50, runq 5, sleep 55, suspended 10
    ");
}

/// Two calls in the pool at once: each moment is one thread's, and both threads' phases are inside.
#[test]
fn two_threads_at_once_have_phases_in_one_request() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        1   10/12 fork 10/10
        100 10/10 request 262144 get #1
        110 10/10 leave 262144
        120 10/11 enter 262144              +lock 119
        125 10/12 enter 262144              +lock 124
        130 10/11 begin 393217 one
        135 10/12 begin 393218 two
        150 10/11 end 393217
        155 10/11 leave 262144
        180 10/12 end 393218                +runq 20
        190 10/12 leave 262144
        200 10/10 enter 262144              +poll 90
        210 10/10 end 262144",
    );
    insta::assert_snapshot!(printed, @"
    request get #1  10/10  100..210  cpu 70, runq 20, suspended 20
      phase one #1  10/11  130..150  cpu 20
      phase two #1  10/12  135..180  cpu 25, runq 20
    ");
}

/// A task of the request runs on the loop while a call of it is in the pool; the call outlives the request.
#[test]
fn a_call_that_nobody_waits_for_ends_behind_its_request() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        100 10/10 request 262144 get #1
        110 10/10 leave 262144
        120 10/11 enter 262144              +lock 119
        130 10/10 enter 262144
        140 10/10 leave 262144
        150 10/10 enter 262144
        160 10/10 end 262144
        170 10/11 begin 393217 behind
        180 10/11 end 393217
        190 10/11 leave 262144",
    );
    insta::assert_snapshot!(printed, @"
    request get #1  10/10  100..160  cpu 20, suspended 40
    request behind  10/11  170..180  cpu 10
    ");
}

/// A thread waits for its own pool inside its request (WSGI): the request stays its own.
#[test]
fn a_thread_that_stays_inside_keeps_the_request() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        100 10/10 request 262144 get #1
        120 10/11 enter 262144              +lock 119
        130 10/11 begin 393217 part
        150 10/11 end 393217
        160 10/11 leave 262144
        170 10/10 end 262144                +lock 60",
    );
    insta::assert_snapshot!(printed, @"
    request get #1   10/10  100..170  cpu 10, lock 60
      phase part #1  10/11  130..150  cpu 20
    ");
}

/// What was entered first lies outermost, whatever is handed over first.
#[test]
fn nested_phases_keep_their_order_on_the_thread_that_they_come_to() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        100 10/10 request 262144 get #1
        105 10/10 begin 262145 inference
        110 10/11 enter 262144              +lock 109
        111 10/11 enter 262145
        112 10/11 begin 393217 early
        120 10/10 leave 262145
        121 10/10 leave 262144
        130 10/11 end 393217
        135 10/11 begin 393218 deep
        140 10/11 end 393218
        150 10/11 leave 262145
        150 10/11 leave 262144
        160 10/10 enter 262144              +poll 39
        160 10/10 enter 262145
        170 10/10 end 262145
        180 10/10 end 262144",
    );
    insta::assert_snapshot!(printed, @"
    request get #1        10/10  100..180  cpu 70, suspended 10
      phase inference #1  10/10  105..170  cpu 55, suspended 10
        phase early #1    10/11  112..130  cpu 18
        phase deep #1     10/11  135..140  cpu 5
    ");
}

/// Threads that end, edges that are lost, and a program that enters the same phase from more threads than are
/// kept.
#[rstest]
#[case::the_waiting_thread_ends("exit")]
#[case::it_enters_twice("enter 262144")]
fn what_a_waiting_thread_does_otherwise_harms_nobody(#[case] act: &str) {
    let printed = play(&format!(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        100 10/10 request 262144 get #1
        110 10/11 enter 262144              +lock 109
        115 10/11 {act}
        120 10/10 leave 262144
        150 10/10 enter 262144
        160 10/10 end 262144"
    ));
    assert!(printed.contains("100..160") && !printed.contains("unmatched"), "{printed}");
}

#[test]
fn more_threads_than_are_kept_are_counted() {
    let enter = |thread: u32| format!("\n{} 10/{} enter 262144", 200 + thread, 11 + thread);
    let fork = |thread: u32| format!("\n1 10/{} fork 10/10", 11 + thread);
    let forks: String = (0..80).map(fork).collect();
    let enters: String = (0..80).map(enter).collect();
    let printed = play(&format!(
        "
        0   10/10 adopt{forks}
        100 10/10 request 262144 get #1{enters}
        400 10/10 end 262144"
    ));
    assert!(printed.contains("unmatched ends 16"), "{printed}");
}
