//! Properties of the pairing over well-formed programs: it must match the model, to the nanosecond.

use std::collections::{BTreeSet, HashMap, HashSet};

use guestscope_contract::ACCOUNTS;
use proptest::{collection::vec, prelude::*};

use super::{
    check_invariants,
    model::{Act, Model, THREADS, Turn},
    phases,
};
use crate::{
    phase::{
        Accounts, Counts, Ending, PairingLosses, Phase, PhaseKind,
        pairing::{Output, Pairing},
    },
    record::Record,
};

pub(super) fn turn() -> impl Strategy<Value = Turn> {
    let act = prop_oneof![
        4 => Just(Act::Begin),
        2 => Just(Act::Next),
        2 => Just(Act::First),
        1 => Just(Act::EndBoth),
        2 => prop_oneof![Just(0), 1..900_u64].prop_map(Act::Request),
        4 => Just(Act::End),
        1 => Just(Act::EndInnermost),
        2 => Just(Act::Leave),
        3 => any::<usize>().prop_map(Act::Enter),
        1 => Just(Act::Mark),
    ];
    let passed_ns = prop_oneof![Just(0), 0..50_u64, 0..10_000_000_u64];
    (passed_ns, [0..ACCOUNTS, 0..ACCOUNTS, 0..ACCOUNTS, 0..ACCOUNTS], 0..THREADS, act)
        .prop_map(|(passed_ns, spent_on, thread, act)| Turn { passed_ns, spent_on, thread, act })
}

/// How the run comes to its end.
#[derive(Clone, Copy, Debug)]
enum Finish {
    Ended,
    Exited,
    Stopped,
}

fn feed(pairing: &mut Pairing, model: &mut Model) -> Vec<Output> {
    model.records.drain(..).for_each(|record| pairing.record(&record));
    pairing.take()
}

/// The roots among the outputs, by their number in the model. A request's number is its index there.
fn roots(outputs: &[Output]) -> Vec<usize> {
    let roots = phases(outputs).filter(|phase| phase.kind == PhaseKind::Request);
    roots.map(|phase| phase.name.stored().parse().unwrap()).collect()
}

fn run(turns: &[Turn], finish: Finish) -> (Model, Pairing, Vec<Output>) {
    let (mut model, mut pairing) = (Model::new(), Pairing::new([7; 16]));
    let mut outputs = Vec::new();
    let mut seen = BTreeSet::new();
    for turn in turns {
        model.turn(turn);
        let new = feed(&mut pairing, &mut model);
        for root in roots(&new) {
            assert!(seen.insert(root), "a request comes out once");
        }
        outputs.extend(new);
        assert_eq!(seen, model.done(), "a request comes out as soon as it is whole, and no sooner");
    }
    outputs.extend(feed(&mut pairing, &mut model));
    match finish {
        Finish::Ended => model.finish(),
        Finish::Exited => model.exit(),
        Finish::Stopped => {
            pairing.stop(model.now_ns, &model.ledgers());
            model.abandon(Ending::ObservationStopped);
        }
    }
    outputs.extend(feed(&mut pairing, &mut model));
    (model, pairing, outputs)
}

