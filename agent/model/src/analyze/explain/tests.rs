//! What an explanation promises, over made-up and random requests and waits.
//!
//! Cases that were thought of stand here, random ones in [`properties`]. Yields no timings.

mod crowded;
mod culprits;
mod meanwhile;
mod moved;
mod outside;
mod properties;
mod shares;
mod worked;
mod workers;

use std::convert::Infallible;

use guestscope_contract::{Account, metrics::Quantity};
use rstest::rstest;

use super::{
    super::{
        Band, Headline, Overlay,
        samples::{self, Sample, Step, inference, process, renamed},
    },
    *,
};
use crate::{
    analyze::Cause,
    phase::{Blame, Ending, InFlight, Phase, QueueUser, ThreadId, TraceIds, WaitedIo},
};

fn explain(requests: &[Request], wanted: Wanted) -> Explanation {
    let explanation = Explanation::new(|| requests.iter().cloned(), wanted);
    one_story(&explanation);
    explanation
}

fn with_waits(mut explanation: Explanation, waits: Vec<Wait>) -> Explanation {
    let Ok(()) = explanation.add_waits(waits.into_iter().map(Ok::<_, Infallible>));
    one_story(&explanation);
    explanation
}

/// Headline, tail and advice begin with the same cause, whatever is explained; advice is there where a cause
/// is named.
fn one_story(explanation: &Explanation) {
    for (group, explained) in explanation.summary.groups.iter().zip(&explanation.groups) {
        let advised = explained.advised(group, false, &explanation.circle);
        let leading = explained.leading().map(|(_, one)| one.cause.name());
        let headline = match explained.headline(group) {
            Headline::Cause { cause, .. } => Some(cause.name()),
            Headline::Shared { parts, .. } => parts.first().map(|(cause, _)| cause.name()),
            Headline::Mixed { causes, .. } => causes.first().map(|(cause, _)| cause.name()),
            Headline::TooFew { .. } | Headline::Alike { .. } => None,
        };
        assert!(headline.is_none() || leading.is_none() || headline == leading, "{headline:?} {leading:?}");
        if let Some(first) = headline.filter(|_| leading.is_some()) {
            assert_eq!(advised.first().map(|one| one.cause), Some(first));
        }
        if let Some(first) = advised.first() {
            assert_eq!(Some(first.cause), leading.or(headline).or(Some(first.cause)));
        }
    }
}

/// A request that works for 1 ms and then, if it is `late`, waits on this account for the given time.
fn one(number: u64, late: Option<(Account, u64)>) -> Request {
    let mut work = vec![Step::Spend(Account::Cpu, 1_000_000 + number % 7)];
    work.extend(late.map(|(account, ns)| Step::Spend(account, ns)));
    Sample::new(number, number * 50_000_000, vec![Step::Nest("work", work)]).build()
}

/// 100 requests; every tenth is late by so much on this account.
fn run_with(account: Account, ns: u64) -> Vec<Request> {
    (0..100).map(|number| one(number, (number % 10 == 4).then_some((account, ns)))).collect()
}

/// A reading may be given no more than it asks for.
#[test]
fn a_case_has_its_trace_whatever_else_is_blank() {
    let requests = run_with(Account::Lock, 9_000_000);
    let given = |needs: Needs| {
        let mut requests = requests.clone();
        for phase in requests.iter_mut().flat_map(|request| &mut request.phases) {
            let trace_id = if needs == Needs::Traces { phase.trace.trace_id } else { [0; 16] };
            phase.trace = TraceIds { trace_id, ..TraceIds::default() };
            Quantity::all().filter(|one| !needs.has(*one)).for_each(|one| phase.set(one, 0));
        }
        Ok::<_, Infallible>(requests.into_iter().map(Ok))
    };
    let Ok(explanation) = Explanation::read(given, Wanted::Slowest(3));
    assert_eq!(explanation.groups, explain(&requests, Wanted::Slowest(3)).groups);
    let traces = explanation.groups[0].cases.iter().map(|case| case.trace_id);
    assert!(traces.clone().count() == 3 && traces.into_iter().all(|trace| trace != [0; 16]));
}

