//! The load generator against workloads whose times are known: on a clock that only they move, and on the
//! kernel's where threads or real sleeps are the point. No test judges how fast this machine is.

use std::{thread, time::Duration};

use proptest::prelude::*;
use rstest::rstest;

use super::{
    Measured, Plan, Target, Workload,
    arrivals::Arrivals,
    clock::{Clock, Monotonic, virtual_clock::Virtual},
    crew::{Course, with_crew},
    dispenser::arrivals_of,
    early_stopping, percentile, run,
    scenario::Scenario,
    summary::Summary,
};
use crate::{digest::Digest, error::Error};

pub(super) fn ms(count: u64) -> u64 {
    count * 1_000_000
}

/// A single stream of `requests` requests, without warm-up.
pub(super) fn plan(requests: u64) -> Plan {
    Plan {
        scenario: Scenario::SingleStream,
        requests,
        duration_ns: 0,
        warmup: 0,
        workers: 1,
        qps: None,
        target: Target { percentile: 99.0, latency_ns: ms(100) },
        find_peak: false,
        seed: 1,
        progress: false,
    }
}

fn server(requests: u64, qps: f64) -> Plan {
    Plan { scenario: Scenario::Server, qps: Some(qps), ..plan(requests) }
}

#[rstest]
#[case::counted(Scenario::SingleStream, 0, false, false)]
#[case::lasting(Scenario::SingleStream, 1, false, true)]
#[case::all_at_once(Scenario::Offline, 1, false, true)]
#[case::scheduled(Scenario::Server, 1, false, false)]
#[case::looked_for(Scenario::Server, 0, true, true)]
fn speed_decides_how_many_requests_there_are(
    #[case] scenario: Scenario,
    #[case] duration_ns: u64,
    #[case] find_peak: bool,
    #[case] expected: bool,
) {
    assert_eq!(Plan { scenario, duration_ns, find_peak, ..plan(1) }.is_of_speed(), expected);
}

/// A workload whose request takes `takes_ns`, an eighth of it before and after inference.
struct Takes<'c> {
    clock: &'c Virtual,
    takes_ns: fn(u64) -> u64,
}

impl Workload for Takes<'_> {
    type Input = u64;
    type Output = u64;

    fn preprocess(&mut self, request: u64) -> Result<u64, Error> {
        self.clock.advance((self.takes_ns)(request) / 8);
        Ok(request)
    }

    fn infer(&mut self, request: u64) -> Result<u64, Error> {
        let ns = (self.takes_ns)(request);
        self.clock.advance(ns - 2 * (ns / 8));
        Ok(request)
    }

    fn postprocess(&mut self, request: u64, outputs: &mut Digest) -> Result<(), Error> {
        self.clock.advance((self.takes_ns)(request) / 8);
        outputs.u64(request);
        Ok(())
    }
}

/// Runs the workload on a clock that nothing else moves.
fn simulate(plan: &Plan, clock: &Virtual, takes_ns: fn(u64) -> u64) -> Measured {
    run(plan, clock, &mut Takes { clock, takes_ns }, &|| unreachable!("one worker")).unwrap()
}

/// Latencies in a queue with one server: each request begins when it has arrived and the one before is done.
fn queued(arrivals_ns: impl Iterator<Item = u64>, takes_ns: fn(u64) -> u64) -> Vec<u64> {
    let mut free_ns = 0;
    let latency = |(number, arrival_ns): (usize, u64)| {
        free_ns = free_ns.max(arrival_ns) + takes_ns(number as u64);
        free_ns - arrival_ns
    };
    arrivals_ns.enumerate().map(latency).collect()
}

/// Service time: 2 ms, and once half a second.
fn stalls(number: u64) -> u64 {
    if number == 300 { ms(500) } else { ms(2) }
}

