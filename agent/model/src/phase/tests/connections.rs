//! Requests that are known by their sockets: which send was the last, and on whose time.

use rstest::rstest;

use super::{play, script::World};
use crate::phase::pairing::Output;

/// 262144 and 524288 are connections. The second one receives again 5 s after it has sent.
#[test]
fn a_request_is_from_its_first_receive_to_its_last_send() {
    let printed = play(
        "
        100 10/10 request 262144 port-80 kernel from=socket @60
        150 10/10 end 262144 kernel more                    +net 20
        170 10/10 end 262144 kernel more                    +runq 5
        400 10/10 request 262144 port-80 kernel from=socket @390 +net 230
        420 10/10 end 262144 kernel more
        500 10/10 end 262144 kernel                         +net 80
        600 10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request port-80 #1  10/10  100..170  cpu 45, runq 5, net 20, from socket
      queue queue #1           60..100   from socket
    request port-80 #2  10/10  400..420  cpu 20, from socket
      queue queue #2           390..400  from socket
    thread python       10/10  100..600  cpu 165, runq 5, net 330, phases 2, exited
    process python      10/10  100..600  cpu 165, runq 5, net 330
    ");
}

#[test]
fn connections_of_one_thread_lie_beside_each_other() {
    let printed = play(
        "
        100 10/10 request 262144 port-80 kernel from=socket
        110 10/10 request 524288 port-80 kernel from=socket
        150 10/10 end 262144 kernel more                    +runq 10
        160 10/10 end 524288 kernel more
        170 10/10 end 262144 kernel more
        200 10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request port-80 #2  10/10  110..160  cpu 40, runq 10, from socket
    request port-80 #1  10/10  100..170  cpu 60, runq 10, from socket
    thread python       10/10  100..200  cpu 90, runq 10, phases 2, exited
    process python      10/10  100..200  cpu 90, runq 10
    ");
}

/// Since it is not known when the one gave it to the other.
#[test]
fn a_request_that_another_thread_answers_is_handed_off() {
    let printed = play(
        "
        100 10/10 request 262144 port-80 kernel from=socket
        105 10/11 mark here
        150 10/11 end 262144 kernel more
        180 10/11 end 262144 kernel more                    +lock 20
        190 10/10 end 262144 kernel more
        200 10/10 end 262144 kernel
        210 10/11 exit
        220 10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    mark here           10/11  105       outside
    request port-80 #1  10/10  100..190  cpu 10, lock 20, suspended 60, from socket
    thread python       10/11  105..210  cpu 85, lock 20, exited
    thread python       10/10  100..220  cpu 120, phases 1, exited
    process python      10/10  100..220  cpu 120
    ");
}

/// A server's own marks: what it does for the request behind the answer is part of both.
#[test]
fn a_request_lasts_as_long_as_what_was_marked_within_it() {
    let printed = play(
        "
        100 10/10 request 262144 port-80 kernel from=socket
        110 10/10 request 262144 GET #4 from=python
        120 10/10 end 262144 kernel more                    +net 5
        130 10/10 end 262144                                +runq 3
        200 10/10 request 262144 port-80 kernel from=socket +net 70
        210 10/10 end 262144 kernel more
        220 10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request port-80 #1  10/10  100..130  cpu 22, runq 3, net 5, from socket
      phase GET #4      10/10  110..130  cpu 12, runq 3, net 5, from python
    request port-80 #2  10/10  200..210  cpu 10, from socket
    thread python       10/10  100..220  cpu 42, runq 3, net 75, phases 3, exited
    process python      10/10  100..220  cpu 42, runq 3, net 75
    ");
}

/// A client asks again once it has the whole body, and the server may not have closed its own request by
/// then.
#[test]
fn a_request_whose_connection_has_the_next_one_is_no_lost_one() {
    let printed = play(
        "
        100 10/10 request 262144 port-80 kernel from=socket
        110 10/10 request 262144 GET #4 from=python
        120 10/10 end 262144 kernel more
        125 10/10 leave 262144
        130 10/10 request 262144 port-80 kernel from=socket
        135 10/10 request 524288 GET #5 from=python
        140 10/10 end 262144 kernel more
        145 10/10 end 524288
        150 10/10 enter 262144
        160 10/10 end 262144
        220 10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request port-80 #2  10/10  130..145  cpu 15, from socket
      phase GET #5      10/10  135..145  cpu 10, from python
    request port-80 #1  10/10  100..160  cpu 60, from socket
      phase GET #4      10/10  110..160  cpu 25, suspended 25, from python
    thread python       10/10  100..220  cpu 120, phases 4, exited
    process python      10/10  100..220  cpu 120
    ");
}

#[rstest]
#[case::once_it_has_the_answer("120 10/10 end 262144 kernel more")]
#[case::before_there_is_one("120 10/10 mark nothing-sent")]
fn a_client_that_is_gone_leaves_what_was_marked_whole(#[case] sent: &str) {
    let mut world = World::default();
    let outputs = world.play(&format!(
        "
        100 10/10 request 262144 port-80 kernel from=socket
        110 10/10 request 262144 GET #4 from=python
        {sent}
        125 10/11 end 262144 kernel
        130 10/10 end 262144
        140 10/10 exit
        150 10/11 exit"
    ));
    let printed = super::print::outputs(&outputs, &world.pairing);
    let requests: Vec<&str> = printed.lines().filter(|line| line.contains("from")).map(str::trim).collect();
    let [request, phase] = requests[..] else { panic!("{printed}") };
    assert!(request.starts_with("request port-80 #1") && request.contains("100..130"), "{printed}");
    assert!(phase.starts_with("phase GET #4") && phase.contains("110..130"), "{printed}");
    assert!(!printed.contains("losses"), "{printed}");
}

#[test]
fn what_a_thread_begins_after_a_send_is_no_part_of_the_request() {
    let printed = play(
        "
        100 10/10 request 262144 port-80 kernel from=socket
        110 10/10 begin 1 within
        120 10/10 end 262144 kernel more
        130 10/10 end 1
        140 10/10 end 262144 kernel more
        150 10/10 begin 262144 afterwards
        160 10/10 end 262144
        170 10/10 end 262144 kernel
        200 10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request afterwards  10/10  150..160  cpu 10
    request port-80 #1  10/10  100..140  cpu 40, from socket
      phase within #1   10/10  110..130  cpu 20
    thread python       10/10  100..200  cpu 100, phases 3, exited
    process python      10/10  100..200  cpu 100
    ");
}

/// The start of a connection with HTTP/2 looks like one, until it is answered in small frames alone.
#[test]
fn what_was_no_request_is_none() {
    let printed = play(
        "
        100 10/10 request 262144 port-80 kernel from=socket @90
        110 10/10 end 262144 kernel more
        300 10/10 end 262144 kernel none
        300 10/10 request 262144 port-80 kernel from=socket @290
        350 10/10 end 262144 kernel more                    +net 20
        400 10/10 end 262144 kernel
        500 10/10 request 262144 port-80 kernel from=socket
        510 10/10 request 7 within
        520 10/10 end 7
        530 10/10 end 262144 kernel none
        600 10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request port-80 #2  10/10  300..350  cpu 30, net 20, from socket
      queue queue #2           290..300  from socket
    request port-80 #3  10/10  500..530  cpu 30, from socket
      phase within #3   10/10  510..520  cpu 10
    thread python       10/10  100..600  cpu 480, net 20, phases 4, exited
    process python      10/10  100..600  cpu 480, net 20
    ");
}

#[test]
fn a_client_that_is_gone_before_anything_was_sent_ends_its_request() {
    let printed = play(
        "
        100 10/10 request 262144 port-80 kernel from=socket
        150 10/10 end 262144 kernel +net 40
        170 10/10 end 262144 kernel more
        200 10/10 exit",
    );
    insta::assert_snapshot!(printed, @"
    request port-80 #1  10/10  100..150  cpu 10, net 40, from socket
    thread python       10/10  100..200  cpu 60, net 40, phases 1, exited
    process python      10/10  100..200  cpu 60, net 40
    losses: unmatched ends 1
    ");
}

#[test]
fn a_request_of_which_nothing_was_sent_for_ten_seconds_is_over() {
    let mut world = World::default();
    let mut requests = |text: &str| {
        let outputs = world.play(text);
        let requests = outputs.into_iter().filter_map(|output| match output {
            Output::Request(request) => Some(request.root().duration_ns),
            Output::Thread(_) | Output::Mark(_) | Output::Wait(_) | Output::GpuWork(_) | Output::Pause(_) => {
                None
            }
        });
        requests.collect::<Vec<u64>>()
    };
    let early = requests(
        "
        100 10/10 request 262144 port-80 kernel from=socket
        150 10/10 end 262144 kernel more
        9000000000 10/10 end 262144 kernel more
        18999999999 10/11 mark here",
    );
    assert!(early.is_empty(), "{early:?}");
    assert_eq!(requests("19000000000 10/11 mark here"), [9_000_000_000 - 100]);
}
