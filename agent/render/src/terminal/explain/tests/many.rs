//! What stands for many: threads and processes of one name, times of I/Os at once, a request that hangs for
//! far longer than the others differ.

use guestscope_contract::Account;
use rstest::rstest;

use super::*;
use crate::{
    analyze::Openness,
    phase::{Blame, Doing, Fate, OpenWait, QueueUser, ThreadId, Unfinished},
};

/// Ten of 100 requests that take 60 ms longer in an account, in the phase `work`.
fn slow(account: Account) -> Vec<Request> {
    let request = |number: u64| {
        let mut steps = vec![Step::Spend(Account::Cpu, 1_000_000)];
        if number % 10 == 4 {
            steps.push(Step::Spend(account, 60_000_000));
        }
        Sample::new(number, number * 100_000_000, vec![Step::Nest("work", steps)]).build()
    };
    (0..100).map(request).collect()
}

/// The words of the explanation from one that begins a line to the next line that begins.
fn words(explanation: &Explanation, facts: &ExplainFacts, begin: &str) -> String {
    let text = render_explanation(explanation, facts, UNICODE);
    let mut lines = text.lines().skip_while(|line| !line.starts_with(begin));
    let first = lines.next().unwrap_or_default();
    let more = lines.take_while(|line| line.starts_with(' '));
    std::iter::once(first).chain(more).flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Threads of one name become one where they are more than would be named, and only then; so do processes.
#[rstest]
#[case::four(&["cat"; 4], "who other: 24.0 ms in 4 waits of the 10 slowest requests, ended by 4 tasks (cat)")]
#[case::three(&["cat"; 3], "ended by thread 900 (cat) (6.00 ms), ended by thread 901 (cat) (6.00 ms), ended by")]
#[case::another(&["cat", "cat", "ps", "cat", "cat"], "ended by 4 tasks (cat) (24.0 ms), ended by thread 902 (ps) (6.00 ms)")]
fn threads_of_one_name(#[case] names: &[&str], #[case] expected: &str) {
    let requests = slow(Account::Other);
    let one = |(index, name): (usize, &&str)| Wait {
        waker_tid: Some(900 + index as u32),
        waker_comm: Some((*name).into()),
        ..wait(&requests[94], "work", Account::Other, [6_000, 0, 0])
    };
    let explanation = explained(&requests, names.iter().enumerate().map(one).collect(), Wanted::Slowest(10));
    let who = words(&explanation, &facts(), "who");
    assert!(who.contains(expected), "{who}");
}

/// A thread that had the work, and what delayed it; threads of one name are one.
#[rstest]
#[case::slept(Some((900, 1)), "for thread 900 (pool), which had the work and slept for 5.00 ms of it")]
#[case::third(
    Some((901, 1)),
    "for thread 900 (pool), which had the work and waited for thread 901, which slept for 5.00 ms of it"
)]
#[case::computed(None, "for thread 900 (pool), which had the work")]
fn a_thread_that_had_the_work(#[case] slept: Option<(u32, u32)>, #[case] expected: &str) {
    let requests = slow(Account::Poll);
    let root = requests[94].root();
    let worker = |account, (from_ms, to_ms): (u64, u64), waker_tid: Option<u32>| Wait {
        thread: ThreadId { tid: 900, ..root.thread },
        start_ns: root.start_ns + from_ms * 1_000_000,
        blocked_ns: (to_ms - from_ms) * 1_000_000,
        duration_ns: (to_ms - from_ms) * 1_000_000,
        account,
        waker_tid,
        ..Wait::default()
    };
    let own = Wait {
        waker_tid: Some(900),
        waker_comm: Some("pool".into()),
        ..wait(&requests[94], "work", Account::Poll, [6_000, 0, 0])
    };
    let mut waits = vec![own, worker(Account::Lock, (0, 1), Some(root.thread.tid))];
    if let Some((tid, depth)) = slept {
        let blame = Blame { tid, account: Account::Sleep, stopped_by: None, ns: 5_000_000, depth };
        let account = if tid == 900 { Account::Sleep } else { Account::Lock };
        let one = worker(account, (2, 7), None);
        waits.push(Wait { blame: (tid != 900).then_some(blame), ..one });
    }
    let explanation = explained(&requests, waits, Wanted::Slowest(10));
    let who = words(&explanation, &facts(), "who");
    assert!(who.ends_with(expected), "{who}");
}