#[test]
fn a_stall_is_seen_by_every_request_that_arrived_in_it() {
    let measured = simulate(&server(1000, 100.0), &Virtual::default(), stalls);
    let latencies = measured.latencies_ns();
    assert_eq!(latencies, queued(Arrivals::new(1, 100.0).take(1000), stalls));

    // Arrivals during the stalled request wait at least until its end.
    let stalled = measured.records[300];
    let hit: Vec<_> =
        measured.records[301..].iter().filter(|record| record.scheduled_ns < stalled.end_ns).collect();
    for record in &hit {
        assert!(record.latency_ns() > stalled.end_ns - record.scheduled_ns);
        assert!(record.queue_ns() >= stalled.end_ns - record.scheduled_ns, "and it waited in the queue");
    }
    // Arrivals did not slow down meanwhile: 100 per second for half a second.
    let arrived = |ns: &u64| stalled.scheduled_ns < *ns && *ns < stalled.end_ns;
    let scheduled = Arrivals::new(1, 100.0).take(1000).filter(arrived).count();
    assert_eq!(hit.len(), scheduled);
    assert!((30..=75).contains(&scheduled), "{scheduled}");
    assert!(latencies.iter().filter(|ns| **ns > ms(100)).count() > 30);

    // Coordinated omission: in a closed loop one request is slow, and no other one shows it.
    let closed = simulate(&plan(1000), &Virtual::default(), stalls);
    assert_eq!(closed.latencies_ns().iter().filter(|ns| **ns > ms(2)).count(), 1);
}

/// Sleeps for half a second in the first request, and records when.
struct Sleeps(Option<(u64, u64)>);

impl Workload for Sleeps {
    type Input = u64;
    type Output = ();

    fn preprocess(&mut self, request: u64) -> Result<u64, Error> {
        Ok(request)
    }

    fn infer(&mut self, request: u64) -> Result<(), Error> {
        if request == 0 {
            let begin_ns = Monotonic.now_ns();
            thread::sleep(Duration::from_millis(500));
            self.0 = Some((begin_ns, Monotonic.now_ns()));
        }
        Ok(())
    }

    fn postprocess(&mut self, (): (), _: &mut Digest) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn a_real_stall_moves_no_arrival_and_hides_in_no_request() {
    let mut sleeps = Sleeps(None);
    // 2.4 s: some arrive in the stall even if this thread is held for nearly 2 s before the stall.
    let measured = run(&server(240, 100.0), &Monotonic, &mut sleeps, &|| unreachable!("one worker")).unwrap();
    let offsets: Vec<u64> =
        measured.records.iter().map(|record| record.scheduled_ns - measured.start_ns).collect();
    assert_eq!(offsets, Arrivals::new(1, 100.0).take(240).collect::<Vec<u64>>());
    let (begin_ns, end_ns) = sleeps.0.expect("request 0 was run");
    let within = |ns: u64| begin_ns < ns && ns < end_ns;
    let hit: Vec<_> = measured.records.iter().filter(|record| within(record.scheduled_ns)).collect();
    let expected = offsets.iter().filter(|offset| within(measured.start_ns + **offset)).count();
    assert!(expected > 0 && hit.len() == expected);
    for record in hit {
        assert!(record.begin_ns >= end_ns && record.latency_ns() >= end_ns - record.scheduled_ns);
    }
}

#[test]
fn phases_and_queue_cover_a_request() {
    // Looking at the clock takes 100 ns.
    let clock = Virtual { reading_ns: 100, ..Virtual::default() };
    let measured = simulate(&server(500, 5000.0), &clock, |_| 100_000);
    assert!(measured.queues_ns().iter().any(|ns| *ns > 100_000), "some waited");
    for record in &measured.records {
        assert_eq!(
            record.queue_ns() + record.phase_ns.iter().sum::<u64>(),
            record.latency_ns(),
            "{record:?}"
        );
        assert_eq!(record.phase_ns, [12_600, 75_100, 12_600], "each with its own look, 12.5 us and 75 us");
    }
}

/// Records its calls.
#[derive(Default)]
struct Recorder(Vec<String>);

impl Workload for Recorder {
    type Input = u64;
    type Output = u64;

    fn preprocess(&mut self, request: u64) -> Result<u64, Error> {
        self.0.push(format!("preprocess {request}"));
        Ok(request)
    }

