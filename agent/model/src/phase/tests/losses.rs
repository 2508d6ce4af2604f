//! What is lost, late, torn or unreadable: counted, marked, and never guessed.

use super::play;

#[test]
fn a_gap_in_the_edge_numbers_marks_what_was_open() {
    let printed = play(
        "
        0   10/10 begin 1 outer
        10  10/10 begin 2 lost lost
        20  10/10 end 2 lost
        30  10/10 begin 3 seen
        40  10/10 end 3
        50  10/10 end 1
        60  10/10 begin 4 clean
        70  10/10 end 4",
    );
    insta::assert_snapshot!(printed, @"
    request outer  10/10  0..50   cpu 50, edges lost 2
      phase seen   10/10  30..40  cpu 10
    request clean  10/10  60..70  cpu 10
    losses: edges lost 2
    ");
}

#[test]
fn edges_from_before_the_agent_are_no_loss() {
    let printed = play(
        "
        0   10/10 end 5 number=9
        10  10/10 begin 6 after
        20  10/10 end 6",
    );
    insta::assert_snapshot!(printed, @"
    request after  10/10  10..20  cpu 10
    losses: edges before 8, unmatched ends 1
    ");
}

#[test]
fn an_end_a_leave_and_an_enter_without_a_begin() {
    let printed = play(
        "
        0   10/10 end 1
        1   10/10 end 0
        2   10/10 leave 1
        3   10/10 enter 1
        4   10/10 context 1 ab cd
        5   10/10 identity 1 ab cd",
    );
    insta::assert_snapshot!(printed, @"
    losses: unmatched ends 6
    ");
}

#[test]
fn a_lost_begin_costs_one_phase() {
    let printed = play(
        "
        0   10/10 request 1 outer
        10  10/10 begin 2 gone lost
        20  10/10 begin 3 inner
        30  10/10 end 3
        40  10/10 end 2
        50  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request outer  10/10  0..50   cpu 50, edges lost 1
      phase inner  10/10  20..30  cpu 10
    losses: edges lost 1, unmatched ends 1
    ");
}

#[test]
fn a_lost_end_of_a_root_does_not_swallow_what_follows() {
    // Tokens whose last 18 bits are zero are roots: the library had nothing open on the thread then.
    let printed = play(
        "
        0   10/10 begin 262144 first
        5   10/10 begin 262145 inner
        10  10/10 end 262145 lost
        20  10/10 end 262144 lost
        30  10/10 begin 524288 second
        35  10/10 begin 524289 inner
        40  10/10 end 524289
        50  10/10 end 524288
        60  10/10 begin 786432 third
        70  10/10 end 786432",
    );
    insta::assert_snapshot!(printed, @"
    request first   10/10  0..30   cpu 30, edges lost 2, lost
      phase inner   10/10  5..30   cpu 25, edges lost 2, lost
    request second  10/10  30..50  cpu 20
      phase inner   10/10  35..40  cpu 5
    request third   10/10  60..70  cpu 10
    losses: edges lost 2, unended phases 2
    ");
}

#[test]
fn a_root_of_one_copy_of_the_library_is_inside_the_phase_of_another() {
    let printed = play(
        "
        0   10/10 begin 262144 python lib=1
        10  10/10 begin 262144 torch  lib=2
        20  10/10 end 262144          lib=2
        30  10/10 end 262144          lib=1",
    );
    insta::assert_snapshot!(printed, @"
    request python  10/10  0..30   cpu 30
      phase torch   10/10  10..20  cpu 10
    ");
}

#[test]
fn an_edge_number_that_comes_twice_is_no_loss() {
    // Two copies of the library whose addresses give the same instance: their numbers run side by side.
    let printed = play(
        "
        0   10/10 begin 1 one   number=1
        10  10/10 begin 2 two   number=1
        20  10/10 end 2         number=2
        30  10/10 end 1         number=2",
    );
    insta::assert_snapshot!(printed, @"
    request one  10/10  0..30   cpu 30
      phase two  10/10  10..20  cpu 10
    ");
}

#[test]
fn edge_numbers_wrap_without_a_loss() {
    let printed = play(
        "
        0   10/10 mark last number=4294967295
        10  10/10 begin 1 wrapped number=0
        20  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    mark last        10/10  0       outside
    request wrapped  10/10  10..20  cpu 10
    losses: edges before 4294967294
    ");
}

#[test]
fn names_that_are_long_damaged_unreadable_or_empty() {
    let printed = play(
        "
        0   10/10 begin 1 x*10000
        10  10/10 end 1
        20  10/10 begin 2 y*64
        30  10/10 end 2
        40  10/10 begin 3 caf\\xe9
        50  10/10 end 3
        60  10/10 begin 4 secret unreadable
        70  10/10 end 4
        80  10/10 begin 5 (empty)
        90  10/10 end 5
        91  10/10 begin 6 na\u{ef}ve
        92  10/10 end 6
        93  10/10 mark \\xff\\xfe",
    );
    insta::assert_snapshot!(printed, @"
    request xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  10/10  0..10   cpu 10, name damaged
    request yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy  10/10  20..30  cpu 10
    request caf�                                                              10/10  40..50  cpu 10, name damaged
    request (unreadable)                                                      10/10  60..70  cpu 10, name damaged
    request                                                                   10/10  80..90  cpu 10
    request naïve                                                             10/10  91..92  cpu 1
    mark ��                                                                   10/10  93      outside
    losses: damaged names 4
    ");
}

#[test]
fn a_torn_edge_is_counted_and_its_accounts_stay_inside_the_wall_time() {
    // A copy that lacks 20 ns at the start edge makes the difference 20 ns longer than the clock says; a copy
    // that lacks 5 ns at the end makes it shorter, and the rest counts as suspended.
    let printed = play(
        "
        0   10/10 adopt
        50  10/10 mark here                 +sleep 20
        60  10/10 begin 1 outer
        70  10/10 begin 2 inner torn behind=20
        80  10/10 end 2                     +net 4
        85  10/10 begin 3 short
        95  10/10 end 3 torn behind=5
        99  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    mark here      10/10  50      outside
    request outer  10/10  60..99  cpu 35, net 4
      phase inner  10/10  70..80  cpu 6, net 4
      phase short  10/10  85..95  cpu 5, suspended 5
    losses: torn edges 2
    ");
}

#[test]
fn counts_of_a_damaged_record_do_not_overflow() {
    let printed = play(
        "
        0   10/10 begin 1 job
        10  10/10 leave 1                   +minor 18446744073709551615
        20  10/11 enter 1
        30  10/11 end 1                     +minor 5",
    );
    insta::assert_snapshot!(printed, @"
    request job  10/10  0..30  cpu 20, suspended 10, fault.minor 18446744073709551615
    ");
}

#[test]
fn unknown_operations_are_counted() {
    let printed = play(
        "
        0   10/10 begin 1 phase
        5   10/10 nonsense
        10  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request phase  10/10  0..10  cpu 10
    losses: unknown edges 1
    ");
}

#[test]
fn a_lost_birth_is_made_up_for_by_the_first_edge() {
    let printed = play(
        "
        0   10/10 adopt
        10  10/11 fork 10/10 lost
        20  10/11 begin 1 phase
        30  10/11 end 1
        40  10/11 exit
        50  10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request phase   10/11  20..30  cpu 10
    thread python   10/11  10..40  cpu 30, phases 1, exited
    thread python   10/10  0..50   cpu 50, exited
    process python  10/10  0..50   cpu 50
    ");
}
