//! Third reading of a run, for requests of one name: the chosen requests, the counts of the typical one, the
//! tails.
//!
//! Yields [`Explained`] without waits. The earlier readings determined the typical request and the
//! percentiles.

use std::collections::{HashMap, HashSet};

use crate::phase::Request;

use super::{
    super::{
        quantiles::Band,
        split::Split,
        summary::{Group, excesses},
        tree::{Leaves, Located, PlaceId, latency_ns},
        typical::RequestKind,
    },
    case::Case,
    counts::{self, Usual},
    explained::{Explained, SAME_NUMBER, Wanted},
    tail::TailTally,
};

/// Requests of one name, while they are read.
pub(super) struct Reading {
    /// Chosen by their place among the slowest.
    ids: HashSet<u64>,
    /// Chosen by their number.
    number: Option<u64>,
    usual: Usual,
    tails: Vec<TailTally>,
    cases: Vec<Case>,
}

impl Reading {
    pub(super) fn new(kind: &RequestKind) -> Self {
        Self {
            ids: HashSet::new(),
            number: None,
            usual: Usual::new(kind.typical.requests, kind.typical.latency_ns),
            tails: Vec::new(),
            cases: Vec::new(),
        }
    }

    /// Chooses requests before they come.
    pub(super) fn choose(&mut self, wanted: Wanted, group: &Group) {
        match wanted {
            Wanted::Slowest(most) => self.ids = group.slowest.iter().take(most).map(|slow| slow.id).collect(),
            Wanted::Number(number) => self.number = Some(number),
        }
        let limits = [(Band::P90, group.latency.p90_ns), (Band::P99, group.latency.p99_ns)];
        let tails = limits.into_iter().filter_map(|(band, limit)| Some(TailTally::new(band, limit?)));
        self.tails = tails.collect();
    }

    /// Adds a request that statistics count.
    pub(super) fn add(&mut self, kind: &RequestKind, request: &Request) {
        let RequestKind { tree, typical } = kind;
        let latency_ns = latency_ns(request);
        let is_usual = typical.half.contains(latency_ns);
        let is_slow = self.tails.iter().any(|tail| tail.contains(latency_ns));
        let is_chosen = self.is_chosen(request);
        if !is_usual && !is_slow && !is_chosen {
            return;
        }
        let located = tree.locate(request);
        if is_usual || is_chosen {
            let own = counts::own(request, &located);
            if is_usual {
                self.usual.add(&own);
            }
            if is_chosen {
                let excess = split_of(request, &located);
                self.cases.push(Case::new(request, &located, &excess, own, kind));
            }
        }
        if is_slow {
            let own = split_of(request, &located);
            let parts: Vec<_> = excesses(&own, typical).collect();
            let excess_ns = i128::from(latency_ns) - i128::from(typical.latency_ns);
            let tails = self.tails.iter_mut().filter(|tail| tail.contains(latency_ns));
            tails.for_each(|tail| tail.add(excess_ns, &parts));
        }
    }

    /// Each number is chosen once: a folder from elsewhere may have any number of requests of the same.
    fn is_chosen(&mut self, request: &Request) -> bool {
        let root = request.root();
        self.ids.remove(&root.id) || (self.number == Some(root.request) && self.cases.len() < SAME_NUMBER)
    }

    pub(super) fn finish(self, kind: &RequestKind) -> Explained {
        let RequestKind { tree, typical } = kind;
        let Self { usual, tails, mut cases, .. } = self;
        for case in &mut cases {
            case.compare(&usual);
        }
        cases.sort_by_key(|case| (std::cmp::Reverse(case.latency_ns), case.start_ns, case.id));
        let order: Vec<PlaceId> = typical.own.iter().map(|(place, _)| *place).collect();
        // Where many are equally slow, none is above the percentile.
        let tails = tails.into_iter().map(|tail| tail.finish(tree, &order)).filter(|tail| tail.requests > 0);
        Explained { cases, tails: tails.collect() }
    }
}

/// Own time by place, each place once.
pub(super) fn split_of(request: &Request, located: &Located) -> HashMap<PlaceId, Split> {
    let mut own: HashMap<PlaceId, Split> = HashMap::new();
    for (place, split) in Leaves::of(request, located).own {
        own.entry(place).or_default().add(&split);
    }
    own
}
