//! The order in which records reach pairing, whatever arrives between two reads: waits go to the phase that
//! their thread was in, and come out before the request around them.
//!
//! A simulated kernel appends to three queues while the pump reads them: before each read of a single record,
//! as many records arrive as the case says.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    rc::Rc,
};

use guestscope_contract::{
    Account, EdgeRecord, NO_SYSCALL, Operation, TOKEN_CHILD_BITS, TaskRecord, WaitRecord, edge_mark,
    ledger::Ledger,
};
use proptest::prelude::*;

use super::*;
use crate::phase::{Wait, pairing::Output};

/// The next act of a thread.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Begins a phase; the thread may lose its CPU in the program that takes the edge, which is handed over
    /// after that wait.
    Begin {
        interrupted: bool,
    },
    /// Ends a phase, likewise.
    End {
        interrupted: bool,
    },
    Wait,
}

/// The rings as the kernel side fills them.
#[derive(Debug, Default)]
struct Kernel {
    /// Records still to come, in the order of their times.
    to_come: VecDeque<Record>,
    edges: VecDeque<Record>,
    waits: VecDeque<Record>,
    /// Numbers of records that arrive before each read, cyclic.
    pace: VecDeque<usize>,
    /// Whether a read of the ring of waits meets an unfinished record, cyclic.
    stuck: VecDeque<bool>,
    /// The same for the ring of edges.
    stuck_edges: VecDeque<bool>,
}

impl Kernel {
    fn go_on(&mut self) {
        let Some(steps) = self.pace.pop_front() else { return };
        self.pace.push_back(steps);
        for _ in 0..steps {
            match self.to_come.pop_front() {
                Some(record @ Record::Wait(_)) => self.waits.push_back(record),
                Some(record) => self.edges.push_back(record),
                None => return,
            }
        }
    }

    fn is_stuck(&mut self, of: Kind) -> bool {
        let reads = if of == Kind::Edge { &mut self.stuck_edges } else { &mut self.stuck };
        let stuck = reads.pop_front().unwrap_or(false);
        reads.push_back(stuck);
        stuck && !self.to_come.is_empty()
    }
}

/// One of its rings.
struct Ring(Rc<RefCell<Kernel>>, Kind);

impl Source for Ring {
    fn next_record(&mut self) -> Option<Result<Record, DecodeError>> {
        let mut kernel = self.0.borrow_mut();
        kernel.go_on();
        match self.1 {
            Kind::Edge | Kind::Wait if kernel.is_stuck(self.1) => None,
            Kind::Edge => kernel.edges.pop_front(),
            Kind::Wait => kernel.waits.pop_front(),
            Kind::Fork | Kind::Exec | Kind::Exit | Kind::Io | Kind::Queue | Kind::Rename => None,
        }
        .map(Ok)
    }
}

/// A thread during the story.
#[derive(Default)]
struct Thread {
    /// The numbers of the phases that are open, the innermost last.
    open: Vec<u64>,
    edges: u64,
    last_ns: u64,
}

/// All records, and which phases each wait lay in, by its start: the innermost last.
#[derive(Default)]
struct Story {
    records: VecDeque<Record>,
    truth: HashMap<(u32, u64), Vec<u64>>,
}

/// A record of zeros but for its kind, whatever its fields.
fn blank(kind: Kind, bytes: usize) -> Record {
    let mut zeros = vec![0; bytes];
    zeros[..4].copy_from_slice(&(kind as u32).to_ne_bytes());
    decode(&zeros).expect("zeros are a record")
}

fn edge(tid: u32, thread: &mut Thread, operation: Operation, number: u64, time_ns: u64) -> Record {
    let Record::Edge(mut edge) = blank(Kind::Edge, size_of::<EdgeRecord>()) else { unreachable!() };
    thread.edges += 1;
    edge.header.time_ns = time_ns;
    edge.ledger = Ledger { tid, tgid: 1, born_ns: 1, since_ns: time_ns, ..Ledger::EMPTY };
    edge.operation = operation as u64 | thread.edges << 32;
    // Tokens of nested phases have their number below the root's.
    let root = thread.open.first().copied().unwrap_or(number);
    edge.token = root << TOKEN_CHILD_BITS | if root == number { 0 } else { number };
    edge.arguments[2] = number;
    Record::Edge(edge)
}

