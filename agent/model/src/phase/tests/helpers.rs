//! Helpers: sums shared out among the requests in flight, and waits laid over phases.

use guestscope_contract::{Account, helpers::HelperSum};
use insta::assert_snapshot;

use super::{play, script::Line};

/// The sum over the process that an edge carries.
pub(super) fn sum(line: &Line<'_>) -> HelperSum {
    let number = |key: &str| line.value(key).map_or(0, |value| value.parse().unwrap());
    let mut sum =
        HelperSum { threads: number("threads="), unlisted: number("unlisted="), ..HelperSum::default() };
    for part in line.value("sum=").into_iter().flat_map(|parts| parts.split(',')) {
        let (name, ns) = part.split_once(':').unwrap_or_else(|| panic!("ACCOUNT:NS: {part}"));
        let account = Account::ALL.into_iter().find(|account| account.name() == name);
        sum.accounts[account.unwrap_or_else(|| panic!("no account: {name}")) as usize] = ns.parse().unwrap();
    }
    sum
}

#[test]
fn a_phase_has_what_the_sum_grew_by() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 request 262144 job #1 threads=3 sum=cpu:1000,runq:5
        120 10/10 begin 262145 inner threads=3 sum=cpu:1030,runq:15
        160 10/10 end 262145 threads=3 sum=cpu:1090,runq:35
        200 10/10 end 262144 threads=2 sum=cpu:1150,runq:55
        210 10/10 request 524288 job #2 threads=2 sum=cpu:1900,runq:75
        220 10/10 end 524288 threads=2 sum=cpu:1920,runq:75
    "), @"
    request job #1    10/10  100..200  cpu 100, 1 helpers: cpu 150, runq 50
      phase inner #1  10/10  120..160  cpu 40, 2 helpers: cpu 60, runq 20
    request job #2    10/10  210..220  cpu 10, 1 helpers: cpu 20
    ");
}

#[test]
fn requests_in_flight_together_share_evenly_and_no_nanosecond_is_lost() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1 threads=3 sum=cpu:1000
        120 10/11 request 1048576 job #2 threads=3 sum=cpu:1020
        140 10/10 mark half threads=3 sum=cpu:1041
        160 10/10 end 262144 threads=3 sum=cpu:1061
        200 10/11 end 1048576 threads=3 sum=cpu:1101
    "), @"
    mark half       10/10  140       in phase 1
    request job #1  10/10  100..160  cpu 60, 2 helpers: cpu 40, shared
    request job #2  10/11  120..200  cpu 80, 2 helpers: cpu 61, shared
    ");
}

#[test]
fn what_no_sum_knows_is_said() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 request 262144 job #1 threads=3 sum=cpu:1000 sumtorn
        200 10/10 end 262144 threads=3 sum=cpu:1100
        210 10/10 request 524288 job #2 threads=128 unlisted=1 sum=cpu:1110
        220 10/10 end 524288 threads=128 unlisted=1 sum=cpu:1120
    "), @"
    request job #1  10/10  100..200  cpu 100, partial
    request job #2  10/10  210..220  cpu 10, 127 helpers: cpu 10, partial
    ");
}

#[test]
fn waits_of_helpers_are_laid_over_the_phase() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        11  10/12 fork 10/10
        100 10/10 request 262144 job #1
        150 10/11 wait runq from=90
        160 10/12 wait runq from=140 throttled=15
        190 10/10 wait lock from=155 ready=190
        195 10/11 wait lock from=170 ready=180
        200 10/10 end 262144
        250 10/11 wait runq from=150
    "), @"
    wait behind stress  10/11  90..150   outside, runq 60
    wait behind stress  10/12  140..160  outside, runq 5, throttled 15
    wait behind stress  10/10  155..190  in phase 1 of 1, lock 35
    wait behind stress  10/11  170..195  outside, lock 10, runq 15
    request job #1      10/10  100..200  cpu 100, helper's runq while on cpu 55, helper's runq while waiting 15, helper's throttled while on cpu 15
    wait behind stress  10/11  150..250  outside, runq 100
    ");
}

#[test]
fn requests_within_each_other_are_one_in_flight() {
    assert_snapshot!(play("
        0   10/10 adopt
        100 10/10 begin 262144 epoch threads=2 sum=cpu:1000
        110 10/10 request 524288 step #1 threads=2 sum=cpu:1010
        120 10/10 end 524288 threads=2 sum=cpu:1030
        130 10/10 end 262144 threads=2 sum=cpu:1040
    "), @"
    request step #1  10/10  110..120  cpu 10, 1 helpers: cpu 20
    request epoch    10/10  100..130  cpu 30, 1 helpers: cpu 40
    ");
}

#[test]
fn a_lost_end_does_not_halve_the_shares_of_others_for_good() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1 threads=3 sum=cpu:1000
        110 10/10 end 262144 lost
        120 10/10 mark later threads=3 sum=cpu:1010
        130 10/11 request 1048576 job #2 threads=3 sum=cpu:1020
        140 10/11 end 1048576 threads=3 sum=cpu:1040
    "), @"
    mark later      10/10  120       in phase 1
    request job #2  10/11  130..140  cpu 10, 2 helpers: cpu 20
    still open: 1
    losses: edges lost 1
    ");
}

#[test]
fn a_request_that_is_suspended_has_its_helpers_and_spins_nowhere() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        100 10/10 request 262144 job #1 threads=2 sum=cpu:1000
        110 10/10 leave 262144 threads=2 sum=cpu:1010
        150 10/11 wait runq from=105
        180 10/10 enter 262144 threads=2 sum=cpu:1050
        200 10/10 end 262144 threads=2 sum=cpu:1060
        210 10/11 request 524288 job #2 threads=2 sum=cpu:1070
        220 10/11 end 524288 threads=2 sum=cpu:1080
    "), @"
    wait behind stress  10/11  105..150  outside, runq 45
    request job #1      10/10  100..200  cpu 30, suspended 70, 1 helpers: cpu 60, helper's runq while on cpu 5, helper's runq while waiting 40
    request job #2      10/11  210..220  cpu 10, 1 helpers: cpu 10
    ");
}

#[test]
fn waits_that_come_late_are_laid_over_as_well() {
    assert_snapshot!(play("
        0   10/10 adopt
        10  10/11 fork 10/10
        11  10/12 fork 10/10
        100 10/10 request 262144 job #1
        150 10/11 wait runq from=140 late
        190 10/12 wait runq from=180
        200 10/10 end 262144
    "), @"
    wait behind stress  10/12  180..190  outside, runq 10
    wait behind stress  10/11  140..150  outside, runq 10
    request job #1      10/10  100..200  cpu 100, helper's runq while on cpu 20
    ");
}