/// In the innermost phase of the request; times blocked, out of quota and in the run queue, ns.
fn wait(request: &Request, account: Account, times: [u64; 3]) -> Wait {
    samples::wait(request.phases.last().expect("a request has phases"), account, times)
}

fn part(explanation: &Explanation, cause: Cause) -> &Part {
    let parts = explanation.groups[0].cases[0].phases.iter().flat_map(|phase| &phase.parts);
    parts.into_iter().find(|part| part.cause == cause).expect("the cause makes a part")
}

#[test]
fn the_slowest_come_first_and_their_parts_add_up() {
    let requests = inference(200);
    let explanation = explain(&requests, Wanted::Slowest(3));
    let cases = &explanation.groups[0].cases;
    assert_eq!(cases.iter().map(|case| case.request).collect::<Vec<_>>(), [193, 73, 173]);
    for (case, slow) in cases.iter().zip(&explanation.summary.groups[0].slowest) {
        assert_eq!((case.id, case.excess_ns, case.latency_ns), (slow.id, slow.excess_ns, slow.latency_ns));
        assert_eq!(case.dominant(), slow.dominant());
    }
    let first = &cases[0].phases[0];
    assert_eq!((first.path.clone(), first.parts[0].cause), (vec!["inference".into()], THROTTLED));
    assert_eq!((first.parts[0].ns, first.parts[0].typical_ns), (46_000_000 + 193 * 10_000, 0));
}

const THROTTLED: Cause = Cause::Account(Account::Throttled);

#[test]
fn the_tail_is_told_by_cause_and_by_phase() {
    let explanation = explain(&inference(200), Wanted::Slowest(1));
    let tails = &explanation.groups[0].tails;
    assert_eq!(tails.iter().map(|tail| tail.band).collect::<Vec<_>>(), [Band::P90, Band::P99]);
    for tail in tails {
        assert_eq!(tail.causes.iter().map(|one| one.excess_ns).sum::<i128>(), tail.excess_ns);
        assert_eq!(tail.parts.iter().map(|one| one.excess_ns).sum::<i128>(), tail.excess_ns);
        let leading = &tail.causes[0];
        assert_eq!((leading.cause, tail.parts[0].cause), (THROTTLED, THROTTLED));
        assert!(leading.share > 0.9 && tail.share_of(THROTTLED) > 0.9, "{leading:?}");
    }
    // 10 of 200 are throttled; the others above it waited in the run queue. A histogram cannot tell five of
    // those from the percentile itself.
    assert_eq!((tails[0].requests, tails[0].causes[0].requests), (15, 10));
    assert_eq!(tails[1].requests, tails[1].causes[0].requests);
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], false, &explanation.circle);
    assert_eq!(advised.iter().map(|one| one.cause).collect::<Vec<_>>(), ["throttled"]);
}

