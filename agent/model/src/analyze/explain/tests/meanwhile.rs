//! Other threads of the process during a request that waits.

use super::*;
use crate::analyze::advice;

/// Requests of which some wait for 10 ms more in this account; other threads of the process run for so long
/// in those, and for so long in the others, ns.
fn helped(account: Account, slow_ns: u64, usual_ns: u64) -> Vec<Request> {
    let mut requests = run_with(account, 10_000_000);
    // The phase that waits, and those around it.
    let waits = |at: &usize| requests[94].phases[*at].accounts.get(account) >= 10_000_000;
    let waiting: Vec<usize> = (0..requests[94].phases.len()).filter(waits).collect();
    for (number, request) in requests.iter_mut().enumerate() {
        let ns = if number % 10 == 4 { slow_ns } else { usual_ns };
        for &at in &waiting {
            request.phases[at].helpers.accounts.0[Account::Cpu as usize] = ns;
        }
    }
    requests
}

#[rstest]
#[case::a_worker_computes(Account::Poll, 9_000_000, 0, Some(advice::OWN_WORK))]
#[case::it_computes_half_of_it(Account::Poll, 5_000_000, 0, Some(advice::OWN_WORK))]
#[case::less_than_half(Account::Poll, 4_900_000, 0, None)]
#[case::nobody_computes(Account::Poll, 0, 0, None)]
#[case::as_always(Account::Poll, 9_000_000, 9_000_000, None)]
// It computes all the time.
#[case::all_the_time(Account::Poll, 90_000_000, 80_000_000, None)]
#[case::a_wait_for_a_disk(Account::BlockIo, 9_000_000, 0, None)]
fn a_wait_for_others_may_be_for_a_thread_of_its_own_process(
    #[case] account: Account,
    #[case] slow_ns: u64,
    #[case] usual_ns: u64,
    #[case] expected: Option<&str>,
) {
    let explanation = explain(&helped(account, slow_ns, usual_ns), Wanted::Number(94));
    let explained = &explanation.groups[0];
    let parts = explained.cases[0].phases.iter().flat_map(|phase| &phase.parts);
    let beside: Vec<Meanwhile> = parts.filter_map(|part| part.evidence.meanwhile).collect();
    let is_expected = expected.is_some();
    assert_eq!(beside, vec![Meanwhile { ns: slow_ns, typical_ns: 0.0 }; usize::from(is_expected)]);
    let advised = explained.advised(&explanation.summary.groups[0], true, &explanation.circle);
    let fits = advice::for_cause(expected.unwrap_or(account.name()));
    assert_eq!(advised.first().map(|one| one.advice.clone()), fits);
}
