//! Who is late, found in made trainings of known kinds, and not found where nobody is, or where it cannot be
//! known.

mod properties;

use guestscope_contract::Account;
use rstest::rstest;

use super::*;
use crate::{
    analyze::samples::{Sample, Step},
    phase::Request,
};

const MS: u64 = 1_000_000;
const CALLS: u64 = 200;

/// How processes meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A call lasts until all have come.
    Waits,
    /// A call returns at once; the device waits, and the next step begins when it has done so.
    Asks,
}

/// A training: the time that each process takes for each step, before its collective, ns.
struct Training {
    kind: Kind,
    takes: Box<dyn Fn(usize, u64) -> u64>,
    ranks: usize,
    steps: u64,
}

/// Numbers that look random, below `most`.
fn noise(rank: usize, step: u64, most: u64) -> u64 {
    let mixed = (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (rank as u64 + 7).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb) % most.max(1)
}

impl Training {
    fn new(kind: Kind, takes: impl Fn(usize, u64) -> u64 + 'static) -> Self {
        Self { kind, takes: Box::new(takes), ranks: 3, steps: CALLS }
    }

    /// The steps of each process.
    fn steps(&self) -> Vec<Vec<Request>> {
        let mut all: Vec<Vec<Request>> = vec![Vec::new(); self.ranks];
        let mut begin_ns = 1_000 * MS;
        for step in 0..self.steps {
            let takes: Vec<u64> = (0..self.ranks).map(|rank| (self.takes)(rank, step)).collect();
            let slowest = takes.iter().copied().max().unwrap_or(0);
            for (rank, steps) in all.iter_mut().enumerate() {
                let left = slowest - takes[rank];
                let wait = Step::Spend(Account::Gpu, left + MS / 10);
                let (inside, after) = match self.kind {
                    Kind::Waits => (vec![wait], vec![]),
                    Kind::Asks => (vec![Step::Spend(Account::Cpu, 5_000)], vec![wait]),
                };
                let spent = Step::Spend(Account::Cpu, takes[rank]);
                let parts = [vec![spent, Step::Nest("all_reduce", inside)], after].concat();
                steps.push(of(rank, Sample { name: "step", ..Sample::new(step, begin_ns, parts) }.build()));
            }
            begin_ns += slowest + MS / 5;
        }
        all
    }
}

/// The request as one of this process.
fn of(rank: usize, mut request: Request) -> Request {
    for phase in &mut request.phases {
        (phase.thread.tgid, phase.thread.tid) = (100 + rank as u32, 100 + rank as u32);
        phase.comm = "python3".into();
    }
    request
}

/// A folder for each list, all observed from their start, by one clock.
fn terms(folders: usize) -> Terms {
    let observed = Observed { is_from_start: true, is_whole: true, ..Observed::default() };
    Terms { folders: vec![observed; folders], apart_ns: 10 * MS }
}

fn collected(folders: &[Vec<Request>]) -> Ranks {
    let mut ranks = Ranks::default();
    for (folder, requests) in folders.iter().enumerate() {
        for request in requests {
            ranks.add(folder, request, 0);
        }
    }
    ranks
}

fn judged(folders: &[Vec<Request>]) -> Judged {
    collected(folders).judged(&terms(folders.len()))
}

/// All take 20 ms and some noise; process 1 takes as much longer.
fn slow_by(extra_ns: u64) -> impl Fn(usize, u64) -> u64 {
    move |rank, step| 20 * MS + noise(rank, step, MS) + if rank == 1 { extra_ns } else { 0 }
}

#[rstest]
#[case(Kind::Waits)]
#[case(Kind::Asks)]
fn the_slow_one_is_named_with_its_account(#[case] kind: Kind) {
    let found = judged(&Training::new(kind, slow_by(5 * MS)).steps());
    let straggler = found.straggler.unwrap();
    assert_eq!((straggler.rank, found.ranks[1].pid), (1, 101));
    let [all_reduce] = found.collectives.as_slice() else { panic!("{:?}", found.collectives) };
    assert_eq!((all_reduce.verdict, all_reduce.calls, all_reduce.unmatched), (Verdict::Late(1), CALLS, 0));
    let first = all_reduce.arrivals[0];
    assert_eq!((first.rank, first.last), (1, CALLS));
    assert!(first.margin_ns.abs_diff(5 * MS as i64) < MS, "{first:?}");
    assert!(first.late_ns.abs_diff(5 * MS as i64) < MS, "{first:?}");
    let steps = straggler.steps.unwrap();
    assert_eq!((&steps.name, steps.own, steps.others), (&"step".into(), CALLS, 2 * CALLS));
    let cpu = steps.accounts.iter().find(|one| one.account == Account::Cpu).unwrap();
    assert!(cpu.ns().abs_diff(5 * MS as i64) < MS, "{cpu:?}");
    // The time in a collective is no part of the step; what is waited for after it is.
    assert_eq!(steps.accounts.len(), if kind == Kind::Waits { 1 } else { 2 }, "{steps:?}");
    assert!(steps.accounts.iter().skip(1).all(|one| one.account == Account::Gpu && one.ns() < 0));
}

