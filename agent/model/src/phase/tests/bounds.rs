//! Programs that mark without end, or in unforeseen ways: cost is counted in steps, since time on a busy
//! machine says nothing of an algorithm; losses are counted, and a request's accounts stay whole.

use std::collections::HashMap;

use guestscope_contract::{
    Account, Beside, COMM_BYTES, EdgeRecord, Header, Kind, NAME_BYTES, Operation, TOKEN_CHILD_BITS,
    TaskRecord,
    helpers::HelperSum,
    ledger::{Ledger, RUNNING},
};
use proptest::{collection::vec, prelude::*};
use rstest::rstest;

use super::{check_invariants, model::Model, phases, properties::turn};
use crate::phase::{
    Ending, PairingLosses, Phase, PhaseKind,
    limits::{Limits, steps},
    pairing::Pairing,
};

const ENDLESS: Limits = Limits {
    open_requests: usize::MAX,
    phases_per_request: usize::MAX,
    phases: usize::MAX,
    depth: u32::MAX,
    threads: usize::MAX,
};

/// A program of any number of threads: 10 ns pass between two of its edges.
struct Program {
    pairing: Pairing,
    now_ns: u64,
    numbers: HashMap<u32, u32>,
    /// Edges that are lost before each one that arrives.
    lost: u32,
}

impl Program {
    fn within(limits: Limits) -> Self {
        Self { pairing: Pairing::within(limits, [3; 16]), now_ns: 100, numbers: HashMap::new(), lost: 0 }
    }

    fn ledger(&self, thread: u32) -> Ledger {
        let mut ledger = Ledger { tgid: 1, tid: thread, slot: thread as u16, ..Ledger::EMPTY };
        ledger.begin(50, RUNNING, 0);
        ledger.accounts[Account::Cpu as usize] = self.now_ns - 50;
        ledger.since_ns = self.now_ns;
        ledger
    }

    fn edge(&mut self, thread: u32, operation: Operation, token: u64) {
        self.now_ns += 10;
        let named = u64::from(matches!(operation, Operation::Begin | Operation::Request));
        let number = self.numbers.entry(thread).or_default();
        *number += 1 + self.lost;
        let operation = operation as u64 | 1 << 8 | u64::from(*number) << 32;
        let record = EdgeRecord {
            header: Header { kind: Kind::Edge as u32, flags: 0, time_ns: self.now_ns },
            ledger: self.ledger(thread),
            operation,
            token,
            arguments: [0, named, 0, 0],
            minor_faults: 0,
            major_faults: 0,
            left_out: 0,
            unseen_threads: 0,
            beside: Beside::default(),
            helpers: HelperSum::default(),
            name: [b'n'; NAME_BYTES],
        };
        self.pairing.edge(&record);
    }

    fn task(&mut self, kind: Kind, thread: u32) {
        self.now_ns += 10;
        let record = TaskRecord {
            header: Header { kind: kind as u32, flags: 0, time_ns: self.now_ns },
            ledger: self.ledger(thread),
            other_tid: 0,
            other_tgid: 0,
            other_born_ns: 0,
            minor_faults: 0,
            major_faults: 0,
            beside: Beside::default(),
            comm: [0; COMM_BYTES],
        };
        self.pairing.task(kind, &record);
    }

    /// Everything that has come out, and the rest; the sums of all of it hold.
    fn finish(&mut self) -> Vec<Phase> {
        self.pairing.stop(self.now_ns, &[]);
        let outputs = self.pairing.take();
        check_invariants(&outputs);
        assert_eq!((self.pairing.kept, self.pairing.left_out), (0, 0), "all that was kept is out");
        assert!(self.pairing.suspended.is_empty() && self.pairing.requests.is_empty());
        phases(&outputs).filter(|phase| phase.kind != PhaseKind::Process).cloned().collect()
    }
}

const fn root(number: u64) -> u64 {
    number << TOKEN_CHILD_BITS
}

/// Within each other, then only the request ends.
fn nested(program: &mut Program, phases: u64) {
    program.edge(1, Operation::Request, root(1));
    (1..=phases).for_each(|phase| program.edge(1, Operation::Begin, root(1) | phase));
    program.edge(1, Operation::End, root(1));
}

