//! Births, execs, exits and the end of observation, with phases open across them.

use super::{phases, play, script::World};

#[test]
fn a_process_is_a_request_of_its_own() {
    let printed = play(
        "
        100 10/10 adopt comm=guestscope
        150 10/11 fork 10/10
        200 10/11 exit                      +sleep 30 +voluntary 2
        300 10/10 exit                      +cpu 10 +block_io 40 +minor 9",
    );
    insta::assert_snapshot!(printed, @"
    thread guestscope   10/11  150..200  cpu 20, sleep 30, switch.voluntary 2, exited
    thread guestscope   10/10  100..300  cpu 160, block_io 40, fault.minor 9, exited
    process guestscope  10/10  100..300  cpu 160, block_io 40, fault.minor 9
    ");
}

#[test]
fn a_thread_that_exits_ends_what_is_open_on_it() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        10  10/11 begin 1 outer
        20  10/11 begin 2 inner
        30  10/11 exit                      +fault 3
        40  10/10 begin 3 another
        50  10/10 end 3",
    );
    insta::assert_snapshot!(printed, @"
    request outer    10/11  10..30  cpu 17, fault 3, thread_exited
      phase inner    10/11  20..30  cpu 7, fault 3, thread_exited
    thread python    10/11  1..30   cpu 26, fault 3, phases 2, exited
    request another  10/10  40..50  cpu 10
    losses: unended phases 2
    ");
}

#[test]
fn what_ends_together_comes_out_the_latest_first() {
    let printed = play(
        "
        0   10/10 adopt
        10  10/10 request 1 first
        20  10/10 request 2 second
        30  10/10 request 3 third
        35  10/10 leave 2
        50  10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request third   10/10  30..50  cpu 20, thread_exited
    request first   10/10  10..50  cpu 40, thread_exited
    request second  10/10  20..50  cpu 15, suspended 15, thread_exited
    thread python   10/10  0..50   cpu 50, phases 3, exited
    process python  10/10  0..50   cpu 50
    losses: unended phases 3
    ");
}

#[test]
fn a_late_exec_ends_only_what_began_before_it() {
    // The pump orders the two rings by time. If it fails to, the new program's phase stays open.
    let printed = play(
        "
        0   10/10 adopt
        5   10/11 fork 10/10 late
        10  10/11 begin 1 worker
        20  10/11 exit
        30  10/10 begin 2 old
        50  10/10 exec 10/10 late
        60  10/10 begin 3 new
        70  10/10 end 3
        80  10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request worker  10/11  10..20  cpu 10, thread_exited
    thread python   10/11  5..20   cpu 15, phases 1, exited
    request old     10/10  30..50  cpu 20, exec
      phase new     10/10  60..70  cpu 10
    thread python   10/10  0..80   cpu 80, phases 2, exited
    process python  10/10  0..80   cpu 80
    losses: edges before 1, unended phases 2
    ");
}

#[test]
fn what_is_suspended_ends_with_the_last_thread_of_the_process() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        10  10/11 begin 1 job
        20  10/11 leave 1
        30  10/11 exit
        60  10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    thread python   10/11  1..30   cpu 29, phases 1, exited
    request job     10/11  10..60  cpu 10, suspended 40, thread_exited
    thread python   10/10  0..60   cpu 60, exited
    process python  10/10  0..60   cpu 60
    losses: unended phases 1
    ");
}

#[test]
fn an_exec_of_the_leader_ends_the_phases_of_the_process() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        10  10/10 begin 1 leader
        15  10/11 begin 2 worker
        20  10/10 begin 3 suspended
        25  10/10 leave 3
        40  10/11 exit
        50  10/10 exec 10/10 comm=new       +runq 7
        60  10/10 begin 1 again number=3
        70  10/10 end 1
        80  10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request worker     10/11  15..40  cpu 25, thread_exited
    thread python      10/11  1..40   cpu 39, phases 1, exited
    request leader     10/10  10..50  cpu 33, runq 7, exec
      phase suspended  10/10  20..50  cpu 5, suspended 25, exec
    request again      10/10  60..70  cpu 10
    thread new         10/10  0..80   cpu 73, runq 7, phases 3, exited
    process new        10/10  0..80   cpu 73, runq 7
    losses: edges before 2, unended phases 3
    ");
}

