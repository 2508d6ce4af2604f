//! What the numbers of a run do not contain and its reader must know first: requests without an end, and
//! marks of threads that were not tracked.
//!
//! Yields [`Hidden`]. A request hangs if it has been open for ten times as long as nearly all of its kind
//! take, and for a second at least.

use guestscope_contract::Account;

use crate::phase::{AllUnfinished, Doing, Others, Unfinished};
use crate::untrusted::Untrusted;

use super::{
    advice::{self, Advice},
    summary::Summary,
};

/// Times the 99th percentile (the longest of fewer than 100 requests) beyond which a request hangs.
const TIMES: u64 = 10;
/// No request hangs before so long.
const LEAST_NS: u64 = 1_000_000_000;

/// What a request without an end is to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Openness {
    /// It is open for much longer than its kind takes.
    Hung,
    /// Its thread, process or program ended inside it.
    Ended,
    /// It is open, as one always is.
    InFlight,
}

impl Openness {
    /// All of them, in the order in which they are told.
    pub const ALL: [Openness; 3] = [Openness::Hung, Openness::Ended, Openness::InFlight];

    /// The word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Openness::Hung => "hung",
            Openness::Ended => "ended",
            Openness::InFlight => "in_flight",
        }
    }
}

/// Requests of one [`Openness`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Openly<'a> {
    /// Their number.
    pub count: u64,
    /// The one that was open longest.
    pub longest: &'a Unfinished,
}

impl Openness {
    /// What to do about such a request, where that follows from what it waits for.
    pub fn advice(self, one: &Unfinished) -> Option<Advice> {
        let Doing::Waits(wait) = &one.doing else { return None };
        if self == Openness::InFlight {
            return None;
        }
        if let Some(by) = wait.stopped_by {
            return advice::for_cause(advice::of_stops(by));
        }
        let Others { alive, locked, forked_from } = one.others.filter(|_| wait.account == Account::Lock)?;
        match alive {
            0 if wait.is_private == Some(false) => None,
            0 => advice::for_cause(if forked_from.is_some() { advice::FORKED } else { advice::ALONE }),
            1.. if locked >= alive => advice::for_cause(advice::DEADLOCK),
            _ => None,
        }
    }
}

/// Marks that are in no phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untracked {
    /// Marks of threads that were not tracked.
    pub marks: u64,
    /// Requests that they began.
    pub requests: u64,
    /// Whether threads were not tracked since there was no room for more.
    pub for_want_of_room: bool,
    /// Threads for which there was room; none where it is not known.
    pub max_threads: Option<u32>,
}

/// What is not among the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    /// The longest requests without an end, of each kind the longest first.
    pub requests: Vec<(Openness, Unfinished)>,
    /// Number of those that are open.
    pub open: u64,
    /// Number of those that were ended.
    pub ended: u64,
    /// Marks of threads that were not tracked.
    pub untracked: Untracked,
}

impl Hidden {
    /// For how long the longest request hung that hangs or did not end by itself, ns; 0 without one.
    pub fn hung_ns(&self) -> u64 {
        let hung = self.requests.iter().filter(|(openness, _)| *openness != Openness::InFlight);
        hung.map(|(_, one)| one.age_ns()).max().unwrap_or(0)
    }

    /// Judges requests without an end by those that have one.
    pub fn new(all: AllUnfinished, untracked: Untracked, summary: Option<&Summary>) -> Self {
        let AllUnfinished { open, ended, requests } = all;
        let judged = |one: Unfinished| {
            let openness = match one.fate.is_open() {
                false => Openness::Ended,
                true if one.age_ns() >= limit_ns(summary, &one.name) => Openness::Hung,
                true => Openness::InFlight,
            };
            (openness, one)
        };
        let mut requests: Vec<(Openness, Unfinished)> = requests.into_iter().map(judged).collect();
        requests.sort_by_key(|(_, one)| (std::cmp::Reverse(one.age_ns()), one.id));
        Self { requests, open, ended, untracked }
    }

