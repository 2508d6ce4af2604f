//! Late beats, recorded or made up, and the pauses found in them; phases, and what of them a pause covers.

use std::fmt::Write as _;

use guestscope_contract::pause::Silence;
use proptest::prelude::*;

use super::*;
use crate::phase::{PhaseKind, Request, ThreadId, open::begun};

const MS: u64 = 1_000_000;

/// Two CPUs; a silence from `begin` to `end`, which a timer that was due at `due` ended. All in ms.
fn silence(begin: u64, due: u64, end: u64) -> Silence {
    Silence { begin_ns: begin * MS, due_ns: due * MS, end_ns: end * MS }
}

/// Both records of the late beat of a CPU.
fn late(cpu: u32, due: u64, silence: Silence, stolen: u64) -> [GapRecord; 2] {
    let time_ns = silence.end_ns + MS;
    let first = GapRecord { time_ns, due_ns: due * MS, silence, cpu, cpus: 2, ..GapRecord::default() };
    let settled = GapRecord { is_settled: 1, stolen_ns: stolen * MS, ..first };
    [first, settled]
}

fn told(gaps: &[GapRecord]) -> String {
    let mut pauses = Pauses::default();
    let mut text = String::new();
    let mut tell = |outputs: Vec<Output>| {
        for output in outputs {
            let Output::Pause(Pause { start_ns, duration_ns, doubt_ns }) = output else { continue };
            let [start, duration, doubt] = [start_ns, duration_ns, doubt_ns].map(|ns| ns as f64 / MS as f64);
            writeln!(text, "stopped at {start} ms for {duration} ms, give or take {doubt} ms").expect("room");
        }
    };
    for gap in gaps {
        pauses.gap(gap);
        tell(pauses.pass(Vec::new(), gap.time_ns));
    }
    let is_undecided = pauses.is_undecided();
    tell(pauses.pass(Vec::new(), u64::MAX));
    if is_undecided { text + "undecided\n" } else { text }
}

fn phase(start_ns: u64, duration_ns: u64) -> Phase {
    let mut phase = begun(1, PhaseKind::Request, "request".into(), ThreadId::default(), start_ns);
    phase.duration_ns = duration_ns;
    phase
}

#[test]
fn all_cpus_that_are_late_together_were_stopped() {
    let stopped = silence(1000, 1004, 1300);
    let [one, two] = [late(0, 1020, stopped, 0), late(1, 1049, stopped, 3)];
    insta::assert_snapshot!(told(&[one[0], two[0], one[1], two[1]]), @"stopped at 1002 ms for 298 ms, give or take 2 ms");
    // In any order, and where each saw the end of it a little later.
    let later = Silence { end_ns: stopped.end_ns + 40_000, ..stopped };
    let two = late(1, 1049, later, 0);
    insta::assert_snapshot!(told(&[two[0], two[1], one[0], one[1]]), @"stopped at 1002 ms for 298 ms, give or take 2 ms");
    // Without a timer's own word, a beat that was due says when it must have begun.
    let idle = silence(1000, 1300, 1300);
    let [one, two] = [late(0, 1020, idle, 0), late(1, 1049, idle, 0)];
    insta::assert_snapshot!(told(&[one, two].concat()), @"stopped at 1010 ms for 290 ms, give or take 10 ms");
}

/// A restored guest whose clock went on by hours meanwhile: all its CPUs are late at once, and by as much.
#[test]
fn a_clock_that_jumped_is_one_pause() {
    let hours = 3 * 3_600_000;
    let jumped = silence(1000, 1004, 1000 + hours);
    let [one, two] = [late(0, 1020, jumped, 0), late(1, 1049, jumped, 3)];
    insta::assert_snapshot!(told(&[one, two].concat()), @"stopped at 1002 ms for 10799998 ms, give or take 2 ms");
    // A silence that was undecided before it is given up: its beats are not the next ones.
    let before = silence(900, 904, 950);
    insta::assert_snapshot!(told(&[late(0, 920, before, 0), one, two].concat()), @"stopped at 1002 ms for 10799998 ms, give or take 2 ms");
    // What was held for it goes out with the jump, and what was open has all of it.
    let mut pauses = Pauses::default();
    pauses.gap(&late(0, 920, before, 0)[0]);
    let request = |start: u64, end: u64| {
        vec![Output::Request(Request { phases: vec![phase(start * MS, (end - start) * MS)] })]
    };
    assert_eq!(pauses.pass(request(940, 960), 960 * MS), []);
    [one, two].concat().iter().for_each(|gap| pauses.gap(gap));
    let outputs = pauses.pass(request(990, 1010 + hours), (1010 + hours) * MS);
    let paused: Vec<u64> = outputs
        .iter()
        .filter_map(|output| match output {
            Output::Request(request) => Some(request.root().pause_ns / MS),
            Output::Thread(_) | Output::Mark(_) | Output::Wait(_) | Output::GpuWork(_) | Output::Pause(_) => {
                None
            }
        })
        .collect();
    assert_eq!(paused, [0, hours - 2]);
}