fn birth(tid: u32) -> Record {
    let Record::Task(kind, mut task) = blank(Kind::Fork, size_of::<TaskRecord>()) else { unreachable!() };
    task.ledger = Ledger { tid, tgid: 1, born_ns: 1, ..Ledger::EMPTY };
    Record::Task(kind, task)
}

/// `edge` is the number of the last edge that the thread has begun, 0 for none.
fn wait(tid: u32, edge: u64, left_ns: u64, time_ns: u64) -> Record {
    let Record::Wait(mut wait) = blank(Kind::Wait, size_of::<WaitRecord>()) else { unreachable!() };
    wait.header.time_ns = time_ns;
    wait.edge = edge_mark(edge as u32);
    (wait.tid, wait.tgid, wait.born_ns) = (tid, 1, 1);
    (wait.left_ns, wait.ready_ns) = (left_ns, time_ns);
    (wait.account, wait.syscall) = (Account::Lock as u8, NO_SYSCALL);
    Record::Wait(wait)
}

/// Plays the acts, in turns of 10 ns; in the end every thread ends its open phases.
fn story(acts: &[(u32, Act)]) -> Story {
    let mut threads: HashMap<u32, Thread> = HashMap::new();
    let mut story = Story::default();
    let mut time_ns = 1_000;
    let ends = (0..4).flat_map(|tid| std::iter::repeat_n((tid, Act::End { interrupted: false }), acts.len()));
    let mut number = 0;
    for (tid, act) in acts.iter().copied().chain(ends) {
        let tid = tid + 10;
        let thread = threads.entry(tid).or_default();
        time_ns += 10;
        let mut interrupted = false;
        let record = match act {
            Act::Begin { interrupted: is } => {
                interrupted = is;
                number += 1;
                let outermost = thread.open.is_empty();
                let operation = if outermost { Operation::Request } else { Operation::Begin };
                let record = edge(tid, thread, operation, number, time_ns);
                thread.open.push(number);
                record
            }
            Act::End { interrupted: is } => {
                let Some(&number) = thread.open.last() else { continue };
                let record = edge(tid, thread, Operation::End, number, time_ns);
                thread.open.pop();
                interrupted = is;
                record
            }
            Act::Wait => {
                let left_ns = thread.last_ns + 1;
                story.truth.insert((tid, left_ns), thread.open.clone());
                wait(tid, thread.edges, left_ns, time_ns)
            }
        };
        thread.last_ns = time_ns;
        if interrupted {
            thread.last_ns = time_ns + 4;
            story.truth.insert((tid, time_ns + 1), thread.open.clone());
            story.records.push_back(wait(tid, thread.edges, time_ns + 1, thread.last_ns));
        }
        story.records.push_back(record);
    }
    story
}

/// Pumps the whole story through pairing, a few edges at a time.
fn pumped(story: &Story, most: usize, pace: Vec<usize>, [stuck, stuck_edges]: [Vec<bool>; 2]) -> Vec<Output> {
    let kernel = Kernel {
        to_come: story.records.clone(),
        pace: pace.into(),
        stuck: stuck.into(),
        stuck_edges: stuck_edges.into(),
        ..Kernel::default()
    };
    let kernel = Rc::new(RefCell::new(kernel));
    let ring = |kind| Ring(Rc::clone(&kernel), kind);
    let rings = Rings { edges: ring(Kind::Edge), events: ring(Kind::Exit), waits: ring(Kind::Wait) };
    let mut pump = Pump { most, ..Pump::new(rings) };
    let mut pairing = Pairing::new([7; 16]);
    (10..14).for_each(|tid| pairing.record(&birth(tid)));
    while !kernel.borrow().to_come.is_empty() {
        pump.feed(&mut pairing);
    }
    pump.drain(&mut pairing);
    // Waits from after the newest edge stay for one more round.
    pump.drain(&mut pairing);
    assert!(pump.held.is_empty(), "nothing stays behind");
    pairing.stop(u64::MAX, &[]);
    assert_eq!(pairing.losses, crate::phase::PairingLosses::default());
    pairing.take()
}

