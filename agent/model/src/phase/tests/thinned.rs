//! Requests that the kernel side leaves out on purpose: the others come out as if they were alone, and
//! nothing counts as lost. The choice is made here as the kernel side makes it.

use std::collections::{BTreeMap, HashMap, HashSet};

use guestscope_contract::{
    Choice, EdgeRecord, Operation, ends_another, helpers::Outside, ledger::Ledger, root_of,
};
use proptest::{collection::vec, prelude::*};

use super::{check_invariants, model::Model, phases, play, properties::turn, script::World};
use crate::{
    phase::{
        Accounts, PairingLosses, Phase, PhaseKind,
        pairing::{Output, Pairing},
    },
    record::Record,
};

/// What the kernel side knows.
#[derive(Default)]
struct Kernel {
    /// By thread number.
    outside: HashMap<u32, Outside>,
    /// Roots that are not handed over, by process and token.
    unseen: HashSet<(u32, u64)>,
    /// Roots that were not handed over.
    left_out: HashSet<u64>,
    /// Requests that were drawn and not handed over.
    requests_unseen: usize,
}

impl Kernel {
    /// The edge as it is handed over, if it is. A request that is drawn is if `is_lucky`.
    fn edge(&mut self, edge: &EdgeRecord, is_lucky: bool) -> Option<EdgeRecord> {
        let EdgeRecord { operation: head, token, arguments: [first, second, _, fourth], .. } = *edge;
        let outside = self.outside.entry(edge.ledger.tid).or_default();
        let key = (edge.ledger.tgid, root_of(token));
        let choice = outside.choice(head, token, second);
        let is_seen = match choice {
            Choice::Seen => true,
            Choice::Drawn => is_lucky,
            Choice::Unseen => false,
            Choice::AsRoot => !self.unseen.contains(&key),
            Choice::AsInnermost => !outside.is_unseen(),
        };
        if !is_seen && Operation::begins_request(head as u8, token) {
            self.unseen.insert(key);
            self.left_out.insert(token);
            self.requests_unseen += usize::from(choice.is_request(second));
        }
        let ended = u16::from(ends_another(head, token, second, fourth));
        if outside.depth > ended {
            outside.depth -= ended;
        }
        outside.edge(head, token, first, &Ledger::EMPTY, 0);
        outside.chosen(head, is_seen);
        is_seen.then_some(EdgeRecord { left_out: outside.left_out as u32, ..*edge })
    }
}

/// Phases by their places in the model.
fn by_place(outputs: &[Output]) -> BTreeMap<usize, Phase> {
    let begun = phases(outputs).filter(|phase| matches!(phase.kind, PhaseKind::Request | PhaseKind::Phase));
    begun.map(|phase| (phase.name.stored().parse().unwrap(), phase.clone())).collect()
}

proptest! {
    /// Whatever is drawn for each request, and however that changes meanwhile.
    #[test]
    fn what_is_handed_over_comes_out_whole(turns in vec(turn(), 0..160), luck in vec(any::<bool>(), 1..40)) {
        let mut model = Model::new();
        for turn in &turns {
            model.turn(turn);
        }
        model.finish();
        let (mut pairing, mut kernel) = (Pairing::new([7; 16]), Kernel::default());
        for (record, is_lucky) in model.records.iter().zip(luck.iter().cycle()) {
            match record {
                Record::Edge(edge) => {
                    if let Some(edge) = kernel.edge(edge, *is_lucky) {
                        pairing.edge(&edge);
                    }
                }
                Record::Task(..) | Record::Wait(_) | Record::Io(_) | Record::Queue(_) => pairing.record(record),
            }
        }
        let outputs = pairing.take();
        check_invariants(&outputs);
        let found = by_place(&outputs);
        let is_seen = |place: &usize| !kernel.left_out.contains(&model.phases[model.phases[*place].root].token);
        let expected: Vec<usize> = (0..model.phases.len()).filter(is_seen).collect();
        prop_assert_eq!(found.keys().copied().collect::<Vec<usize>>(), expected);
        for (place, phase) in found {
            let expected = &model.phases[place];
            prop_assert_eq!(phase.start_ns, expected.start_ns);
            prop_assert_eq!(phase.accounts, Accounts(expected.accounts));
            prop_assert_eq!(phase.suspended_ns, expected.suspended_ns);
            prop_assert_eq!((Some(phase.ending), phase.edges_lost), (expected.ending, 0));
        }
        prop_assert_eq!(pairing.losses, PairingLosses::default());
        prop_assert!(pairing.open.is_empty() && pairing.requests.is_empty());
        let requests = model.phases.iter().filter(|phase| phase.kind == PhaseKind::Request).count();
        let seen = phases(&outputs).filter(|phase| phase.kind == PhaseKind::Request).count();
        prop_assert_eq!(seen + kernel.requests_unseen, requests, "the number of requests is exact");
    }
}

#[test]
fn edges_left_out_on_purpose_are_no_loss() {
    let printed = play(
        "
        0   10/10 begin 262144 first
        10  10/10 end 262144
        20  10/10 begin 786432 seen number=7 leftout=4
        30  10/10 end 786432 leftout=4
        40  10/10 begin 1048576 next number=12 leftout=6
        50  10/10 end 1048576 leftout=6",
    );
    insta::assert_snapshot!(printed, @"
    request first  10/10  0..10   cpu 10
    request seen   10/10  20..30  cpu 10
    request next   10/10  40..50  cpu 10
    losses: edges lost 1
    ");
}

/// Other threads are inside requests that are not handed over: a helper worked for those as well.
#[test]
fn helpers_worked_for_the_unseen_as_well() {
    for (unseen, expected) in [(0, (40, false)), (3, (10, true))] {
        let text = format!(
            "
            0   10/10 begin 262144 seen unseen={unseen} threads=2 sum=cpu:0
            80  10/10 end 262144 unseen={unseen} threads=2 sum=cpu:40"
        );
        let outputs = World::default().play(&text);
        let helpers = phases(&outputs).next().expect("it came out").helpers;
        assert_eq!((helpers.accounts.total_ns(), helpers.shared), expected);
    }
}