/// A hypervisor short of CPUs lets the second one run only after a while in which the first one sleeps: the
/// last silence is then another one, and tells nothing of the pause.
#[test]
fn a_cpu_that_comes_back_later_was_stopped_too() {
    let one = late(0, 1020, silence(1000, 1004, 1300), 0);
    let two = late(1, 1049, silence(1301, 1305, 1320), 0);
    insta::assert_snapshot!(told(&[one[0], two[0], one[1], two[1]]), @"
    stopped at 1002 ms for 298 ms, give or take 2 ms
    undecided
    ");
    insta::assert_snapshot!(told(&[two[0], one[0], one[1], two[1]]), @"
    stopped at 1002 ms for 298 ms, give or take 2 ms
    undecided
    ");
}

#[test]
fn what_is_no_pause_of_the_guest_is_not_called_one() {
    let stopped = silence(1000, 1004, 1300);
    // One CPU alone: interrupts that were off, or a hypervisor that held one and says nothing of it.
    assert_eq!(told(&late(0, 1020, stopped, 0)), "undecided\n");
    // One of them was not seen to be stopped: it had nothing to do before the end.
    assert_eq!(told(&[late(0, 1020, stopped, 0), late(1, 1300, stopped, 0)].concat()), "undecided\n");
    // The hypervisor says that it ran others.
    assert_eq!(told(&[late(0, 1020, stopped, 250), late(1, 1049, stopped, 0)].concat()), "");
    // Others were alive all the while: each silence is short.
    let short = silence(1291, 1292, 1300);
    assert_eq!(told(&[late(0, 1020, short, 0), late(1, 1049, short, 0)].concat()), "");
    // Nothing had been seen before.
    let first = silence(0, 1004, 1300);
    assert_eq!(told(&[late(0, 1020, first, 0), late(1, 1049, first, 0)].concat()), "");
    // Each was late, at another time.
    let other = silence(2000, 2004, 2300);
    assert_eq!(told(&[late(0, 1020, stopped, 0), late(1, 2049, other, 0)].concat()), "undecided\n");
}

/// A request that ended right after a pause waits until it is known that there was one, but not for ever.
#[test]
fn what_a_pause_may_lie_in_is_held_until_that_is_known() {
    let stopped = silence(1000, 1004, 1300);
    let request = || vec![Output::Request(Request { phases: vec![phase(900 * MS, 401 * MS)] })];
    let paused = |outputs: &[Output]| match outputs.last() {
        Some(Output::Request(request)) => Some(request.root().pause_ns),
        _ => None,
    };
    let [one, two] = [late(0, 1020, stopped, 0), late(1, 1049, stopped, 0)];
    let mut pauses = Pauses::default();
    pauses.gap(&one[0]);
    assert_eq!(pauses.pass(request(), 1301 * MS), []);
    for gap in [two[0], one[1], two[1]] {
        pauses.gap(&gap);
    }
    let outputs = pauses.pass(Vec::new(), 1351 * MS);
    assert!(matches!(outputs[0], Output::Pause(_)));
    assert_eq!((outputs.len(), paused(&outputs)), (2, Some(298 * MS)));

    let mut pauses = Pauses::default();
    pauses.gap(&one[0]);
    assert_eq!(pauses.pass(request(), 1301 * MS), []);
    let outputs = pauses.pass(Vec::new(), 1301 * MS + PATIENCE_NS);
    assert_eq!((outputs.len(), paused(&outputs)), (1, Some(0)));

    let mut pauses = Pauses::default();
    pauses.gap(&one[0]);
    assert_eq!(pauses.pass(request(), 1301 * MS), []);
    assert_eq!(paused(&pauses.last()), Some(0));
}

/// What leaves, watched: in order, in time, and of each request the pauses that were told before it.
#[derive(Default)]
struct Watch {
    pauses: Pauses,
    told: Vec<Pause>,
    /// When each request came, by its number from 0.
    came_ns: Vec<u64>,
    /// Number of requests that have left.
    left: usize,
}

impl Watch {
    /// Hands over ended requests by start and length. Yields the stopped time of each that leaves.
    fn pass(&mut self, requests: &[(u64, u64)], now_ns: u64) -> Vec<u64> {
        let mut outputs = Vec::new();
        for &(start_ns, duration_ns) in requests {
            let mut phase = phase(start_ns, duration_ns);
            phase.id = self.came_ns.len() as u64;
            self.came_ns.push(now_ns);
            outputs.push(Output::Request(Request { phases: vec![phase] }));
        }
        let left = self.pauses.pass(outputs, now_ns);
        let left = self.see(left);
        let in_time = self.came_ns.partition_point(|came_ns| now_ns - came_ns >= PATIENCE_NS);
        assert!(self.left >= in_time, "{} of {in_time} have left in time", self.left);
        left
    }

    fn see(&mut self, outputs: Vec<Output>) -> Vec<u64> {
        let mut stopped = Vec::new();
        for output in outputs {
            match output {
                Output::Pause(pause) => self.told.push(pause),
                Output::Request(request) => {
                    let root = request.root();
                    assert_eq!(root.id, self.left as u64, "none is lost, and each leaves in its turn");
                    let within = self.told.iter().filter_map(|pause| pause.within(root));
                    assert_eq!(root.pause_ns, within.map(|(_, ns)| ns).sum::<u64>(), "{root:?}");
                    self.left += 1;
                    stopped.push(root.pause_ns);
                }
                Output::Thread(_) | Output::Mark(_) | Output::Wait(_) | Output::GpuWork(_) => {
                    panic!("none came")
                }
            }
        }
        stopped
    }

    /// What is kept of the past, in pieces.
    fn kept(&self) -> usize {
        self.came_ns.len() - self.left + self.pauses.undecided.len() + self.pauses.heard.len()
    }
}

/// A hypervisor's quota: the guest runs for 20 of every 100 ms. The beat that settles one silence tells of
/// the next, so one is undecided at every look, for hours.
fn under_a_quota(cpus: u32, stolen: u64) -> Vec<u64> {
    let mut watch = Watch::default();
    let mut stopped = Vec::new();
    let mut before: Vec<[GapRecord; 2]> = Vec::new();
    for period in 1..=3000 {
        let at = 100 * period;
        let silence = silence(at - 80, at - 77, at);
        // The other CPU begins to run a little later, and has not seen that the first one does.
        let of = |cpu: u32| Silence { end_ns: silence.end_ns + u64::from(cpu) * 20_000, ..silence };
        let gaps: Vec<_> = (0..cpus).map(|cpu| late(cpu, at - 50, of(cpu), stolen)).collect();
        for (cpu, [first, _]) in gaps.iter().enumerate() {
            before.get(cpu).into_iter().for_each(|[_, settled]| watch.pauses.gap(settled));
            watch.pauses.gap(&GapRecord { cpus, ..*first });
        }
        before = gaps;
        // One that was begun before the guest was stopped, and two that were not.
        let across = ((at - 85) * MS, 88 * MS);
        stopped.extend(watch.pass(&[across, ((at + 3) * MS, MS)], (at + 5) * MS));
        stopped.extend(watch.pass(&[((at + 6) * MS, 5 * MS)], (at + 15) * MS));
        assert!(watch.kept() <= 6 + UNDECIDED + HEARD, "{} in period {period}", watch.kept());
    }
    let last = watch.pauses.last();
    stopped.extend(watch.see(last));
    assert_eq!(stopped.len(), 9000);
    stopped
}

#[test]
fn a_guest_that_is_stopped_all_the_time_holds_nothing_back_for_long() {
    for cpus in [1, 2] {
        // The hypervisor says so, or (an emulator) does not. The last silence of all is never decided.
        let nothing = under_a_quota(cpus, 80);
        assert!(nothing.iter().all(|&ns| ns == 0));
        let stopped = under_a_quota(cpus, 0);
        let (settled, last) = stopped.split_at(stopped.len() - 3);
        assert!(settled.chunks(3).all(|three| three == [78 * MS + MS / 2, 0, 0]), "{:?}", &settled[..6]);
        assert_eq!(last, [0; 3]);
    }
}

/// What has ended before a silence needs not wait for what is found out about it, however long that takes.
#[test]
fn what_no_silence_lies_in_is_handed_on_at_once() {
    let mut watch = Watch::default();
    watch.pauses.gap(&late(0, 1020, silence(1000, 1004, 1300), 0)[0]);
    let before = (900 * MS, 100 * MS);
    let after = (1300 * MS, 5 * MS);
    assert_eq!(watch.pass(&[before, after], 1306 * MS), [0, 0]);
    // But nothing overtakes what has to wait.
    let across = (999 * MS, 308 * MS);
    assert_eq!(watch.pass(&[before, across, after], 1308 * MS), [0]);
    assert!(watch.pass(&[before], 1310 * MS).is_empty());
    assert_eq!(watch.pass(&[], 1300 * MS + PATIENCE_NS), [0, 0, 0]);
}

fn known(pauses: &[(u64, u64)]) -> Pauses {
    let mut known = Pauses::default();
    for &(start_ns, duration_ns) in pauses {
        known.know(Pause { start_ns, duration_ns, doubt_ns: 0 });
    }
    known
}

proptest! {
    /// Nanosecond by nanosecond.
    #[test]
    fn a_phase_was_stopped_for_as_long_as_any_pause_covers_it(
        lengths in proptest::collection::vec((0_u64..40, 1_u64..30), 0..8),
        start_ns in 0_u64..400,
        duration_ns in 0_u64..400,
    ) {
        let mut at = 0;
        let pauses: Vec<(u64, u64)> = lengths
            .iter()
            .map(|&(before, length)| {
                at += before + length;
                (at - length, length)
            })
            .collect();
        let is_stopped = |ns: &u64| pauses.iter().any(|&(start, length)| (start..start + length).contains(ns));
        let expected = (start_ns..start_ns + duration_ns).filter(is_stopped).count() as u64;
        prop_assert_eq!(known(&pauses).paused_ns(&phase(start_ns, duration_ns)), expected);
    }

    /// For any records, pauses are in order and apart, none is longer than its silence, and no phase was
    /// stopped for longer than it lasted.
    #[test]
    fn any_records_yield_pauses_that_can_be(
        gaps in proptest::collection::vec(any::<([u32; 6], bool, u8)>(), 0..200),
        start_ns in any::<u32>(),
        duration_ns in any::<u32>(),
    ) {
        let mut pauses = Pauses::default();
        for ([time, due, begin, silence_due, end, stolen], is_settled, cpu) in gaps {
            let [time_ns, due_ns, begin_ns, silence_due, end_ns, stolen_ns] =
                [time, due, begin, silence_due, end, stolen].map(u64::from);
            pauses.gap(&GapRecord {
                time_ns,
                due_ns,
                silence: Silence { begin_ns, due_ns: silence_due, end_ns },
                stolen_ns,
                cpu: u32::from(cpu % 2),
                cpus: 1 + u32::from(cpu % 2),
                is_settled: u64::from(is_settled),
            });
        }
        let phase = phase(u64::from(start_ns), u64::from(duration_ns));
        prop_assert!(pauses.paused_ns(&phase) <= phase.duration_ns);
        let mut before_ns = 0;
        for pause in &pauses.known {
            prop_assert!(pause.start_ns >= before_ns && pause.duration_ns > 0);
            before_ns = pause.end_ns();
        }
    }

    /// For any records, nothing is held back for longer, out of order, or with a pause that is not.
    #[test]
    fn any_records_hold_nothing_back_for_long(
        steps in proptest::collection::vec((0_u64..60, any::<([u8; 6], bool, bool)>(), [0_u64..400, 0_u64..400]), 0..300),
    ) {
        let (mut watch, mut now) = (Watch::default(), 1000);
        for (later, ([due, begin, silence_due, length, ahead, stolen], is_settled, cpu), [ago, duration]) in steps {
            now += later;
            // Mostly of the past, as it should be.
            let end = now + u64::from(ahead / 4) - u64::from(ahead % 64);
            let [due, silence_due, length] = [due, silence_due, length].map(u64::from);
            let begin = end - length - u64::from(begin % 16);
            let gap = late(cpu.into(), end - due, silence(begin, end - silence_due, end), stolen.into());
            watch.pauses.gap(&gap[usize::from(is_settled)]);
            watch.pass(&[((now - ago) * MS, duration * MS)], now * MS);
        }
        let last = watch.pauses.last();
        watch.see(last);
        prop_assert_eq!(watch.left, watch.came_ns.len());
    }
}
