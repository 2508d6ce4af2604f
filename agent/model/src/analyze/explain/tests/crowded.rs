//! Threads of a run that are in each other's way on the CPUs of a limit, and others that are there.

use std::convert::Infallible;

use guestscope_contract::Account;
use rstest::rstest;

use super::{explain, run_with, wait, with_waits};
use crate::{
    analyze::{Cause, explain::Wanted, samples},
    limits::{Kind, Limit},
    phase::QueueUser,
};

/// The explained requests waited behind their own process, another one of the run, the agent, and a stranger,
/// for so many ms; threads with the limit stood in run queues for so long in all, where all requests waited
/// for 600 ms.
#[rstest]
#[case::own([9, 0, 0, 1], 160, true)]
#[case::workers([0, 6, 0, 4], 160, true)]
#[case::beside_strangers([2, 1, 0, 7], 160, true)]
#[case::strangers([1, 1, 0, 8], 160, false)]
#[case::agent([0, 0, 9, 1], 160, false)]
#[case::threads_without_the_limit([9, 0, 0, 1], 140, false)]
#[case::nobody([0, 0, 0, 0], 160, false)]
fn threads_in_each_others_way(#[case] used_ms: [u64; 4], #[case] hit_ms: u64, #[case] is_it: bool) {
    let requests = run_with(Account::Runq, 60_000_000);
    let mut one = wait(&requests[94], Account::Runq, [0, 0, 10_000_000]);
    (one.ran_before_tid, one.ran_before_tgid) = (0, 0);
    let pids = [one.thread.tgid, 801, 802, 803];
    let user = |(pid, ms)| QueueUser { comm: "some".into(), pid, ns: ms * 1_000_000 };
    one.users.listed = pids.into_iter().zip(used_ms).filter(|(_, ms)| *ms > 0).map(user).collect();
    let mut explanation = with_waits(explain(&requests, Wanted::Slowest(10)), vec![one]);
    explanation.circle.agent_pid = Some(802);
    let threads = [pids[0], 801].map(|pid| Ok::<_, Infallible>(samples::thread(pid, pid, "worker", &[])));
    let Ok(()) = explanation.add_threads(threads.into_iter());
    let mask = Limit { kind: Kind::Cpus, hit_ns: hit_ms * 1_000_000, ..Limit::default() };
    let limits = [Limit { kind: Kind::Quota, hit_ns: u64::MAX, ..Limit::default() }, mask];
    let (group, circle) = (&explanation.summary.groups[0], &explanation.circle);
    let found = explanation.groups[0].crowded(group, circle, &limits);
    assert_eq!(found.is_some(), is_it, "{found:?}");
    if let Some(found) = found {
        let share = (used_ms[0] + used_ms[1]) as f64 / used_ms.iter().sum::<u64>() as f64;
        assert_eq!(found.limit.kind, Kind::Cpus);
        assert!((found.crowded.unwrap_or(0.0) - share).abs() < 1e-9, "{found:?}");
        assert_eq!(found.cause, Cause::Account(Account::Runq));
    }
}