    /// The requests of one kind; none if there is none.
    pub fn of(&self, openness: Openness) -> Option<Openly<'_>> {
        let mut those = self.requests.iter().filter(|(kind, _)| *kind == openness).map(|(_, one)| one);
        let longest = those.next()?;
        let listed = 1 + those.count() as u64;
        let is_open = |kind: Openness| kind != Openness::Ended;
        let all = if is_open(openness) { self.open } else { self.ended };
        let alike =
            self.requests.iter().filter(|(kind, _)| is_open(*kind) == is_open(openness)).count() as u64;
        // Those that are not listed are the shortest: in flight, unless all that are listed hang.
        let has_rest = openness != Openness::Hung || listed == alike;
        let rest = if has_rest { all.saturating_sub(alike) } else { 0 };
        Some(Openly { count: listed + rest, longest })
    }

    /// Whether requests were marked that no number contains.
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty() || self.untracked.marks > 0
    }
}

fn limit_ns(summary: Option<&Summary>, name: &Untrusted) -> u64 {
    let group = summary.and_then(|summary| summary.groups.iter().find(|group| group.name == *name));
    let usual_ns = group.map_or(0, |group| group.latency.p99_ns.unwrap_or(group.latency.max_ns));
    usual_ns.saturating_mul(TIMES).max(LEAST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::samples::inference;
    use crate::phase::{Doing, Fate, ThreadId};

    fn one(id: u64, name: &str, age_ns: u64, fate: Fate) -> Unfinished {
        Unfinished {
            id,
            name: name.into(),
            request: id,
            thread: ThreadId::default(),
            start_ns: 1_000,
            until_ns: 1_000 + age_ns,
            path: Vec::new(),
            phase_start_ns: 1_000,
            fate,
            doing: Doing::Unknown,
            others: None,
        }
    }

    fn hidden(open: u64, requests: Vec<Unfinished>) -> Hidden {
        let ended = requests.iter().filter(|one| !one.fate.is_open()).count() as u64;
        // 30 requests, of which the longest takes 107 ms.
        let requests_that_ended = inference(30);
        let summary = Summary::new(|| requests_that_ended.iter().cloned());
        Hidden::new(AllUnfinished { open, ended, requests }, Untracked::default(), Some(&summary))
    }

    fn told(hidden: &Hidden) -> Vec<(&'static str, u64, u64)> {
        let of = |kind: Openness| hidden.of(kind).map(|those| (kind.name(), those.count, those.longest.id));
        Openness::ALL.into_iter().filter_map(of).collect()
    }

    /// Ten times the longest of 30 is 1.07 s; of an unknown kind a second is enough.
    #[test]
    fn a_request_hangs_that_is_open_much_longer_than_its_kind_takes() {
        const MS: u64 = 1_000_000;
        let name = inference(1)[0].root().name.stored().to_owned();
        let requests = vec![
            one(1, &name, 1_060 * MS, Fate::Open),
            one(2, &name, 1_080 * MS, Fate::Open),
            one(3, "other", 1_000 * MS, Fate::Stopped),
            one(4, "other", 999 * MS, Fate::Stopped),
            one(5, "other", 20 * MS, Fate::ThreadEnded),
        ];
        assert_eq!(told(&hidden(4, requests)), [("hung", 2, 2), ("ended", 1, 5), ("in_flight", 2, 1)]);
        assert_eq!(told(&hidden(0, Vec::new())), []);
    }

    /// The list holds the longest alone: those beyond it are counted with the shortest of it.
    #[test]
    fn requests_beyond_the_list_are_counted() {
        const S: u64 = 1_000_000_000;
        let old = || vec![one(1, "other", 9 * S, Fate::Open), one(2, "other", 8 * S, Fate::Open)];
        assert_eq!(told(&hidden(10, old())), [("hung", 10, 1)]);
        let mixed = [old(), vec![one(3, "other", S / 2, Fate::Open)]].concat();
        assert_eq!(told(&hidden(10, mixed)), [("hung", 2, 1), ("in_flight", 8, 3)]);
    }
}
