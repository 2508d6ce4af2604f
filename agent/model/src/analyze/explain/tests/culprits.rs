//! Culprits of waits by their time, and the advice that follows from them.

use guestscope_contract::Account;
use rstest::rstest;

use super::*;
use crate::analyze::advice;

#[test]
fn a_wait_for_a_cpu_is_of_those_who_used_it_by_their_time() {
    let requests = run_with(Account::Runq, 60_000_000);
    let mut one = wait(&requests[94], Account::Runq, [0, 0, 10_000_000]);
    let user = |comm: &str, pid, ns| QueueUser { comm: comm.into(), pid, ns };
    one.users.listed = vec![user("busy", 800, 6_000_000), user("own", one.thread.tgid, 3_000_000)];
    one.users.others_ns = 500_000;
    let own_pid = one.thread.tgid;
    let explanation = with_waits(explain(&requests, Wanted::Slowest(10)), vec![one]);
    let case = explanation.groups[0].cases.iter().find(|case| case.request == 94).expect("it is slow");
    let waits = case.phases[0].parts[0].evidence.waits.as_ref().expect("there is one");
    let by: Vec<_> = waits.by.iter().map(|by| (by.culprit.clone(), by.ns)).collect();
    let ran = |comm: &str, pid| Culprit::Ran { comm: comm.into(), pid };
    // The last user, stress-ng, is not among them: it used no time worth a name.
    let expected = [
        (ran("busy", 800), 6_000_000),
        (ran("own", own_pid), 3_000_000),
        (Culprit::Others, 500_000),
        (Culprit::Unknown, 500_000),
    ];
    assert_eq!((waits.count, waits.total_ns, by), (1, 10_000_000, expected.to_vec()));
    let group = &explanation.groups[0];
    let used = [Whose::Own, Whose::Stranger].map(|whose| group.used_ns(whose, &explanation.circle));
    assert_eq!(used, [3_000_000, 6_000_000]);
    let advised = group.advised(&explanation.summary.groups[0], false, &explanation.circle);
    assert!(advised[0].advice.text.starts_with("Others had the CPUs"), "{advised:?}");
}

/// Advice on waiting for another side is wrong where the thread's own reads were under way, and only there.
#[rstest]
#[case::of_a_device(true, false, Account::Poll, advice::IN_FLIGHT)]
#[case::of_somebody_else(false, false, Account::Poll, "poll")]
#[case::held_back(true, true, Account::BlockIo, advice::HELD_BACK)]
#[case::not_held_back(true, false, Account::BlockIo, "block_io")]
fn advice_is_on_what_the_waits_were_for(
    #[case] has_device: bool,
    #[case] is_held: bool,
    #[case] account: Account,
    #[case] expected: &str,
) {
    let requests = run_with(account, 10_000_000);
    let in_flight = (account == Account::Poll).then_some(InFlight { reads: 8, writes: 0 });
    let io = WaitedIo { name: "vda".into(), is_held, in_flight, ..WaitedIo::default() };
    let long = Wait { io: has_device.then_some(io), ..wait(&requests[94], account, [9_000_000, 0, 0]) };
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), vec![long]);
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    let advice = advice::for_cause(expected).expect("there is some");
    assert_eq!(advised.iter().map(|one| &one.advice).collect::<Vec<_>>(), [&advice]);
}

/// The numbers differ from wait to wait: the largest ones stand for all.
#[test]
fn waits_for_one_ring_are_one_culprit() {
    let requests = run_with(Account::Poll, 10_000_000);
    let one = |name: &str, reads, writes| {
        let in_flight = Some(InFlight { reads, writes });
        let io = WaitedIo { name: name.into(), in_flight, ..WaitedIo::default() };
        Wait { io: Some(io), ..wait(&requests[94], Account::Poll, [2_000_000, 0, 0]) }
    };
    let waits = vec![one("vda", 3, 0), one("vda", 8, 0), one("vda", 1, 2), one("vdb", 1, 0)];
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), waits);
    let waits = part(&explanation, Cause::Account(Account::Poll)).evidence.waits.clone();
    let by = waits.expect("there are some").by;
    let of =
        |name: &str, reads, writes| Culprit::InFlight { name: name.into(), most: InFlight { reads, writes } };
    let by: Vec<_> = by.iter().map(|by| (by.culprit.clone(), by.count)).collect();
    assert_eq!(by, [(of("vda", 8, 2), 3), (of("vdb", 1, 0), 1)]);
}
