//! The same as JSON: stable keys that contain the units, with all ranks.
//!
//! Yields one JSON object of `format` 1. Keys are only ever added.

use serde::Serialize;

use crate::{
    analyze::ranks::{Arrival, Collective, Difference, Judged, Mismatch, Steps, Straggler, Verdict},
    untrusted::{Shown as _, Untrusted},
};

use super::{super::json::print, facts::RanksFacts};

/// Version of the keys.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct RanksJson<'a> {
    format: u32,
    /// The rank that comes last; none if none is named.
    straggler: Option<StragglerJson<'a>>,
    ranks: Vec<RankJson<'a>>,
    collectives: Vec<CollectiveJson>,
    /// Clocks that the ranks' times are of.
    clocks: usize,
    clocks_apart_ns: u64,
    calls_left_out: u64,
    is_coarse: bool,
    notes: &'a [String],
}

#[derive(Serialize)]
struct RankJson<'a> {
    rank: usize,
    pid: u32,
    comm: &'a Untrusted,
    name: Option<&'a Untrusted>,
    folder: Option<Untrusted>,
}

#[derive(Serialize)]
struct StragglerJson<'a> {
    rank: usize,
    collective: Option<&'static str>,
    last: u64,
    late_ns: i64,
    margin_ns: i64,
    steps: Option<StepsJson<'a>>,
}

#[derive(Serialize)]
struct StepsJson<'a> {
    name: &'a Untrusted,
    own: u64,
    others: u64,
    accounts: Vec<DifferenceJson>,
    helpers: Vec<DifferenceJson>,
}

#[derive(Serialize)]
struct DifferenceJson {
    account: &'static str,
    own_ns: u64,
    others_ns: u64,
    difference_ns: i64,
}

#[derive(Serialize)]
struct CollectiveJson {
    name: &'static str,
    calls: u64,
    unmatched: u64,
    between_ns: u64,
    verdict: &'static str,
    /// The rank that the verdict is about.
    verdict_rank: Option<usize>,
    arrivals: Vec<ArrivalJson>,
}

#[derive(Serialize)]
struct ArrivalJson {
    rank: usize,
    last: u64,
    late_ns: i64,
    margin_ns: i64,
}

/// All that is known, as JSON.
pub fn render_ranks_json(judged: &Judged, facts: &RanksFacts) -> String {
    let ranks = judged.ranks.iter().enumerate().map(|(rank, one)| {
        let folder = facts.folders.get(one.folder);
        let (name, folder) = (folder.map(|folder| &folder.name), folder.map(|folder| folder.path.shown()));
        RankJson { rank, pid: one.pid, comm: &one.comm, name, folder }
    });
    print(&RanksJson {
        format: FORMAT,
        straggler: judged.straggler.as_ref().map(|one| straggler(one, judged)),
        ranks: ranks.collect(),
        collectives: judged.collectives.iter().map(collective).collect(),
        clocks: judged.clocks,
        clocks_apart_ns: facts.apart_ns,
        calls_left_out: judged.left_out,
        is_coarse: judged.is_coarse,
        notes: &facts.notes,
    })
}

fn straggler<'a>(one: &'a Straggler, judged: &Judged) -> StragglerJson<'a> {
    let collective = judged.collectives.get(one.collective);
    let arrival = collective.and_then(|of| of.arrival(one.rank));
    StragglerJson {
        rank: one.rank,
        collective: collective.map(|collective| collective.name),
        last: arrival.map_or(0, |arrival| arrival.last),
        late_ns: arrival.map_or(0, |arrival| arrival.late_ns),
        margin_ns: arrival.map_or(0, |arrival| arrival.margin_ns),
        steps: one.steps.as_ref().map(steps),
    }
}

fn steps(steps: &Steps) -> StepsJson<'_> {
    let one = |one: &Difference| DifferenceJson {
        account: one.account.name(),
        own_ns: one.own_ns,
        others_ns: one.others_ns,
        difference_ns: one.ns(),
    };
    StepsJson {
        name: &steps.name,
        own: steps.own,
        others: steps.others,
        accounts: steps.accounts.iter().map(one).collect(),
        helpers: steps.helpers.iter().map(one).collect(),
    }
}

fn collective(one: &Collective) -> CollectiveJson {
    let (verdict, verdict_rank) = match one.verdict {
        Verdict::Late(rank) => ("late", Some(rank)),
        Verdict::Even => ("even", None),
        Verdict::Little(rank) => ("little", Some(rank)),
        Verdict::WithinClocks(rank) => ("within_clocks", Some(rank)),
        Verdict::Ambiguous(rank) => ("ambiguous", Some(rank)),
        Verdict::TooFew => ("too_few", None),
        Verdict::Unmatched(rank, Mismatch::OtherTimes) => ("other_times", Some(rank)),
        Verdict::Unmatched(rank, Mismatch::Unclear) => ("unclear", Some(rank)),
        Verdict::Unmatched(rank, Mismatch::Shifted) => ("shifted", Some(rank)),
    };
    let arrival = |&Arrival { rank, last, late_ns, margin_ns }: &Arrival| ArrivalJson {
        rank,
        last,
        late_ns,
        margin_ns,
    };
    CollectiveJson {
        name: one.name,
        calls: one.calls,
        unmatched: one.unmatched,
        between_ns: one.between_ns,
        verdict,
        verdict_rank,
        arrivals: one.arrivals.iter().map(arrival).collect(),
    }
}