#[test]
fn a_wait_is_cut_into_what_it_was_for() {
    let mut requests = run_with(Account::Lock, 8_000_000);
    for phase in &mut requests[94].phases {
        for (account, ns) in [(Account::Throttled, 3_000_000), (Account::Runq, 2_000_000)] {
            phase.accounts.0[account as usize] += ns;
            phase.duration_ns += ns;
        }
    }
    let mut long = wait(&requests[94], Account::Lock, [8_000_000, 3_000_000, 2_000_000]);
    long.blame =
        Some(Blame { tid: 4711, account: Account::Sleep, stopped_by: None, ns: 7_900_000, depth: 1 });
    let elsewhere = wait(&requests[3], Account::Lock, [9_000_000, 0, 0]);
    let explanation = with_waits(explain(&requests, Wanted::Slowest(1)), vec![elsewhere, long]);
    let of = |account| {
        let part = part(&explanation, Cause::Account(account));
        let waits = part.evidence.waits.as_ref().expect("it is a wait's");
        assert_eq!((waits.total_ns, waits.count), (part.ns, 1));
        (waits.longest[0].after_ns, waits.by[0].clone())
    };
    let kept = Culprit::Kept(Blame { tid: 4711, account: Account::Sleep, stopped_by: None, ns: 0, depth: 1 });
    let by = |culprit, ns, kept_ns| By { culprit, count: 1, ns, kept_ns };
    assert_eq!(of(Account::Lock), (1_000_000, by(kept, 8_000_000, 7_900_000)));
    assert_eq!(of(Account::Throttled), (9_000_000, by(Culprit::Unknown, 3_000_000, 0)));
    let ran = Culprit::Ran { comm: "stress-ng".into(), pid: 990 };
    assert_eq!(of(Account::Runq), (12_000_000, by(ran, 2_000_000, 0)));
    // A thread known from nothing else has the name under which it had a CPU.
    assert!(explanation.threads.is_empty(), "neither 991 nor 4711 was seen: {:?}", explanation.threads);
}

#[test]
fn waits_below_the_threshold_are_left_to_the_account() {
    let requests = run_with(Account::BlockIo, 10_000_000);
    let disk = |ns, name: &str| {
        let io = WaitedIo { device: "254:0".into(), name: name.into(), ..WaitedIo::default() };
        Wait { io: Some(io), ..wait(&requests[94], Account::BlockIo, [ns, 0, 2_000]) }
    };
    let mut waits: Vec<Wait> = (0..6).map(|index| disk(1_000_000 + index, "vda")).collect();
    waits.push(disk(40_000, "vdb"));
    let explanation = with_waits(explain(&requests, Wanted::Number(94)), waits);
    let waits = part(&explanation, Cause::Account(Account::BlockIo)).evidence.waits.clone();
    let waits = waits.expect("there are some");
    // One of 40 us is less than a 200th of 10 ms.
    assert_eq!((waits.count, waits.total_ns), (6, 6_040_015));
    assert_eq!(
        waits.longest.iter().map(|one| one.ns).collect::<Vec<_>>(),
        [1_000_005, 1_000_004, 1_000_003, 1_000_002]
    );
    let names: Vec<_> = waits.by.iter().map(|by| (by.culprit.clone(), by.count)).collect();
    let device = |name: &str| Culprit::Device { name: name.into(), is_write: false, is_held: false };
    assert_eq!(names, [(device("vda"), 6), (device("vdb"), 1)]);
}

#[test]
fn whoever_there_is_no_room_for_is_summed_up() {
    let requests = run_with(Account::Runq, 60_000_000);
    let after = |pid: u32| {
        let mut one = wait(&requests[94], Account::Runq, [0, 0, 1_000_000]);
        (one.ran_before_tgid, one.ran_before_tid) = (pid, pid);
        one
    };
    let explanation = with_waits(explain(&requests, Wanted::Slowest(10)), (1..=50).map(after).collect());
    let case = explanation.groups[0].cases.iter().find(|case| case.request == 94).expect("it is slow");
    let waits = case.phases[0].parts[0].evidence.waits.as_ref().expect("there are some");
    assert_eq!((waits.count, waits.total_ns, waits.by.len()), (50, 50_000_000, 33));
    let others = By { culprit: Culprit::Others, count: 18, ns: 18_000_000, kept_ns: 0 };
    assert_eq!(waits.by[0], others);
}

/// Every tenth request spins for 20 ms in `work` while a helper has no CPU.
fn kept_by_a_helper() -> Vec<Request> {
    let late = |number: u64| {
        let steps = vec![
            Step::Nest("before", vec![Step::Spend(Account::Cpu, 5_000_000)]),
            Step::Nest("work", {
                let mut work = vec![Step::Spend(Account::Cpu, 2_000_000)];
                if number % 10 == 4 {
                    work.extend([Step::Spend(Account::Cpu, 20_000_000), Step::Kept(0, 20_000_000)]);
                }
                work
            }),
        ];
        Sample::new(number, number * 50_000_000, steps).build()
    };
    (0..100).map(late).collect()
}