#[test]
fn an_exec_of_another_thread_takes_over_the_leaders_number() {
    let printed = play(
        "
        0   10/10 adopt
        5   10/11 fork 10/10
        10  10/10 begin 1 leader
        15  10/11 begin 2 worker
        50  10/10 exec 10/11                +runq 7
        60  10/10 begin 1 again
        70  10/10 end 1                     +net 10
        80  10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request leader  10/10  10..50  cpu 40, thread_exited
    thread python   10/10  0..50   cpu 50, phases 1, exited
    request worker  10/11  15..50  cpu 28, runq 7, exec
    request again   10/10  60..70  net 10
    thread python   10/10  5..80   cpu 58, runq 7, net 10, phases 2, exited
    process python  10/10  5..80   cpu 58, runq 7, net 10
    losses: unended phases 2
    ");
}

#[test]
fn a_leader_that_ended_before_the_exec_was_not_the_process() {
    let printed = play(
        "
        0   10/10 adopt
        5   10/11 fork 10/10
        40  10/10 exit
        50  10/10 exec 10/11
        80  10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    thread python   10/10  0..40  cpu 40, exited
    thread python   10/10  5..80  cpu 75, exited
    process python  10/10  5..80  cpu 75
    ");
}

#[test]
fn a_process_ends_with_its_last_thread() {
    let printed = play(
        "
        0   10/10 adopt
        5   10/11 fork 10/10
        6   20/20 fork 10/10
        7   20/21 fork 20/20
        40  10/10 exit
        50  20/20 exit
        60  10/11 exit
        90  10/10 stop",
    );
    insta::assert_snapshot!(printed, @"
    thread python   10/10  0..40  cpu 40, exited
    thread python   20/20  6..50  cpu 44, exited
    thread python   10/11  5..60  cpu 55, exited
    process python  10/10  0..40  cpu 40
    thread python   20/21  7..90  cpu 83, last seen
    process python  20/20  6..50  cpu 44, observation_stopped
    ");
}

#[test]
fn an_exec_leaves_other_processes_alone() {
    let printed = play(
        "
        0   10/10 adopt
        5   20/20 fork 10/10
        10  10/10 begin 1 parent
        20  20/20 exec 20/20
        30  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request parent  10/10  10..30  cpu 20
    ");
}

#[test]
fn threads_that_end_after_the_exec_that_killed_them_change_nothing() {
    let printed = play(
        "
        0   10/10 adopt
        5   10/11 fork 10/10
        10  10/11 begin 1 worker
        20  10/10 exec 10/10
        21  10/10 begin 1 new
        22  10/11 exit
        30  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request worker  10/11  10..20  suspended 10, exec
    thread python   10/11  5..22   cpu 17, phases 1, exited
    request new     10/10  21..30  cpu 9
    losses: unended phases 1
    ");
}

#[test]
fn a_forked_child_has_none_of_its_parents_phases() {
    // The child's memory is a copy, so it may end what it believes to be open. The library notices the fork
    // and numbers its edges anew.
    let printed = play(
        "
        0   10/10 adopt
        10  10/10 begin 1 parent
        15  10/10 mark here
        20  20/20 fork 10/10
        30  20/20 end 1
        35  20/20 begin 2 child
        40  20/20 end 2
        50  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    mark here       10/10  15      in phase 1
    request child   20/20  35..40  cpu 5
    request parent  10/10  10..50  cpu 40
    losses: unmatched ends 1
    ");
}

#[test]
fn a_new_thread_begins_its_own_edge_numbers() {
    let printed = play(
        "
        0   10/10 adopt
        10  10/10 begin 1 parent number=8
        20  10/11 fork 10/10
        30  10/11 begin 2 first number=3
        40  10/11 end 2
        50  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request first   10/11  30..40  cpu 10
    request parent  10/10  10..50  cpu 40
    losses: edges before 9
    ");
}

#[test]
fn observation_stops_with_open_phases_and_living_threads() {
    let printed = play(
        "
        0   10/10 adopt
        1   10/11 fork 10/10
        5   10/10 begin 1 outer             +minor 2
        10  10/10 begin 2 inner             +minor 1
        20  10/11 begin 3 moved
        25  10/11 leave 3
        30  20/20 begin 1 unborn
        90  10/10 stop",
    );
    insta::assert_snapshot!(printed, @"
    request outer            10/10  5..90   cpu 85, fault.minor 1, observation_stopped
      phase inner            10/10  10..90  cpu 80, observation_stopped
    thread python            10/10  0..90   cpu 90, fault.minor 3, phases 2, last seen
    process python           10/10  0..90   cpu 90, fault.minor 3, observation_stopped
    request moved            10/11  20..90  cpu 5, suspended 65, observation_stopped
    thread python            10/11  1..90   cpu 89, phases 1, last seen
    request unborn           20/20  30..90  cpu 60, observation_stopped
    thread                   20/20  30..90  cpu 60, phases 1, last seen
    process (still running)  20/20  30..90  cpu 60, observation_stopped
    losses: unended phases 4
    ");
}

#[test]
fn a_tid_used_again_is_another_thread() {
    // The exit of the first 10/11 was lost; the second one owes nothing to it.
    let printed = play(
        "
        0   10/10 adopt
        10  10/11 fork 10/10
        20  10/11 begin 1 first
        30  10/11 exit lost
        40  10/11 fork 10/10
        50  10/11 begin 2 second            +net 10
        60  10/11 end 2
        70  10/11 exit
        90  10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request first   10/11  20..40  suspended 20, thread_exited
    request second  10/11  50..60  cpu 10
    thread python   10/11  40..70  cpu 20, net 10, phases 1, exited
    thread python   10/10  0..90   cpu 90, exited
    process python  10/10  0..90   cpu 90
    losses: unended phases 1
    ");
}

#[test]
fn a_thread_whose_end_was_lost_does_not_keep_its_process() {
    // 10/12 is the last of its process, and nobody saw it end; its number comes again in another one.
    let printed = play(
        "
        0   10/10 adopt
        1   10/12 fork 10/10
        10  10/12 begin 1 on-it
        20  10/10 begin 2 suspended
        25  10/10 leave 2
        30  10/10 exit
        40  10/12 exit lost
        50  20/12 adopt
        60  20/12 stop",
    );
    insta::assert_snapshot!(printed, @"
    thread python      10/10  0..30   cpu 30, phases 1, exited
    request suspended  10/10  20..50  cpu 5, suspended 25, thread_exited
    request on-it      10/12  10..50  suspended 40, thread_exited
    process python     10/10  0..30   cpu 30
    thread python      20/12  50..60  cpu 10, last seen
    losses: unended phases 2
    ");
}

#[test]
fn a_process_number_used_again_does_not_charge_the_first_ones_phases_to_the_second() {
    // The exit of the first 20/20 is lost, and the second begins with the same token.
    let printed = play(
        "
        0   20/20 adopt
        10  20/20 begin 1 first             +net 9
        30  20/20 exit lost
        100 20/20 adopt
        110 20/20 begin 1 second            +lock 5
        120 20/20 end 1
        130 20/20 exit",
    );
    insta::assert_snapshot!(printed, @"
    request first   20/20  10..100   suspended 90, thread_exited
    request second  20/20  110..120  cpu 10
    thread python   20/20  100..130  cpu 25, lock 5, phases 1, exited
    process python  20/20  100..130  cpu 25, lock 5
    losses: unended phases 1
    ");
}

/// Threads of a pool have their maker's name at birth, and get their own one after it.
#[test]
fn a_phase_has_the_name_that_its_thread_had_at_its_begin() {
    let outputs = World::default().play(
        "
        0   10/10 adopt comm=serve
        1   10/11 fork 10/10
        10  10/11 begin 1 early
        20  10/11 renamed comm=pool-1
        25  10/11 begin 2 inner
        30  10/11 end 2
        40  10/11 end 1
        50  10/11 request 3 late #1 @45
        60  10/11 end 3
        70  10/12 renamed comm=stranger
        80  10/11 exit
        90  10/10 exit",
    );
    let names: Vec<_> = phases(&outputs).map(|phase| (phase.name.stored(), phase.comm.stored())).collect();
    let late = [("late", "pool-1"), ("queue", "pool-1"), ("serve", "serve")];
    assert_eq!(names, [&[("early", "serve"), ("inner", "pool-1")], &late[..]].concat());
}