    fn infer(&mut self, input: u64) -> Result<u64, Error> {
        self.0.push(format!("infer {input}"));
        Ok(input)
    }

    fn postprocess(&mut self, output: u64, outputs: &mut Digest) -> Result<(), Error> {
        self.0.push(format!("postprocess {output}"));
        outputs.u64(output);
        Ok(())
    }
}

#[test]
fn warm_up_comes_first_and_leaves_no_trace() {
    let mut recorder = Recorder::default();
    let plan = Plan { warmup: 1, ..plan(2) };
    let measured = run(&plan, &Monotonic, &mut recorder, &|| unreachable!("one worker")).unwrap();
    let steps = ["preprocess", "infer", "postprocess"];
    let expected: Vec<String> =
        [0, 0, 1].iter().flat_map(|n| steps.map(|step| format!("{step} {n}"))).collect();
    assert_eq!(recorder.0, expected);
    assert_eq!(measured.records.iter().map(|record| record.number).collect::<Vec<_>>(), [0, 1]);
    assert!(measured.elapsed_ns >= measured.latencies_ns().iter().sum());
}

#[test]
fn workers_share_the_requests_and_give_the_same_outputs() {
    let outputs = |scenario, workers, qps| {
        let plan = Plan { scenario, workers, qps, warmup: 2, ..plan(200) };
        let measured = run(&plan, &Monotonic, &mut Recorder::default(), &|| Ok(Recorder::default())).unwrap();
        let numbers: Vec<u64> = measured.records.iter().map(|record| record.number).collect();
        assert_eq!(numbers, (0..200).collect::<Vec<u64>>(), "each once");
        measured.outputs(&plan)
    };
    let alone = outputs(Scenario::Offline, 1, None);
    assert_eq!(outputs(Scenario::Offline, 4, None), alone);
    assert_eq!(outputs(Scenario::Server, 3, Some(5000.0)), alone);
    assert_eq!(outputs(Scenario::MultiStream, 1, None), alone);
}

#[test]
fn how_fast_it_went_is_not_in_the_hash_of_outputs() {
    let plan = Plan { duration_ns: ms(100), ..plan(5) };
    let outputs = |plan: &Plan, takes_ns| {
        let clock = Virtual::default();
        let measured = simulate(plan, &clock, takes_ns);
        (measured.records.len(), measured.outputs(plan))
    };
    let (fast, slow) = (outputs(&plan, |_| ms(2)), outputs(&plan, |_| ms(4)));
    assert_eq!((fast.0, slow.0), (51, 26), "the last one begins at 100 ms");
    assert_eq!(fast.1, slow.1);
    assert_ne!(outputs(&Plan { requests: 6, ..plan.clone() }, |_| ms(4)).1, fast.1);
    // With a schedule that alone decides the number, all requests count.
    let open = Plan { duration_ns: ms(1_000), ..server(1, 50.0) };
    assert_ne!(outputs(&open, |_| ms(2)).1, outputs(&server(1, 50.0), |_| ms(2)).1);
}

#[test]
fn the_bound_is_work_where_it_decides_the_rate() {
    let hash = |plan: &Plan| {
        let mut hash = Digest::default();
        plan.describe(&mut hash);
        hash
    };
    let fixed = server(100, 50.0);
    let targets =
        [(99.0, ms(50)), (90.0, ms(100))].map(|(percentile, latency_ns)| Target { percentile, latency_ns });
    let peak = Plan { find_peak: true, ..fixed.clone() };
    for target in targets {
        assert_eq!(hash(&Plan { target, ..fixed.clone() }), hash(&fixed));
        assert_ne!(hash(&Plan { target, ..peak.clone() }), hash(&peak));
    }
}

#[test]
fn a_duration_and_a_number_are_both_kept() {
    let clock = Virtual::default;
    let closed = |requests, duration_ns| {
        let measured = simulate(&Plan { duration_ns, ..plan(requests) }, &clock(), |_| ms(10));
        measured.records.len()
    };
    assert_eq!(closed(7, 0), 7);
    assert_eq!(
        closed(1, ms(100)),
        11,
        "the eleventh begins at 100 ms: LoadGen's last one does not begin earlier"
    );
    assert_eq!(closed(1, ms(101)), 12);
    assert_eq!(closed(50, ms(100)), 50);
    let open = Plan { duration_ns: ms(10_000), ..server(1, 50.0) };
    let measured = simulate(&open, &clock(), |_| ms(1));
    assert_eq!(measured.records.len() as u64, arrivals_of(&open, 50.0));
    let offsets: Vec<u64> = measured.records.iter().map(|record| record.scheduled_ns).collect();
    let (last, before) = offsets.split_last().unwrap();
    assert!(
        *last >= ms(10_000) && before.iter().all(|ns| *ns < ms(10_000)),
        "the last is LoadGen's closing one"
    );
}

#[test]
fn a_trial_ends_when_it_cannot_hold_any_more() {
    let clock = Virtual::default();
    let plan = Plan { target: Target { percentile: 99.0, latency_ns: ms(5) }, ..server(1000, 1000.0) };
    let mut first = Takes { clock: &clock, takes_ns: |_| ms(2) };
    let another = || unreachable!("one worker");
    let measured = with_crew(&plan, &clock, &mut first, &another, |crew| {
        crew.run(&plan, Course::trial(Some(1000.0), Some(2)))
    });
    let measured = measured.unwrap();
    assert!(measured.stopped);
    let late = measured.latencies_ns().iter().filter(|ns| **ns > ms(5)).count();
    assert_eq!(late, 3, "one more than may be, and not a fourth");
}

#[test]
fn the_peak_is_where_the_tail_of_the_queue_meets_the_bound() {
    let takes = |_| ms(10);
    let plan = Plan { scenario: Scenario::Server, find_peak: true, ..plan(2000) };
    let measured = simulate(&plan, &Virtual::default(), takes);
    let peak = measured.peak.clone().expect("it was looked for");
    // The same queue by hand: it holds at the peak and fails just above.
    let holds = |qps: f64| {
        let mut latencies = queued(Arrivals::new(plan.seed, qps).take(2000), takes);
        latencies.sort_unstable();
        let late = latencies.iter().filter(|ns| **ns > ms(100)).count() as u64;
        latencies[1980] <= ms(100) && Some(late) <= early_stopping::most_late(2000, 99.0)
    };
    assert!(holds(peak.qps) && !holds(peak.fails_at_qps), "{peak:?}");
    // One worker can do 100 per second, and a queue that long needs fewer.
    assert!(50.0 < peak.qps && peak.qps < 100.0, "{peak:?}");
    assert_eq!((measured.qps, measured.records.len()), (Some(peak.qps), 2000));
    assert!(Summary::new(&plan, 1, &measured).verdict() == Some(true));
    assert!(
        peak.trials.iter().any(|trial| !trial.holds && trial.requests < 2000),
        "hopeless trials are short"
    );
}

proptest! {
    /// Any schedule and any service times: latencies are those of the queue, whatever the requests take.
    #[test]
    fn latencies_are_those_of_a_queue(seed: u64, qps in 10.0..2000.0_f64) {
        let takes: fn(u64) -> u64 = |number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let plan = Plan { seed, ..server(200, qps) };
        let measured = simulate(&plan, &Virtual::default(), takes);
        prop_assert_eq!(measured.latencies_ns(), queued(Arrivals::new(seed, qps).take(200), takes));
    }
}

#[rstest::rstest]
#[case(&[], 50.0, 0)]
#[case(&[7], 99.0, 7)]
#[case(&[40, 10, 30, 20], 50.0, 20)]
#[case(&[40, 10, 30, 20], 50.1, 30)]
#[case(&[40, 10, 30, 20], 100.0, 40)]
fn percentile_is_the_nearest_rank(#[case] values: &[u64], #[case] percent: f64, #[case] expected: u64) {
    assert_eq!(percentile(values, percent), expected);
}