#[test]
fn a_helper_is_shown_by_its_own_waits_within_the_phase_alone() {
    let requests = kept_by_a_helper();
    let request = &requests[4];
    // From the middle of `before` on.
    let of_helper = |tid: u32, tgid: u32| Wait {
        phase: None,
        root: None,
        thread: ThreadId { tid, tgid, born_ns: 1 },
        start_ns: request.root().start_ns + 2_000_000,
        ..wait(request, Account::Runq, [0, 0, 21_000_000])
    };
    let tgid = request.root().thread.tgid;
    let waits = vec![of_helper(4711, tgid), of_helper(5, 99), of_helper(request.root().thread.tid, tgid)];
    let mut explanation = with_waits(explain(&requests, Wanted::Number(4)), waits);
    let helper = part(&explanation, Cause::Helper(Account::Runq));
    assert_eq!((helper.excess_ns, helper.ns, helper.typical_ns), (20_000_000, 20_000_000, 0));
    let [waits] = helper.evidence.helpers.as_slice() else { panic!("{:?}", helper.evidence) };
    assert_eq!((waits.tid, waits.count, waits.ns), (4711, 1, 18_000_000), "3 ms lay in `before`");
    assert_eq!(waits.by[0].culprit, Culprit::Ran { comm: "stress-ng".into(), pid: 990 });
    let thread = |tid, born_ns, end_ns, comm: &str| {
        let id = ThreadId { tid, tgid, born_ns };
        let (accounts, counts) = (crate::phase::Accounts::default(), crate::phase::Counts::default());
        Thread { id, comm: comm.into(), end_ns, accounts, inside: accounts, counts, phases: 0, exited: true }
    };
    let start_ns = request.root().start_ns;
    // The same thread number before and after, and a thread that no evidence refers to.
    let threads = [
        thread(4711, 1, start_ns - 1, "before"),
        thread(4711, start_ns, u64::MAX, "worker"),
        thread(4711, u64::MAX, u64::MAX, "after"),
        thread(4712, 1, u64::MAX, "nobody"),
    ];
    let Ok(()) = explanation.add_threads(threads.into_iter().map(Ok::<_, Infallible>));
    let named = Named { comm: "worker".into(), pid: tgid };
    assert_eq!(explanation.threads.get(&4711), Some(&named));
    assert_eq!(explanation.threads.get(&4712), None);
}

#[test]
fn who_was_ahead_in_the_queue_is_named_with_its_own_cause() {
    let mut requests: Vec<Request> = Vec::new();
    // An open loop, one worker: a request every 10 ms takes 1 ms, but number 50 is throttled for 40 ms.
    let mut free_ns = 0;
    for number in 0..100 {
        let arrives_ns = 1_000_000_000 + number * 10_000_000;
        let start_ns = arrives_ns.max(free_ns);
        let mut steps = vec![Step::Spend(Account::Cpu, 1_000_000)];
        steps.extend((number == 50).then_some(Step::Spend(Account::Throttled, 40_000_000)));
        let sample = Sample { queued_ns: start_ns - arrives_ns, ..Sample::new(number, start_ns, steps) };
        requests.push(sample.build());
        free_ns = start_ns + requests[number as usize].root().duration_ns;
    }
    let explanation = explain(&requests, Wanted::Number(52));
    let queue = part(&explanation, Cause::Queue);
    assert_eq!((queue.excess_ns, queue.ns), (22_000_000, 22_000_000));
    let throttled = Ahead { request: 50, ns: 21_000_000, latency_ns: 41_000_000, cause: Some(THROTTLED) };
    let queued = Ahead { request: 51, ns: 1_000_000, latency_ns: 32_000_000, cause: Some(Cause::Queue) };
    assert_eq!(queue.evidence.ahead, [throttled, queued]);
}