#[test]
fn processes_of_one_name() {
    let requests = slow(Account::Runq);
    let one = |pid: u32| {
        let mut one = wait(&requests[94], "work", Account::Runq, [0, 0, 6_000]);
        one.users.listed = vec![QueueUser { comm: "stress-ng".into(), pid, ns: 6_000_000 }];
        one
    };
    let explanation = explained(&requests, (901..905).map(one).collect(), Wanted::Slowest(10));
    let who = words(&explanation, &facts(), "who");
    assert!(who.ends_with("behind 4 processes (stress-ng)"), "{who}");
}

/// Queues and devices of I/Os at once take longer than the request waited: then the times are called sums.
#[rstest]
#[case::at_once(80_000_000, "9 I/Os instead of 0, summed up, 80.0 ms in queues and 1.00 ms in the device")]
#[case::one_after_the_other(30_000_000, "9 I/Os instead of 0, 30.0 ms in queues and 1.00 ms in the device")]
fn times_of_many_ios(#[case] queue_ns: u64, #[case] expected: &str) {
    let mut requests = slow(Account::BlockIo);
    let counts = &mut requests[94].phases[1].counts;
    (counts.block_io, counts.block_queue_ns, counts.block_device_ns) = (9, queue_ns, 1_000_000);
    let explanation = explained(&requests, Vec::new(), Wanted::Number(94));
    let facts = ExplainFacts { shown: Shown::One, ..facts() };
    let told = words(&explanation, &facts, "request #94");
    assert!(told.contains(expected), "{told}");
}

/// Where the kernel was busy with reads, their excess is more than the waits: how much more is said.
#[test]
fn reads_that_kept_the_kernel_busy() {
    let mut requests = slow(Account::BlockIo);
    for phase in &mut requests[94].phases {
        phase.accounts.0[Account::BlockIo as usize] -= 50_000_000;
        phase.accounts.0[Account::Cpu as usize] += 50_000_000;
        phase.counts.sample_syscall = 25;
        (phase.counts.block_io, phase.counts.block_device_ns) = (9, 40_000_000);
        phase.counts.block_read_bytes = 36_864;
    }
    let explanation = explained(&requests, Vec::new(), Wanted::Number(94));
    let facts = ExplainFacts { shown: Shown::One, ..facts() };
    let told = words(&explanation, &facts, "request #94");
    assert!(told.contains("block_io +40.0 ms"), "{told}");
    let busy = "30.0 ms of it in the kernel or taken by the hypervisor, while reads were under way";
    assert!(told.contains(busy), "{told}");
}

/// Beside a request that hung for 100 times what the others differ by these get no advice.
#[rstest]
#[case::for_long(7_000_000_000, false)]
#[case::not_so_long(5_000_000_000, true)]
fn a_request_that_hangs_for_far_longer(#[case] age_ns: u64, #[case] has_advice: bool) {
    let requests = slow(Account::Lock);
    let explanation = explained(&requests, Vec::new(), Wanted::Slowest(10));
    let wait = OpenWait {
        account: Account::Lock,
        syscall: None,
        stopped_by: None,
        since_ns: 0,
        object: None,
        is_private: None,
    };
    let hung = Unfinished {
        id: 1,
        name: "serve".into(),
        request: 7,
        path: Vec::new(),
        thread: ThreadId { tid: 9, tgid: 9, born_ns: 0 },
        start_ns: 0,
        phase_start_ns: 0,
        until_ns: age_ns,
        doing: Doing::Waits(wait),
        others: None,
        fate: Fate::Open,
    };
    let hidden = Hidden { requests: vec![(Openness::Hung, hung)], open: 1, ..Hidden::default() };
    let text = render_explanation(&explanation, &ExplainFacts { hidden, ..facts() }, UNICODE);
    assert!(text.starts_with("1 request is still open: serve 7"), "{text}");
    assert_eq!(text.contains("\nadvice "), has_advice, "{text}");
}
