//! Phases on other threads than their requests, as of a worker while an event loop waits in poll.

use super::*;

/// Requests of which some wait for 10 ms more in poll, while a phase of theirs spends these in another
/// account.
fn moved(account: Account) -> Vec<Request> {
    let mut requests = run_with(Account::Poll, 10_000_000);
    for phase in requests.iter_mut().flat_map(|request| request.phases.iter_mut().skip(1)) {
        let poll = &mut phase.accounts.0[Account::Poll as usize];
        let ns = std::mem::take(poll);
        phase.accounts.0[account as usize] += ns;
    }
    requests
}

#[rstest]
#[case::computes(Account::Cpu)]
#[case::writes(Account::BlockIo)]
#[case::waits_like_its_request(Account::Poll)]
fn time_on_another_thread_is_in_its_phase(#[case] account: Account) {
    let requests = moved(account);
    let explanation = explain(&requests, Wanted::Number(94));
    let case = &explanation.groups[0].cases[0];
    let parts = case.phases.iter().flat_map(|phase| phase.parts.iter().map(|part| (&phase.path, part)));
    let much: Vec<_> = parts.filter(|(_, part)| part.excess_ns > 1_000_000).collect();
    let [(path, part)] = much.as_slice() else { panic!("{much:?}") };
    assert_eq!(part.cause, Cause::Account(account));
    // Typical times are means, rounded down.
    assert!(part.excess_ns.abs_diff(10_000_000) <= 10, "{part:?}");
    assert_ne!(path[0], super::super::super::OUTSIDE);
    let sum: i64 = case.phases.iter().map(|phase| phase.excess_ns).sum();
    assert_eq!(sum, case.excess_ns);
    // The headline is by whole requests, the parts are by phases: both name the same.
    let group = &explanation.summary.groups[0];
    let headline = explanation.groups[0].headline(group);
    assert!(matches!(headline, Headline::Cause { cause, .. } if cause == part.cause), "{headline:?}");
}

/// What the other thread did beyond the request's waits is no part of the request.
#[test]
fn time_on_another_thread_beyond_the_waits_stays_out() {
    let mut requests = moved(Account::Cpu);
    for phase in requests.iter_mut().flat_map(|request| request.phases.iter_mut().skip(1)) {
        phase.accounts.0[Account::BlockIo as usize] += 50_000_000;
    }
    let explanation = explain(&requests, Wanted::Number(94));
    let case = &explanation.groups[0].cases[0];
    let sum: i64 = case.phases.iter().map(|phase| phase.excess_ns).sum();
    assert_eq!(sum, case.excess_ns);
}

/// The event loop's waits while a coroutine is suspended are those of the coroutine's phase.
#[test]
fn a_suspended_phase_has_the_time_and_the_waits_of_its_loop() {
    let mut requests = run_with(Account::Poll, 10_000_000);
    for phase in requests.iter_mut().flat_map(|request| request.phases.iter_mut().skip(1)) {
        phase.suspended_ns = std::mem::take(&mut phase.accounts.0[Account::Poll as usize]);
    }
    let root = requests[94].root();
    let of_loop = Wait { waker_tid: Some(70), ..samples::wait(root, Account::Poll, [9_000_000, 0, 0]) };
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), vec![of_loop]);
    let case = &explanation.groups[0].cases[0];
    let first = &case.phases[0];
    assert_eq!(first.path, ["work"]);
    let poll = first.parts.iter().find(|part| part.cause == Cause::Account(Account::Poll)).expect("it waits");
    // The loop's other time while it was suspended, as for other requests, goes along.
    assert!((9_000_000..=10_000_000).contains(&poll.excess_ns), "{poll:?}");
    let waits = poll.evidence.waits.as_ref().expect("there is one");
    assert_eq!((waits.total_ns, waits.by[0].culprit.clone()), (9_000_000, Culprit::Woken { tid: 70 }));
    let sum: i64 = case.phases.iter().map(|phase| phase.excess_ns).sum();
    assert_eq!(sum, case.excess_ns);
}

/// A wait of the loop in which a worker had the phase is not shown: the phase has waits of its own.
#[test]
fn waits_beside_a_phase_on_another_thread_are_left_out() {
    let mut requests = moved(Account::Sleep);
    // The loop waits for longer than that phase, so that something is left.
    requests[94].phases[0].accounts.0[Account::Poll as usize] += 5_000_000;
    requests[94].phases[0].duration_ns += 5_000_000;
    let root = requests[94].root();
    let of_loop = samples::wait(root, Account::Poll, [9_000_000, 0, 0]);
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), vec![of_loop]);
    let parts = explanation.groups[0].cases[0].phases.iter().flat_map(|phase| &phase.parts);
    let poll: Vec<_> = parts.filter(|part| part.cause == Cause::Account(Account::Poll)).collect();
    assert!(!poll.is_empty(), "the loop waited for longer");
    for part in poll {
        assert_eq!((part.evidence.waits.clone(), part.evidence.left_out), (None, true));
    }
}

/// What a later phase used on the request's own thread is not lent to an earlier one that was suspended.
#[test]
fn what_a_later_phase_used_is_its_own() {
    let request = |number: u64| {
        let late = if number % 10 == 4 { 10_000_000 } else { 0 };
        let waits = vec![Step::Spend(Account::Poll, 1_000_000 + late)];
        let works = vec![Step::Spend(Account::Cpu, 1_000_000 + late)];
        let steps = vec![Step::Nest("awaits", waits), Step::Nest("works", works)];
        let mut request = Sample::new(number, number * 50_000_000, steps).build();
        let awaits = request.phases.iter_mut().find(|phase| phase.name == "awaits").expect("it is there");
        awaits.suspended_ns = std::mem::take(&mut awaits.accounts.0[Account::Poll as usize]);
        request
    };
    let requests: Vec<Request> = (0..100).map(request).collect();
    let explanation = explain(&requests, Wanted::Number(94));
    let parts = explanation.groups[0].cases[0].phases.iter().flat_map(|phase| &phase.parts);
    let cpu =
        parts.filter(|part| part.cause == Cause::Account(Account::Cpu)).map(|part| part.ns).sum::<u64>();
    assert_eq!(cpu, requests[94].root().accounts.get(Account::Cpu));
}
