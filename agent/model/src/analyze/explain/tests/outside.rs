//! Who is outside and who is not: holders of the address space's lock, and those who had the CPUs of helpers.
//! Also advice that would stand twice.

use std::convert::Infallible;

use guestscope_contract::Account;
use rstest::rstest;

use super::{kept_by_a_helper, run_with, wait};
use crate::{
    analyze::{
        advice,
        explain::{Advised, Circle, Explanation, Naming, Wanted, ending::once},
        samples,
    },
    phase::{QueueUser, ThreadId, Wait},
};

/// Readers of /proc/PID/smaps are not observed; threads of the run that map memory are. Where no thread is
/// known, neither is said.
#[rstest]
#[case::readers(&[801, 802], &[7], advice::FROM_OUTSIDE)]
#[case::own_threads(&[801, 802], &[7, 801, 802], advice::ADDRESS_SPACE)]
#[case::mostly_readers(&[801, 802, 803], &[7, 801], advice::FROM_OUTSIDE)]
#[case::nobody_is_known(&[801, 802], &[], advice::ADDRESS_SPACE)]
fn a_holder_from_outside_gets_advice_of_its_own(
    #[case] holders: &[u32],
    #[case] observed: &[u32],
    #[case] expected: &str,
) {
    let requests = run_with(Account::Other, 10_000_000);
    let long = |&holder: &u32| Wait {
        waker_tid: Some(holder),
        waker_syscall: Some(libc::SYS_read as u32),
        syscall: Some(libc::SYS_munmap as u32),
        ..wait(&requests[94], Account::Other, [3_000_000, 0, 0])
    };
    let mut explanation = Explanation::new(|| requests.iter().cloned(), Wanted::Number(94));
    let Ok(()) = explanation.add_waits(holders.iter().map(long).map(Ok::<_, Infallible>));
    let threads = observed.iter().map(|&tid| Ok::<_, Infallible>(samples::thread(tid, 7, "python", &[])));
    let Ok(()) = explanation.add_threads(threads);
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised.first().map(|one| one.advice.clone()), advice::for_cause(expected));
}

/// A library that spins is described once, whichever cause comes first; other advice stands as it is.
#[rstest]
#[case::run_queue_first([advice::OWN_SPINNING, advice::SPINNING])]
#[case::own_first([advice::SPINNING, advice::OWN_SPINNING])]
fn the_second_advice_on_spinning_refers_to_the_first(#[case] keys: [&str; 2]) {
    let mut circle = Circle::default();
    circle.spun = vec![("libgomp", 9)];
    let of = |advice| Advised { cause: "cpu.spin", group: None, naming: Naming::Tail, advice };
    let long = keys.map(|key| advice::for_spinning(key, &circle.spun).expect("it is known"));
    let other = advice::for_cause("net").expect("there is some");
    let [first, second] = long.clone();
    let mut advised = [other.clone(), first, other.clone(), second].map(of).to_vec();
    once(&mut advised);
    let short = advice::for_cause(advice::SPINNING_AS_TOLD).expect("there is some");
    let [first, _] = long;
    assert_eq!(advised, [other.clone(), first, other, short].map(of));
    // One alone stays.
    let mut advised = vec![advised[1].clone()];
    once(&mut advised);
    assert!(advised[0].advice.text.contains("GOMP_SPINCOUNT"), "{advised:?}");
}

/// A thread that asks for Python's interpreter lock waits for 5 ms at a time; other limits are others'.
#[rstest]
#[case::in_turns(5_060_000, 4, advice::INTERPRETER)]
#[case::another_limit(7_000_000, 4, "lock")]
#[case::too_few(5_060_000, 2, "lock")]
fn waits_in_turns_are_those_for_the_interpreter_lock(
    #[case] ns: u64,
    #[case] turns: u64,
    #[case] expected: &str,
) {
    let requests = run_with(Account::Lock, 60_000_000);
    let start_ns = requests[94].phases.last().expect("it has phases").start_ns;
    let turn = |number: u64| {
        let is_last = number + 1 == turns;
        Wait {
            start_ns: start_ns + number * (ns + 1_000),
            waker_tid: is_last.then_some(853),
            argument: Some(0x1000),
            is_limited: true,
            ..wait(&requests[94], Account::Lock, [if is_last { 100_000 } else { ns }, 0, 0])
        }
    };
    let mut explanation = Explanation::new(|| requests.iter().cloned(), Wanted::Number(94));
    let Ok(()) = explanation.add_waits((0..turns).map(turn).map(Ok::<_, Infallible>));
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised.first().map(|one| one.advice.clone()), advice::for_cause(expected));
}

/// A helper without a CPU gets advice on those who had it, as the request's own thread does.
#[rstest]
#[case::strangers(991, "A worker of the process had no CPU")]
#[case::own_threads(0, "Its own threads had the CPUs")]
#[case::agent(802, "guestscope itself had the CPU")]
fn advice_on_helpers_follows_from_who_had_the_cpu(#[case] pid: u32, #[case] expected: &str) {
    let requests = kept_by_a_helper();
    let own = requests[4].root().thread.tgid;
    let mut kept = Wait {
        phase: None,
        root: None,
        thread: ThreadId { tid: 4_711, tgid: own, born_ns: 1 },
        ..wait(&requests[4], Account::Runq, [0, 0, 20_000_000])
    };
    let pid = if pid == 0 { own } else { pid };
    kept.users.listed = vec![QueueUser { comm: "some".into(), pid, ns: 20_000_000 }];
    let mut explanation = Explanation::new(|| requests.iter().cloned(), Wanted::Number(4));
    let Ok(()) = explanation.add_waits(std::iter::once(Ok::<_, Infallible>(kept)));
    explanation.circle.agent_pid = Some(802);
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], true, &explanation.circle);
    assert_eq!(advised[0].cause, "helper.runq");
    assert!(advised[0].advice.text.starts_with(expected), "{advised:?}");
}
