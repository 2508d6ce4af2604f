//! Threads that had run before they were adopted.

use super::play;

/// The kernel counts faults from a thread's birth on, which may have been days ago.
#[test]
fn what_was_before_an_adoption_is_not_counted() {
    let printed = play(
        "
        0   10/10 adopt                     +minor 500 +major 7
        10  10/10 begin 1 phase             +minor 2
        20  10/10 end 1                     +minor 3
        30  10/10 exit                      +minor 4 +major 1",
    );
    insta::assert_snapshot!(printed, @"
    request phase   10/10  10..20  cpu 10, fault.minor 3
    thread python   10/10  0..30   cpu 30, fault.minor 9, fault.major 1, phases 1, exited
    process python  10/10  0..30   cpu 30, fault.minor 9, fault.major 1
    ");
}

/// Tokens as the library makes them: 262144 is a root's, those behind it are inside.
#[test]
fn what_is_inside_a_request_from_before_is_none_of_its_own() {
    let printed = play(
        "
        0   10/10 adopt running
        10  10/10 begin 262146 inside number=7
        20  10/10 end 262146
        30  10/10 end 262144
        40  10/10 begin 524288 request
        50  10/10 begin 524289 phase
        60  10/10 end 524289
        70  10/10 end 524288
        80  10/10 begin 786433 lost-root number=13
        90  10/10 end 786433",
    );
    insta::assert_snapshot!(printed, @"
    request request    10/10  40..70  cpu 30
      phase phase      10/10  50..60  cpu 10
    request lost-root  10/10  80..90  cpu 10
    losses: edges before 6, unmatched ends 2
    ");
}

/// The probes on a library that a new program maps come after its first marks.
#[test]
fn so_it_is_in_a_program_that_the_thread_runs_later() {
    let printed = play(
        "
        0   10/10 adopt running
        5   10/10 exec 10/10
        10  10/10 begin 262146 inside number=7
        20  10/10 end 262146
        30  10/10 end 262144
        40  10/10 begin 524288 request
        50  10/10 end 524288",
    );
    insta::assert_snapshot!(printed, @"
    request request  10/10  40..50  cpu 10
    losses: edges before 6, unmatched ends 2
    ");
}