/// The number of each phase by its id, and how many outputs came before its request.
fn phases(outputs: &[Output]) -> HashMap<u64, (u64, usize)> {
    let requests = outputs.iter().enumerate().filter_map(|(at, output)| match output {
        Output::Request(request) => Some((at, request)),
        Output::Thread(_) | Output::Mark(_) | Output::Wait(_) | Output::GpuWork(_) | Output::Pause(_) => None,
    });
    requests
        .flat_map(|(at, request)| request.phases.iter().map(move |it| (it.id, (it.request, at))))
        .collect()
}

fn waits(outputs: &[Output]) -> Vec<(usize, &Wait)> {
    let waits = outputs.iter().enumerate().filter_map(|(at, output)| match output {
        Output::Wait(wait) => Some((at, &**wait)),
        Output::Thread(_) | Output::Mark(_) | Output::Request(_) | Output::GpuWork(_) | Output::Pause(_) => {
            None
        }
    });
    waits.collect()
}

fn acts() -> impl Strategy<Value = Vec<(u32, Act)>> {
    let act = prop_oneof![
        3 => any::<bool>().prop_map(|interrupted| Act::Begin { interrupted }),
        3 => any::<bool>().prop_map(|interrupted| Act::End { interrupted }),
        4 => Just(Act::Wait),
    ];
    prop::collection::vec((0_u32..4, act), 1..60)
}

fn pace() -> impl Strategy<Value = Vec<usize>> {
    // Some arrive at some time, or reading would never end.
    let steps = prop_oneof![2 => Just(0), 1 => 0_usize..6];
    let some = prop::collection::vec(steps, 0..24);
    some.prop_map(|mut pace| {
        pace.push(1);
        pace
    })
}

fn stuck() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(any::<bool>(), 1..8)
}

proptest! {
    /// For any arrivals between two reads, any size of a batch, and a writer that was stopped in the middle,
    /// so that edges behind its own cannot be read.
    #[test]
    fn waits_lie_in_the_phase_that_their_thread_was_in(
        acts in acts(), most in 1_usize..9, pace in pace(), stuck_edges in stuck(),
    ) {
        let story = story(&acts);
        let outputs = pumped(&story, most, pace, [Vec::new(), stuck_edges]);
        let (phases, waits) = (phases(&outputs), waits(&outputs));
        prop_assert_eq!(waits.len(), story.truth.len());
        for (at, wait) in waits {
            let truth = story.truth[&(wait.thread.tid, wait.start_ns)].last().copied();
            let found = wait.phase.map(|id| phases[&id]);
            prop_assert_eq!(found.map(|found| found.0), truth, "{:?}", wait);
            prop_assert!(found.is_none_or(|found| at < found.1), "it comes before its request: {:?}", wait);
        }
    }

    /// A writer on another CPU that was stopped in the middle hides the waits behind its own; edges go past
    /// them. Such a wait may be found in a phase around its own, or in none, and never in a phase that it was
    /// not in.
    #[test]
    fn waits_that_are_held_up_lie_in_no_wrong_phase(
        acts in acts(), most in 1_usize..9, pace in pace(), stuck in [stuck(), stuck()],
    ) {
        let story = story(&acts);
        let outputs = pumped(&story, most, pace, stuck);
        let (phases, waits) = (phases(&outputs), waits(&outputs));
        prop_assert_eq!(waits.len(), story.truth.len());
        for (at, wait) in waits {
            let Some(found) = wait.phase.map(|id| phases[&id]) else { continue };
            prop_assert!(story.truth[&(wait.thread.tid, wait.start_ns)].contains(&found.0), "{:?}", wait);
            prop_assert!(at < found.1, "it comes before its request: {:?}", wait);
        }
    }
}
