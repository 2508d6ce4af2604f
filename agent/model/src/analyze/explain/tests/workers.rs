//! Advice where most waits were for threads that had the work.

use super::*;
use crate::{analyze::advice, phase::Stopper};

/// A wait of another thread of the process, from some ms of the request to others.
fn of_worker(root: &Phase, account: Account, (from_ms, to_ms): (u64, u64), waker_tid: Option<u32>) -> Wait {
    let ns = (to_ms - from_ms) * 1_000_000;
    Wait {
        thread: ThreadId { tid: 900, ..root.thread },
        start_ns: root.start_ns + from_ms * 1_000_000,
        blocked_ns: ns,
        duration_ns: ns,
        account,
        waker_tid,
        ..Wait::default()
    }
}

#[rstest]
#[case::slept(Some((Account::Sleep, None)), "sleep")]
#[case::waited_for_a_lock(Some((Account::Lock, None)), "lock")]
#[case::stopped(Some((Account::Other, Some(Stopper::Signal))), "stopped.signal")]
#[case::computed(None, advice::OF_A_THREAD)]
fn follows_from_what_delayed_them(#[case] delay: Option<(Account, Option<Stopper>)>, #[case] expected: &str) {
    let requests = run_with(Account::Poll, 10_000_000);
    let root = requests[94].root();
    let own = Wait { waker_tid: Some(900), ..wait(&requests[94], Account::Poll, [9_000_000, 0, 0]) };
    let mut waits = vec![own, of_worker(root, Account::Lock, (0, 1), Some(root.thread.tid))];
    waits.extend(
        delay.map(|(account, stopped_by)| Wait { stopped_by, ..of_worker(root, account, (1, 10), None) }),
    );
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), waits);
    let evidence = &part(&explanation, Cause::Account(Account::Poll)).evidence;
    let by = &evidence.waits.as_ref().expect("there is one").by;
    assert!(matches!(by[..], [By { culprit: Culprit::Given { to: 900, .. }, .. }]), "{by:?}");
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised.first().map(|one| one.advice.clone()), advice::for_cause(expected));
}
