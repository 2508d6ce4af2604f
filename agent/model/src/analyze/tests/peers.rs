//! What is said of the threads that the slowest requests waited for.

use guestscope_contract::Account;
use rstest::rstest;

use crate::{
    analyze::{Cause, Excess, Peers, Slow, TakenBy},
    phase::{Blame, Holder, Stopper, Wait},
};

const POLL: Cause = Cause::Account(Account::Poll);

/// A request that waited for 10 ms in an account, for a thread that was kept from running for part of that.
fn slow(account: Account, blame: Option<(Account, Option<Stopper>, u64)>) -> Slow {
    let blame = blame.map(|(account, stopped_by, ns)| Blame { tid: 9, account, stopped_by, ns, depth: 1 });
    let longest_wait = Some(Wait { account, blocked_ns: 10_000_000, blame, ..Wait::default() });
    let part = Excess { path: Vec::new(), cause: Cause::Account(account), excess_ns: 10_000_000 };
    Slow { excess_ns: 10_000_000, parts: vec![part], longest_wait, ..Slow::default() }
}

fn found(account: Account, stopped_by: Option<Stopper>, ns: u64, of_ns: u64) -> Peers {
    Peers { account, stopped_by, ns, of_ns }
}

const QUEUED: Option<(Account, Option<Stopper>, u64)> = Some((Account::Runq, None, 6_000_000));
const STOPPED: Option<(Account, Option<Stopper>, u64)> =
    Some((Account::Other, Some(Stopper::Signal), 9_000_000));
const A_LITTLE: Option<(Account, Option<Stopper>, u64)> = Some((Account::Runq, None, 2_000_000));

#[rstest]
#[case::queued(&[slow(Account::Poll, QUEUED), slow(Account::Poll, None)], Some(found(Account::Runq, None, 6_000_000, 20_000_000)))]
#[case::stopped(
    &[slow(Account::Poll, QUEUED), slow(Account::Poll, STOPPED)],
    Some(found(Account::Other, Some(Stopper::Signal), 9_000_000, 20_000_000))
)]
#[case::a_little(&[slow(Account::Poll, A_LITTLE)], None)]
#[case::of_another_cause(&[slow(Account::Net, QUEUED)], None)]
#[case::nobody(&[slow(Account::Poll, None)], None)]
#[case::none(&[], None)]
fn what_kept_them(#[case] slowest: &[Slow], #[case] expected: Option<Peers>) {
    assert_eq!(Peers::of(slowest, POLL), expected);
}

/// A request that was suspended for 10 ms, while a phase of another one had its thread for so long.
fn suspended(phase: Option<&str>, ns: u64) -> Slow {
    let holder = Some(Box::new(Holder { request: 1, phase: phase.map(Into::into), ns }));
    let part = Excess { path: Vec::new(), cause: Cause::Suspended, excess_ns: 10_000_000 };
    Slow { excess_ns: 10_000_000, parts: vec![part], holder, ..Slow::default() }
}

fn taken(phase: Option<&str>, ns: u64) -> TakenBy {
    TakenBy { phase: phase.map(Into::into), ns }
}

#[rstest]
#[case::one_phase(&[suspended(Some("rerank"), 8_000_000), suspended(Some("rerank"), 6_000_000)], Some(taken(Some("rerank"), 7_000_000)))]
#[case::mostly_one(&[suspended(Some("rerank"), 8_000_000), suspended(None, 6_000_000)], Some(taken(Some("rerank"), 4_000_000)))]
#[case::code_outside(&[suspended(None, 6_000_000)], Some(taken(None, 6_000_000)))]
#[case::a_little(&[suspended(Some("rerank"), 2_000_000)], None)]
#[case::not_suspended(&[Slow { holder: suspended(None, 9_000_000).holder, ..slow(Account::Poll, None) }], None)]
#[case::none(&[], None)]
fn what_had_their_threads(#[case] slowest: &[Slow], #[case] expected: Option<TakenBy>) {
    assert_eq!(TakenBy::of(slowest), expected);
}