fn nested_and_ended(program: &mut Program, phases: u64) {
    program.edge(1, Operation::Request, root(1));
    (1..=phases).for_each(|phase| program.edge(1, Operation::Begin, root(1) | phase));
    (1..=phases).rev().for_each(|phase| program.edge(1, Operation::End, root(1) | phase));
    program.edge(1, Operation::End, root(1));
}

/// The outer ones first, as phases of tasks may.
fn ended_from_outside(program: &mut Program, phases: u64) {
    (1..=phases).for_each(|phase| program.edge(1, Operation::Request, root(phase)));
    (1..=phases).for_each(|phase| program.edge(1, Operation::End, root(phase)));
}

fn one_after_the_other(program: &mut Program, phases: u64) {
    program.edge(1, Operation::Request, root(1));
    for phase in 1..=phases {
        program.edge(1, Operation::Begin, root(1) | phase);
        program.edge(1, Operation::End, root(1) | phase);
    }
    program.edge(1, Operation::End, root(1));
}

fn never_ended(program: &mut Program, requests: u64) {
    (1..=requests).for_each(|request| program.edge(1, Operation::Request, root(request)));
}

/// Each thread ends inside a request, and others have many open.
fn threads_that_leak(program: &mut Program, threads: u64) {
    (1..=threads).for_each(|request| program.edge(1, Operation::Request, root(request)));
    for thread in 2..threads as u32 + 2 {
        program.task(Kind::Fork, thread);
        program.edge(thread, Operation::Request, root(threads + u64::from(thread)));
        program.task(Kind::Exit, thread);
    }
}

/// All is left and goes on, over and over.
fn left_and_entered(program: &mut Program, phases: u64) {
    (1..=phases).for_each(|phase| program.edge(1, Operation::Request, root(phase)));
    for phase in 1..=phases {
        program.edge(1, Operation::Leave, root(phase));
        program.edge(2, Operation::Enter, root(phase));
    }
    (1..=phases).for_each(|phase| program.edge(2, Operation::End, root(phase)));
}

/// Each edge tells that some before it were lost.
fn nested_with_losses(program: &mut Program, phases: u64) {
    program.lost = 1;
    nested(program, phases);
}

#[rstest]
#[case::nested(nested)]
#[case::nested_and_ended(nested_and_ended)]
#[case::ended_from_outside(ended_from_outside)]
#[case::one_after_the_other(one_after_the_other)]
#[case::never_ended(never_ended)]
#[case::threads_that_leak(threads_that_leak)]
#[case::left_and_entered(left_and_entered)]
#[case::nested_with_losses(nested_with_losses)]
fn twice_the_phases_cost_twice_the_steps(
    #[case] play: fn(&mut Program, u64),
    #[values(ENDLESS, Limits::new(200, 200, 64))] limits: Limits,
) {
    let cost = |phases: u64| {
        let mut program = Program::within(limits);
        steps::take();
        play(&mut program, phases);
        program.finish();
        steps::take()
    };
    let (once, twice) = (cost(1_000), cost(2_000));
    assert!(once >= 1_000 || limits != ENDLESS, "something is counted: {once}");
    assert!(10 * twice <= 22 * once.max(1_000), "{once} steps, then {twice}");
}

#[test]
fn phases_beyond_the_limit_are_added_up_in_their_request() {
    let mut program = Program::within(Limits { phases_per_request: 4, ..ENDLESS });
    one_after_the_other(&mut program, 10);
    let phases = program.finish();
    assert_eq!((phases.len(), phases[0].duration_ns), (4, 210));
    assert_eq!(phases[0].accounts.get(Account::Cpu), 210);
    assert_eq!(program.pairing.losses, PairingLosses { phases_left_out: 7, ..PairingLosses::default() });
}

#[test]
fn phases_too_deep_are_added_up_in_those_around_them() {
    let mut program = Program::within(Limits { depth: 2, ..ENDLESS });
    nested_and_ended(&mut program, 5);
    let phases = program.finish();
    let durations: Vec<u64> = phases.iter().map(|phase| phase.duration_ns).collect();
    assert_eq!(durations, [110, 90, 70]);
    assert!(phases.iter().all(|phase| phase.ending == Ending::Ended));
    assert_eq!(program.pairing.losses, PairingLosses { phases_left_out: 3, ..PairingLosses::default() });
}