#[rstest]
#[case(Kind::Waits)]
#[case(Kind::Asks)]
fn equal_ones_are_not_named(#[case] kind: Kind) {
    let found = judged(&Training::new(kind, slow_by(0)).steps());
    assert_eq!((found.straggler, found.collectives[0].verdict), (None, Verdict::Even));
    assert_eq!(found.collectives[0].arrivals.len(), 3);
}

#[test]
fn those_who_take_turns_are_not_named() {
    let turns = |rank: usize, step: u64| 20 * MS + if step as usize % 3 == rank { 8 * MS } else { 0 };
    let found = judged(&Training::new(Kind::Waits, turns).steps());
    assert_eq!((found.straggler, found.collectives[0].verdict), (None, Verdict::Even));
}

#[test]
fn two_equally_late_ones_are_not_named_but_shown() {
    let two = |rank: usize, step: u64| 20 * MS + noise(rank, step, MS) + if rank > 0 { 8 * MS } else { 0 };
    let found = judged(&Training::new(Kind::Waits, two).steps());
    assert_eq!(found.straggler, None);
    let arrivals = &found.collectives[0].arrivals;
    assert!(arrivals[0].late_ns > 0 && arrivals[1].late_ns > 0 && arrivals[2].rank == 0, "{arrivals:?}");
}

#[test]
fn always_last_by_hardly_anything_is_not_late() {
    let hardly = |rank: usize, _: u64| 20 * MS + if rank == 2 { 60_000 } else { 0 };
    let found = judged(&Training::new(Kind::Waits, hardly).steps());
    assert_eq!((found.straggler, found.collectives[0].verdict), (None, Verdict::Little(2)));
}

/// Steps of 100 ms in which the slow one comes 85 ms later: nearer to the next call of the others.
#[test]
fn one_that_is_slower_by_far_is_not_taken_for_an_early_one() {
    let far = |rank: usize, step: u64| 15 * MS + noise(rank, step, MS) + if rank == 1 { 85 * MS } else { 0 };
    let late = |kind: Kind| judged(&Training::new(kind, far).steps()).collectives[0].verdict;
    assert_eq!((late(Kind::Waits), late(Kind::Asks)), (Verdict::Late(1), Verdict::Late(1)));
    // The first calls of it are missing: where calls wait, the times tell which belong together.
    let mut waits = Training::new(Kind::Waits, far).steps();
    waits[1].drain(..30);
    assert_eq!(judged(&waits).collectives[0].verdict, Verdict::Late(1));
    // Where they only ask, nothing does: none is named.
    let mut asks = Training::new(Kind::Asks, far).steps();
    asks[1].drain(..30);
    assert_eq!(judged(&asks).straggler, None);
}

#[test]
fn a_process_that_was_joined_late_is_judged_by_what_was_seen() {
    let mut steps = Training::new(Kind::Waits, slow_by(5 * MS)).steps();
    steps[2].drain(..70);
    steps[0].truncate(190);
    let found = judged(&steps);
    let [all_reduce] = found.collectives.as_slice() else { panic!("{:?}", found.collectives) };
    assert_eq!((all_reduce.verdict, all_reduce.calls), (Verdict::Late(1), 120));
    assert_eq!(all_reduce.unmatched, 200 + 190 + 130 - 3 * 120);
}

/// Observed one after the other for equally long: equal numbers of calls are not the same calls.
#[test]
fn equal_numbers_of_different_calls_are_not_put_beside_each_other() {
    let mut steps = Training::new(Kind::Waits, slow_by(5 * MS)).steps();
    steps[0].truncate(180);
    steps[1].drain(..20);
    steps[2].drain(..10);
    steps[2].truncate(180);
    let mut terms = terms(3);
    terms.folders.iter_mut().for_each(|folder| folder.is_from_start = false);
    let found = collected(&steps).judged(&terms);
    assert_eq!((found.collectives[0].verdict, found.collectives[0].calls), (Verdict::Late(1), 160));
}

