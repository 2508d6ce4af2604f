//! What triggers notice, and what not.

use guestscope_contract::Account;
use rstest::rstest;

use super::*;

fn trigger(text: &str) -> Trigger {
    toml::from_str(text).expect("it is a trigger")
}

#[rstest]
#[case::usual("beyond = 'p99.9'", true)]
#[case::two("pressure = 'cpu'\nabove_percent = 10\nslower_than = '1s'", false)]
#[case::half("pressure = 'cpu'", false)]
#[case::none("request = '*'", false)]
#[case::all_the_time("pressure = 'io'\nabove_percent = 100", false)]
#[case::cause("cause = 'throttled'", true)]
#[case::no_cause("cause = 'tired'", false)]
#[case::times("times = 0.5", false)]
fn what_makes_sense(#[case] text: &str, #[case] is_right: bool) {
    assert_eq!(trigger(text).check().is_ok(), is_right);
}

#[rstest]
#[case::slow("slower_than = '100ms'", true)]
#[case::not_so_slow("slower_than = '300ms'", false)]
#[case::by_name("request = 'GET /*'\nslower_than = '100ms'", true)]
#[case::another("request = 'POST /*'\nslower_than = '100ms'", false)]
#[case::beyond("beyond = 'p99'", true)]
#[case::not_so_far("beyond = 'p99.9'", false)]
#[case::many_times("times = 3", true)]
#[case::not_so_many_times("times = 5", false)]
#[case::beyond_and_not_many_times("beyond = 'p99'\ntimes = 5", false)]
#[case::cause("cause = 'throttled'", true)]
#[case::other_cause("cause = 'lock'", false)]
fn a_request_is_noticed(#[case] text: &str, #[case] is_noticed: bool) {
    let verdict = TailVerdict { cause: Some(Cause::Account(Account::Throttled)), tail: Some(Band::P99) };
    let name = "GET /chat".into();
    let ended = Ended {
        name: &name,
        duration_ns: 200_000_000,
        typical_ns: Some(50_000_000),
        verdict: Some(&verdict),
    };
    let triggers = [trigger(text)];
    assert_eq!(of_request(&triggers, &ended).is_some(), is_noticed);
}

#[test]
fn pressure_must_last() {
    let triggers = [trigger("pressure = 'cpu'\nabove_percent = 50")];
    let mut pressed = Pressed::default();
    let mut noticed = Vec::new();
    let mut total_ns = 0;
    for second in 0..20_u64 {
        // Four seconds of pressure, one without, then pressure for good.
        let part = if second == 5 { 0 } else { 600_000_000 };
        total_ns += part;
        let sample =
            Sample { time_ns: second * 1_000_000_000, psi_cpu_some_ns: Some(total_ns), ..Sample::default() };
        if pressed.take(&sample, &triggers).is_some() {
            noticed.push(second);
        }
    }
    assert_eq!(noticed, [10, 15]);
}

/// One that always holds silences no other.
#[test]
fn each_resource_has_its_turn() {
    let triggers =
        [trigger("pressure = 'cpu'\nabove_percent = 10"), trigger("pressure = 'io'\nabove_percent = 10")];
    let (mut pressed, mut noticed) = (Pressed::default(), Vec::new());
    for second in 0..12_u64 {
        let total_ns = Some(second * 600_000_000);
        let time_ns = second * 1_000_000_000;
        let sample =
            Sample { time_ns, psi_cpu_some_ns: total_ns, psi_io_some_ns: total_ns, ..Sample::default() };
        let found = pressed.take(&sample, &triggers);
        noticed.extend(found.and_then(|trigger| trigger.pressure).map(|pressure| (second, pressure)));
    }
    let [cpu, io] = [Pressure::Cpu, Pressure::Io];
    assert_eq!(noticed, [(5, cpu), (6, io), (10, cpu), (11, io)]);
}