/// Token 0 is the innermost phase, kept or not.
#[test]
fn an_end_of_the_innermost_phase_ends_no_other_one() {
    let mut program = Program::within(Limits { depth: 1, ..ENDLESS });
    program.edge(1, Operation::Request, root(1));
    (1..=3).for_each(|phase| program.edge(1, Operation::Begin, root(1) | phase));
    (1..=4).for_each(|_| program.edge(1, Operation::End, 0));
    let durations: Vec<u64> = program.finish().iter().map(|phase| phase.duration_ns).collect();
    assert_eq!(durations, [70, 50]);
    assert_eq!(program.pairing.losses, PairingLosses { phases_left_out: 2, ..PairingLosses::default() });
}

#[test]
fn a_program_that_never_ends_its_requests_hides_no_later_one() {
    let mut program = Program::within(Limits { open_requests: 3, ..ENDLESS });
    never_ended(&mut program, 5);
    program.edge(1, Operation::End, root(5));
    // What still comes of one that was cut off is no request of its own.
    program.edge(2, Operation::Begin, root(1) | 1);
    program.edge(2, Operation::End, root(1) | 1);
    program.edge(1, Operation::End, root(1));
    let phases = program.finish();
    let endings: Vec<Ending> = phases.iter().map(|phase| phase.ending).collect();
    let stopped = Ending::ObservationStopped;
    assert_eq!(endings, [Ending::Lost, Ending::Lost, Ending::Ended, stopped, stopped]);
    let losses =
        PairingLosses { requests_cut: 2, phases_left_out: 1, unended_phases: 4, ..PairingLosses::default() };
    assert_eq!(program.pairing.losses, losses);
}

#[test]
fn all_requests_together_keep_no_more_phases_than_there_is_room_for() {
    let mut program = Program::within(Limits { phases: 10, ..ENDLESS });
    for request in 1..=6 {
        program.edge(1, Operation::Request, root(request));
        (1..=4).for_each(|phase| program.edge(1, Operation::Begin, root(request) | phase));
        assert!(program.pairing.kept <= 10);
    }
    let losses = program.pairing.losses;
    assert_eq!((program.finish().len() as u64, losses.requests_cut), (30 - losses.phases_left_out, 4));
}

/// A phase as the model has it, and where in the output it is.
fn check_kept(model: &Model, kept: &[Phase]) -> Result<(), TestCaseError> {
    let index = |phase: &Phase| phase.name.stored().parse::<usize>().unwrap();
    let at: HashMap<u64, usize> = kept.iter().map(|phase| (phase.id, index(phase))).collect();
    let is_kept = |index: usize| at.values().any(|kept| *kept == index);
    for phase in kept {
        let expected = &model.phases[index(phase)];
        prop_assert_eq!(phase.accounts.0, expected.accounts);
        prop_assert_eq!(phase.suspended_ns, expected.suspended_ns);
        let around = std::iter::successors(expected.parent, |parent| model.phases[*parent].parent);
        prop_assert_eq!(phase.parent.map(|parent| at[&parent]), around.into_iter().find(|one| is_kept(*one)));
    }
    Ok(())
}

proptest! {
    /// Kept phases match the model, below the nearest kept one around them, whatever is left out.
    #[test]
    fn what_is_kept_is_whole(
        turns in vec(turn(), 0..150), depth in 0..4_u32, phases_per_request in 1..6_usize,
    ) {
        let limits = Limits { phases_per_request, depth, ..ENDLESS };
        let (mut model, mut pairing) = (Model::new(), Pairing::within(limits, [7; 16]));
        for turn in &turns {
            model.turn(turn);
        }
        model.finish();
        model.records.iter().for_each(|record| pairing.record(record));
        let outputs = pairing.take();
        check_invariants(&outputs);
        let kept: Vec<Phase> =
            phases(&outputs).filter(|phase| phase.kind != PhaseKind::Queue).cloned().collect();
        check_kept(&model, &kept)?;
        let left_out = (model.phases.len() - kept.len()) as u64;
        let losses = PairingLosses { phases_left_out: left_out, ..PairingLosses::default() };
        prop_assert_eq!(pairing.losses, losses);
    }
}