#[rstest]
#[case(Kind::Waits)]
#[case(Kind::Asks)]
fn a_call_that_is_missing_in_the_middle_is_noticed(#[case] kind: Kind) {
    let mut steps = Training::new(kind, slow_by(5 * MS)).steps();
    steps[2].remove(100);
    let found = judged(&steps);
    assert_eq!(found.straggler, None);
    let verdict = found.collectives[0].verdict;
    assert!(matches!(verdict, Verdict::Unmatched(2, Mismatch::Shifted | Mismatch::Unclear)), "{verdict:?}");
    assert_eq!((found.collectives[0].calls, found.collectives[0].unmatched), (0, 3 * CALLS - 1));
}

/// Equal numbers again, since one is missing in each.
#[test]
fn calls_that_are_missing_in_all_processes_are_noticed() {
    let mut steps = Training::new(Kind::Asks, slow_by(5 * MS)).steps();
    steps[2].remove(40);
    steps[1].remove(150);
    steps[0].pop();
    let verdict = judged(&steps).collectives[0].verdict;
    assert!(matches!(verdict, Verdict::Unmatched(_, Mismatch::Shifted)), "{verdict:?}");
}

/// Both are equal; the second one lacks its third call, and looks late by a whole step.
#[test]
fn a_lost_call_is_no_lateness() {
    let mut steps = Training::new(Kind::Asks, slow_by(0)).steps();
    for one in &mut steps {
        let mut init = one[0].clone();
        init.phases.truncate(1);
        let phase = &mut init.phases[0];
        (phase.name, phase.source, phase.start_ns) =
            ("init".into(), guestscope_contract::Source::Function, 1);
        one.insert(0, init);
    }
    assert_eq!(judged(&steps).collectives[0].verdict, Verdict::Even);
    let fewer = |kept: usize| {
        let mut steps = steps.clone();
        steps[0].truncate(kept);
        steps
    };
    let all_but_last = judged(&fewer(CALLS as usize));
    assert_eq!(
        (all_but_last.collectives[0].verdict, all_but_last.collectives[0].calls),
        (Verdict::Even, CALLS - 1)
    );
    steps[1].remove(3);
    assert_eq!(judged(&steps).collectives[0].verdict, Verdict::Ambiguous(1));
}

/// The first call of one process was not seen, nor the last one of the others.
#[test]
fn equal_numbers_that_are_one_apart_name_nobody() {
    let mut steps = Training::new(Kind::Asks, slow_by(0)).steps();
    steps[1].remove(0);
    steps[0].pop();
    steps[2].pop();
    assert_eq!(judged(&steps).straggler, None);
}

/// Ten calls in quick succession at the end of each step.
#[test]
fn bursts_of_calls_belong_together_and_a_missing_one_is_noticed() {
    let burst = |rank: usize, step: u64| {
        let begin_ns = (1_000 + 100 * step) * MS + noise(0, step, 3 * MS);
        let takes_ns = 50 * MS + noise(rank, step, MS / 2) + if rank == 1 { 20 * MS } else { 0 };
        let call = Step::Nest("all_reduce", vec![Step::Spend(Account::Cpu, MS / 2)]);
        let steps = [vec![Step::Spend(Account::Cpu, takes_ns)], vec![call; 10]].concat();
        of(rank, Sample { name: "step", ..Sample::new(step, begin_ns, steps) }.build())
    };
    let mut steps: Vec<Vec<Request>> =
        (0..3).map(|rank| (0..60).map(|step| burst(rank, step)).collect()).collect();
    let found = judged(&steps);
    assert_eq!((found.collectives[0].verdict, found.collectives[0].calls), (Verdict::Late(1), 600));
    steps[0][20].phases.remove(4);
    let verdict = judged(&steps).collectives[0].verdict;
    assert!(matches!(verdict, Verdict::Unmatched(0, _)), "{verdict:?}");
}