#[test]
fn counts_stand_beside_the_typical_ones_of_the_same_phase() {
    let mut requests = run_with(Account::Cpu, 30_000_000);
    for (number, request) in requests.iter_mut().enumerate() {
        // The request's own phase has the counts of its nested one, and 3 more.
        let inner = if number == 94 { 16_384 } else { 12 };
        request.phases[1].counts.fault_minor = inner;
        request.phases[0].counts.fault_minor = inner + 3;
        request.phases[1].counts.sample_fault = if number == 94 { 15 } else { 0 };
        request.phases[0].counts.sample_fault = request.phases[1].counts.sample_fault;
    }
    let explanation = explain(&requests, Wanted::Number(94));
    let faults = part(&explanation, Cause::Overlay(Overlay::Fault));
    let compared = Compared { metric: crate::phase::Metric::FaultMinor, count: 16_384, typical: 12.0 };
    assert_eq!(faults.evidence.counts, [compared]);
    let sampled = faults.evidence.sampled.as_ref().expect("it was sampled");
    assert_eq!((sampled.samples, sampled.of), (15, 15));
    assert!(faults.excess_ns > 0 && sampled.low_ns < faults.ns && faults.ns < sampled.high_ns, "{faults:?}");
    // 15 samples at 499 Hz, and twice their square root.
    assert_eq!([sampled.low_ns, faults.ns, sampled.high_ns].map(|ns| ns / 1_000_000), [14, 30, 45]);
}

#[rstest]
#[case::alike(100, None, &[])]
#[case::too_few(12, Some(Account::Net), &[("net", Naming::Case)])]
#[case::too_few_and_alike(12, None, &[])]
#[case::enough(40, Some(Account::Net), &[("net", Naming::Slowest)])]
fn advice_is_given_where_something_stands_out(
    #[case] requests: u64,
    #[case] account: Option<Account>,
    #[case] expected: &[(&str, Naming)],
) {
    let late = |number: u64| account.filter(|_| number == 7).map(|account| (account, 9_000_000));
    let requests: Vec<Request> = (0..requests).map(|number| one(number, late(number))).collect();
    let explanation = explain(&requests, Wanted::Slowest(3));
    let advised = explanation.groups[0].advised(&explanation.summary.groups[0], false, &explanation.circle);
    assert_eq!(advised.iter().map(|one| (one.cause, one.naming)).collect::<Vec<_>>(), expected);
}

#[test]
fn a_request_is_found_by_its_number_or_it_is_said_why_not() {
    let mut requests = inference(30);
    requests[5].phases[0].ending = Ending::ThreadExited;
    requests[6] = renamed(requests[6].clone(), crate::phase::WARMUP);
    requests[7].phases[0].duration_ns += 1;
    requests.push(process(99_999, "python", 812, &[(Account::Cpu, 5)]));
    let of = |number| {
        let explanation = explain(&requests, Wanted::Number(number));
        (explanation.has_cases(), explanation.not_counted, explanation.numbers)
    };
    let numbers = Some(Numbers { lowest: 0, highest: 29 });
    assert_eq!(of(4), (true, None, numbers));
    assert_eq!(of(5), (false, Some(NotCounted::Unfinished), numbers));
    assert_eq!(of(6), (false, Some(NotCounted::Warmup), numbers));
    assert_eq!(of(7), (false, Some(NotCounted::Damaged), numbers));
    assert_eq!(of(30), (false, None, numbers));
    assert!(!explain(&[], Wanted::Slowest(3)).has_cases());
}

#[test]
fn kinds_of_requests_without_end_are_explained_as_one() {
    let requests: Vec<Request> =
        (0..50).map(|number| renamed(one(number, None), &format!("r{number}"))).collect();
    let explanation = explain(&requests, Wanted::Slowest(2));
    assert_eq!(explanation.groups.len(), explanation.summary.groups.len());
    let shared: Vec<_> = explanation.groups.iter().map(|group| group.cases.len()).collect();
    assert_eq!(shared[0], 2, "the last group has 42 of them");
}
