//! Phases that a goroutine takes along from thread to thread: one edge leaves, or enters, all of them.

use super::play;

/// 70 is a function, 71 one within it.
#[test]
fn what_was_left_together_goes_on_together() {
    let printed = play(
        "
        100 10/10 begin 70 handle kernel from=function
        110 10/10 begin 71 inner kernel from=function
        130 10/10 leave 70 kernel                           +runq 5
        190 10/11 mark here
        200 10/11 enter 70 kernel inner
        230 10/11 end 71 kernel                             +net 10
        240 10/11 end 70 kernel
        300 10/10 exit
        300 10/11 exit",
    );
    insta::assert_snapshot!(printed, @"
    mark here       10/11  190       outside
    request handle  10/10  100..240  cpu 55, runq 5, net 10, suspended 70, from function
      phase inner   10/10  110..230  cpu 35, runq 5, net 10, suspended 70, from function
    thread python   10/10  100..300  cpu 195, runq 5, phases 2, exited
    thread python   10/11  190..300  cpu 100, net 10, exited
    process python  10/10  100..300  cpu 195, runq 5
    ");
}

/// The other thread may take the goroutine before the first one has said that it is rid of it.
#[test]
fn the_enter_may_come_ahead_of_the_leave() {
    let printed = play(
        "
        100 10/10 begin 70 handle kernel from=function
        110 10/10 begin 71 inner kernel from=function
        190 10/11 mark here
        200 10/11 enter 70 kernel inner
        210 10/10 leave 70 kernel
        230 10/11 end 71 kernel                             +net 10
        240 10/11 end 70 kernel
        300 10/10 exit
        300 10/11 exit",
    );
    insta::assert_snapshot!(printed, @"
    mark here       10/11  190       outside
    request handle  10/10  100..240  cpu 130, net 10, from function
      phase inner   10/10  110..230  cpu 110, net 10, from function
    thread python   10/10  100..300  cpu 200, phases 2, exited
    thread python   10/11  190..300  cpu 100, net 10, exited
    process python  10/10  100..300  cpu 200
    ");
}

/// 262144 is a connection. What follows the last send is no part of the request.
#[test]
fn a_request_that_was_answered_is_left_no_more() {
    let printed = play(
        "
        100 10/10 request 262144 port-80 kernel from=socket
        120 10/10 begin 70 handle kernel from=function
        130 10/10 leave 262144 kernel
        190 10/11 mark here
        200 10/11 enter 262144 kernel inner
        240 10/11 end 70 kernel                             +runq 10
        250 10/11 end 262144 kernel more
        300 10/11 leave 262144 kernel
        400 10/10 enter 262144 kernel inner
        500 10/10 exit
        500 10/11 exit",
    );
    insta::assert_snapshot!(printed, @"
    mark here           10/11  190       outside
    thread python       10/10  100..500  cpu 400, phases 2, exited
    request port-80 #1  10/10  100..250  cpu 70, runq 10, suspended 70, from socket
      phase handle #1   10/10  120..240  cpu 40, runq 10, suspended 70, from function
    thread python       10/11  190..500  cpu 300, runq 10, exited
    process python      10/10  100..500  cpu 400
    ");
}

/// 70 has ended on 10/11 and begun again on 10/12 before 10/10 says that it is rid of it.
#[test]
fn a_late_leave_is_not_the_next_calls() {
    let printed = play(
        "
        100 10/10 begin 70 handle kernel from=function
        110 10/11 enter 70 kernel inner
        120 10/11 end 70 kernel
        130 10/12 begin 70 handle kernel from=function
        140 10/10 leave 70 kernel
        160 10/12 end 70 kernel
        300 10/10 exit
        300 10/11 exit
        300 10/12 exit",
    );
    insta::assert_snapshot!(printed, @"
    request handle  10/10  100..120  cpu 10, suspended 10, from function
    request handle  10/12  130..160  cpu 30, from function
    thread python   10/10  100..300  cpu 200, phases 1, exited
    thread python   10/11  110..300  cpu 190, exited
    thread python   10/12  130..300  cpu 170, phases 1, exited
    process python  10/10  100..300  cpu 200
    ");
}

/// Between the second part and the third its goroutine was away from the thread, which ran something else.
#[test]
fn a_request_is_suspended_between_parts_if_its_goroutine_was_away() {
    let printed = play(
        "
        100 10/10 request 262144 port-80 kernel from=socket
        120 10/10 end 262144 kernel more
        150 10/10 end 262144 kernel more
        200 10/10 end 262144 kernel elsewhere
        300 10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request port-80 #1  10/10  100..200  cpu 50, suspended 50, from socket
    thread python       10/10  100..300  cpu 200, phases 1, exited
    process python      10/10  100..300  cpu 200
    ");
}