/// Collectives of PyTorch's autograd thread are outermost phases of their own.
#[test]
fn collectives_on_another_thread_count_for_their_process() {
    let apart = |request: &Request| -> [Request; 2] {
        let mut root = request.clone();
        let mut call = Request { phases: vec![root.phases.remove(1)] };
        let phase = &mut call.phases[0];
        (phase.parent, phase.root, phase.kind) = (None, phase.id, crate::phase::PhaseKind::Request);
        phase.thread.tid += 1_000;
        phase.comm = "pt_autograd_0".into();
        [call, root]
    };
    let steps = Training::new(Kind::Asks, slow_by(5 * MS)).steps();
    let steps: Vec<Vec<Request>> = steps.iter().map(|one| one.iter().flat_map(apart).collect()).collect();
    let found = judged(&steps);
    let straggler = found.straggler.unwrap();
    assert_eq!((straggler.rank, &found.ranks[1].comm), (1, &"pt_autograd_0".into()));
    let steps = straggler.steps.unwrap();
    assert_eq!((&steps.name, steps.own), (&"step".into(), CALLS));
    assert!(steps.accounts.iter().any(|one| one.account == Account::Cpu && one.ns() > 4 * MS as i64));
}

#[test]
fn without_steps_it_is_named_without_a_reason() {
    let calls = |(rank, requests): (usize, Vec<Request>)| -> Vec<Request> {
        let call = |request: Request| {
            let call = &request.phases[1];
            let took = vec![Step::Spend(Account::Cpu, call.duration_ns)];
            let sample = Sample::new(request.root().request, call.start_ns, took);
            of(rank, Sample { name: "all_reduce", ..sample }.build())
        };
        requests.into_iter().map(call).collect()
    };
    let steps = Training::new(Kind::Waits, slow_by(5 * MS)).steps();
    let found = judged(&steps.into_iter().enumerate().map(calls).collect::<Vec<_>>());
    let straggler = found.straggler.unwrap();
    assert_eq!((straggler.rank, straggler.steps), (1, None));
}

#[rstest]
#[case::late_by_less(5, Verdict::WithinClocks(1), 2)]
#[case::late_by_more(15, Verdict::Late(1), 2)]
fn clocks_of_two_guests(#[case] extra_ms: u64, #[case] verdict: Verdict, #[case] clocks: usize) {
    let steps = Training::new(Kind::Waits, slow_by(extra_ms * MS)).steps();
    let mut terms = terms(3);
    terms.folders[1].clock = 1;
    let found = collected(&steps).judged(&terms);
    assert_eq!((found.collectives[0].verdict, found.clocks), (verdict, clocks));
}

#[test]
fn runs_of_other_times_are_not_put_together() {
    let steps = Training::new(Kind::Waits, slow_by(5 * MS)).steps();
    let mut ranks = Ranks::default();
    for (folder, requests) in steps.iter().enumerate() {
        let offset_ns = if folder == 2 { 3_600_000 * MS as i64 } else { 0 };
        for request in requests {
            ranks.add(folder, request, offset_ns);
        }
    }
    let verdict = ranks.judged(&terms(3)).collectives[0].verdict;
    assert_eq!(verdict, Verdict::Unmatched(2, Mismatch::OtherTimes));
}

#[test]
fn few_calls_and_few_processes_give_no_verdict() {
    let mut training = Training::new(Kind::Waits, slow_by(5 * MS));
    training.steps = LEAST_CALLS as u64 - 1;
    assert_eq!(judged(&training.steps()).collectives[0].verdict, Verdict::TooFew);
    let one = judged(&training.steps()[..1]);
    assert_eq!((one.ranks.len(), one.collectives.len(), one.straggler), (1, 0, None));
    assert_eq!(judged(&[]), Judged::default());
}

#[test]
fn where_less_is_seen_all_are_compared_by_that() {
    let steps = Training::new(Kind::Asks, slow_by(5 * MS)).steps();
    let mut terms = terms(3);
    terms.folders[2].is_coarse = true;
    let found = collected(&steps).judged(&terms).straggler.unwrap().steps.unwrap();
    let accounts: Vec<Account> = found.accounts.iter().map(|one| one.account).collect();
    assert!(accounts.contains(&Account::Cpu) && accounts.contains(&Account::Other), "{accounts:?}");
    assert!(!accounts.contains(&Account::Gpu), "{accounts:?}");
}

#[test]
fn what_finds_no_room_is_counted_and_all_keep_the_same_number() {
    let mut training = Training::new(Kind::Waits, slow_by(5 * MS));
    training.steps = 40;
    let mut steps = training.steps();
    let call = steps[0][0].phases[1].clone();
    // A request of very many calls at one time.
    steps[0][39].phases.extend(std::iter::repeat_n(call, Ranks::MOST + 1));
    let ranks = collected(&steps);
    assert!(ranks.kept() <= Ranks::MOST);
    let found = ranks.judged(&terms(3));
    assert!(found.left_out > Ranks::MOST as u64 / 3, "{}", found.left_out);
}