fn check_phases(model: &Model, outputs: &[Output]) -> Result<(), TestCaseError> {
    let begun: Vec<&Phase> =
        phases(outputs).filter(|phase| matches!(phase.kind, PhaseKind::Request | PhaseKind::Phase)).collect();
    prop_assert_eq!(begun.len(), model.phases.len(), "every phase comes out exactly once");
    let by_id: HashMap<u64, &Phase> = begun.iter().map(|phase| (phase.id, *phase)).collect();
    let index = |id: u64| by_id[&id].name.stored().parse::<usize>().unwrap();
    for phase in &begun {
        let expected = &model.phases[index(phase.id)];
        prop_assert_eq!(phase.kind, expected.kind);
        prop_assert_eq!(phase.parent.map(index), expected.parent);
        prop_assert_eq!(index(phase.root), expected.root);
        prop_assert_eq!(phase.thread, expected.thread);
        prop_assert_eq!(phase.start_ns, expected.start_ns);
        prop_assert_eq!(phase.accounts, Accounts(expected.accounts));
        prop_assert_eq!(phase.suspended_ns, expected.suspended_ns);
        let held_ns = phase.counts.suspended_held_ns;
        prop_assert!(held_ns <= phase.suspended_ns);
        prop_assert!(phase.holder.iter().all(|holder| holder.ns <= held_ns));
        prop_assert_eq!(phase.counts, Counts { suspended_held_ns: held_ns, ..Counts::default() });
        prop_assert_eq!((Some(phase.ending), phase.edges_lost), (expected.ending, 0));
        prop_assert_eq!((phase.request, phase.name_damaged), (index(phase.id) as u64, false));
        if let Some(parent) = phase.parent.map(|id| by_id[&id]) {
            prop_assert!(parent.start_ns <= phase.start_ns);
            let end_ns = |phase: &Phase| phase.start_ns + phase.duration_ns;
            prop_assert!(end_ns(phase) <= end_ns(parent), "children lie inside their parents");
        }
    }
    let queued = |phase: &&Phase| phase.kind == PhaseKind::Queue;
    prop_assert_eq!(
        phases(outputs).filter(queued).count(),
        model.phases.iter().filter(|phase| phase.queue_ns > 0).count()
    );
    for queue in phases(outputs).filter(queued) {
        let root = &model.phases[index(queue.root)];
        prop_assert_eq!(queue.duration_ns, root.queue_ns);
        prop_assert_eq!(queue.start_ns + queue.duration_ns, root.start_ns);
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_phase_comes_out_as_the_model_added_it_up(
        turns in vec(turn(), 0..120),
        finish in prop_oneof![Just(Finish::Ended), Just(Finish::Exited), Just(Finish::Stopped)],
    ) {
        let (model, pairing, outputs) = run(&turns, finish);
        check_invariants(&outputs);
        check_phases(&model, &outputs)?;
        let unended = model.phases.iter().filter(|phase| phase.ending != Some(Ending::Ended)).count() as u64;
        prop_assert_eq!(pairing.losses, PairingLosses { unended_phases: unended, ..PairingLosses::default() });
        prop_assert!(pairing.open.is_empty());
        prop_assert_eq!(outputs.iter().filter(|output| matches!(output, Output::Mark(_))).count(), model.marks);
    }

    #[test]
    fn ids_are_unique_in_a_run(turns in vec(turn(), 0..120)) {
        let (_, _, outputs) = run(&turns, Finish::Stopped);
        let (mut traces, mut spans) = (HashSet::new(), HashSet::new());
        for output in &outputs {
            let Output::Request(request) = output else { continue };
            prop_assert!(traces.insert(request.root().trace.trace_id));
            for phase in &request.phases {
                prop_assert!(spans.insert(phase.trace.span_id));
                let parent = request.phases.iter().find(|parent| Some(parent.id) == phase.parent);
                prop_assert_eq!(phase.trace.parent_span_id, parent.map(|parent| parent.trace.span_id));
            }
        }
    }

    /// A thread and a process come out once, with their whole ledger.
    #[test]
    fn threads_and_processes_add_up_to_their_lives(turns in vec(turn(), 0..60), exited in any::<bool>()) {
        let (model, pairing, outputs) = run(&turns, if exited { Finish::Exited } else { Finish::Stopped });
        let mut born = BTreeSet::new();
        for output in &outputs {
            if let Output::Thread(thread) = output {
                prop_assert!(born.insert(thread.id));
                prop_assert_eq!(thread.accounts.total_ns(), model.now_ns - thread.id.born_ns);
                prop_assert_eq!((thread.end_ns, thread.exited), (model.now_ns, exited));
                let inside = model.inside().find(|(tid, _)| *tid == thread.id.tid);
                prop_assert_eq!(Some(thread.inside.0), inside.map(|(_, inside)| inside));
            }
        }
        prop_assert_eq!(born.len(), THREADS);
        prop_assert_eq!(pairing.live_threads().count(), 0);
        let processes: Vec<&Phase> = phases(&outputs).filter(|phase| phase.kind == PhaseKind::Process).collect();
        prop_assert_eq!(processes.len(), THREADS / 2);
        for process in processes {
            prop_assert_eq!(process.thread.tid, process.thread.tgid);
            prop_assert_eq!(process.duration_ns, model.now_ns - process.start_ns);
        }
    }

    /// Some edges never arrive: every begin that did comes out once, and the lost edges are counted.
    #[test]
    fn lost_edges_cost_phases_and_no_invariant(
        turns in vec(turn(), 0..120), lost in vec(prop::bool::weighted(0.2), 400),
    ) {
        let (mut model, mut pairing) = (Model::new(), Pairing::new([7; 16]));
        for turn in &turns {
            model.turn(turn);
        }
        model.finish();
        let mut begun = 0;
        let mut last_numbers: HashMap<u32, (u32, u32)> = HashMap::new();
        for (record, lost) in model.records.iter().zip(lost.iter().cycle()) {
            match record {
                Record::Task(..) | Record::Wait(_) | Record::Io(_) | Record::Queue(_) => pairing.record(record),
                Record::Edge(_) if *lost => {}
                Record::Edge(edge) => {
                    begun += usize::from(matches!(edge.operation as u8, 1 | 2));
                    let (last, seen) = last_numbers.entry(edge.ledger.tid).or_default();
                    *last = (edge.operation >> 32) as u32;
                    *seen += 1;
                    pairing.edge(edge);
                }
            }
        }
        pairing.stop(model.now_ns, &model.ledgers());
        let outputs = pairing.take();
        check_invariants(&outputs);
        let came_out =
            phases(&outputs).filter(|phase| matches!(phase.kind, PhaseKind::Request | PhaseKind::Phase)).count();
        prop_assert_eq!(came_out, begun);
        let missing: u64 = last_numbers.values().map(|(last, seen)| u64::from(last - seen)).sum();
        prop_assert_eq!(pairing.losses.edges_lost + pairing.losses.edges_before, missing);
    }
}
