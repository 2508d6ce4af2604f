//! What a thread did while phases were suspended that continue on it.

use super::play;

/// A loop runs three requests; the second one's `rank` takes 3 ms of it, in two pieces, and then the loop
/// itself takes 2 ms. What the first request's own phases do on the thread does not count.
#[test]
fn a_loop_that_another_request_holds() {
    let printed = play(
        "
        0        10/10 begin 1 req #1
        100000   10/10 begin 2 fetch
        200000   10/10 leave 2
        300000   10/10 leave 1
        400000   10/10 begin 3 req #2
        500000   10/10 begin 4 rank
        2500000  10/10 begin 5 sort
        2600000  10/10 end 5
        3600000  10/10 end 4
        3700000  10/10 end 3
        5700000  10/10 begin 6 req #3
        5750000  10/10 end 6
        6750000  10/10 enter 1                              +poll 1000000
        6760000  10/10 enter 2
        6770000  10/10 end 2
        6780000  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request req #2     10/10  400000..3700000   cpu 3300000
      phase rank #2    10/10  500000..3600000   cpu 3100000
        phase sort #2  10/10  2500000..2600000  cpu 100000
    request req #3     10/10  5700000..5750000  cpu 50000
    request req #1     10/10  0..6780000        cpu 330000, suspended 6450000, suspended.held_ns 5100000
      phase fetch #1   10/10  100000..6770000   cpu 110000, suspended 6560000, suspended.held_ns 5100000, held by rank #2 3000000
    ");
}

/// On the thread where it continues another request ran. What that one did before does not count.
#[test]
fn a_worker_that_another_request_had() {
    let printed = play(
        "
        1000     10/11 begin 3 job #7
        1000000  10/10 begin 1 req #1
        2000000  10/10 leave 1
        9000000  10/11 end 3
        9500000  10/11 enter 1
        9600000  10/11 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request job #7  10/11  1000..9000000     cpu 8999000
    request req #1  10/10  1000000..9600000  cpu 1100000, suspended 7500000, suspended.held_ns 7000000, held by job #7 7000000
    ");
}

/// Nothing ran on the thread meanwhile: it waited for events.
#[test]
fn a_loop_that_is_idle_holds_nothing() {
    let printed = play(
        "
        0        10/10 begin 1 req #1
        1000000  10/10 leave 1
        9000000  10/10 enter 1                              +poll 7990000
        9100000  10/10 end 1",
    );
    insta::assert_snapshot!(printed, @"
    request req #1  10/10  0..9100000  cpu 1100000, suspended 8000000
    ");
}
