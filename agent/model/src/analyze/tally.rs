//! First reading of a run: groups the requests by name, sums each group up, keeps the slowest.
//!
//! Yields one [`GroupTally`] per name of an outermost phase, in bounded memory. The typical request takes a
//! second reading.

use std::collections::HashMap;

use guestscope_contract::Account;

use crate::phase::{COUNTS, Counts, Ending, Holder, PhaseKind, Request, ThreadId};
use crate::untrusted::Untrusted;

use super::{
    cause::Cause,
    helped::Helped,
    quantiles::Durations,
    rows::{RowTally, add_counts},
    split::{Split, Sums},
    tree::{ALL_PLACES, Leaves, Located, OTHER_REQUESTS, PlaceId, ROOT, Tree, latency_ns, whole_time},
};

/// Slowest requests that a group keeps.
pub const SLOWEST: usize = 10;

/// Requests that statistics leave out, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Named [`crate::phase::WARMUP`] by the program.
    pub warmups: u64,
    /// Requests without a recorded end: their durations are not what the program meant.
    pub unfinished: u64,
    /// Rows that break a promise of the format, for instance accounts that do not add up to the duration.
    pub damaged: u64,
}

/// A process, by its main thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    /// Unique in the run.
    pub id: u64,
    /// Process name.
    pub name: Untrusted,
    /// Process ID in the initial namespace.
    pub pid: u32,
    /// Time for which it was observed, ns.
    pub wall_ns: u64,
    /// Where that time went.
    pub split: Split,
    /// Events of its main thread.
    pub counts: Counts,
}

/// Kinds of requests that are kept apart, the first ones: vLLM has eight before it serves its first request.
const GROUPS: usize = 32;
/// Processes that are kept: the longest ones, and the one that used the CPU most.
const PROCESSES: usize = 20;
/// Longer durations (146 years) are damage: with them, differences would no longer fit a signed number.
const LONGEST_NS: u64 = 1 << 62;

/// How a row of the folder enters the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Counted,
    Warmup,
    Unfinished,
    Damaged,
    Process,
}

impl Standing {
    pub(super) fn of(request: &Request) -> Self {
        let Some(root) = request.phases.first() else { return Standing::Damaged };
        match root.kind {
            PhaseKind::Process => return Standing::Process,
            PhaseKind::Phase | PhaseKind::Queue => return Standing::Damaged,
            PhaseKind::Request => {}
        }
        if request.is_warmup() {
            return Standing::Warmup;
        }
        match root.ending {
            Ending::ThreadExited | Ending::Exec | Ending::Lost | Ending::ObservationStopped => {
                Standing::Unfinished
            }
            Ending::Ended if latency_ns(request) > LONGEST_NS => Standing::Damaged,
            Ending::Ended if Split::of(root).total_ns() != u128::from(root.duration_ns) => Standing::Damaged,
            Ending::Ended => Standing::Counted,
        }
    }
}

/// One of the slowest requests so far.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) latency_ns: u64,
    pub(super) id: u64,
    pub(super) request: u64,
    pub(super) trace_id: [u8; 16],
    pub(super) thread: ThreadId,
    pub(super) start_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) fault_minor: u64,
    /// What had its thread for longest while one of its phases was suspended.
    pub(super) holder: Option<Box<Holder>>,
    /// Each place once.
    pub(super) own: HashMap<PlaceId, Split>,
}

impl Candidate {
    fn new(request: &Request, latency_ns: u64, leaves: &Leaves) -> Self {
        let root = request.root();
        let mut own: HashMap<PlaceId, Split> = HashMap::new();
        for (place, split) in &leaves.own {
            own.entry(*place).or_default().add(split);
        }
        let (id, request_number) = (root.id, root.request);
        let fault_minor = root.counts.fault_minor;
        let trace_id = root.trace.trace_id;
        let holders = request.phases.iter().filter_map(|phase| phase.holder.as_ref());
        let holder = holders.max_by_key(|holder| holder.ns).cloned();
        let (start_ns, duration_ns, thread) = (root.start_ns, root.duration_ns, root.thread);
        let request = request_number;
        Self { latency_ns, id, request, trace_id, thread, start_ns, duration_ns, fault_minor, holder, own }
    }

    fn rank(&self) -> (std::cmp::Reverse<u64>, u64, u64) {
        (std::cmp::Reverse(self.latency_ns), self.start_ns, self.id)
    }
}

/// Requests of one name.
#[derive(Clone, Debug)]
pub(super) struct GroupTally {
    pub(super) tree: Tree,
    pub(super) latency: Durations,
    pub(super) sums: Sums,
    pub(super) counts: [u128; COUNTS],
    pub(super) helped: Helped,
    pub(super) first_start_ns: u64,
    pub(super) last_end_ns: u64,
    /// Tallies by place; the root's tally is the time outside phases.
    pub(super) rows: Vec<RowTally>,
    /// Slowest first.
    pub(super) slowest: Vec<Candidate>,
    pub(super) overlapping: u64,
    pub(super) lossy: u64,
}

impl GroupTally {
    fn new(name: &Untrusted) -> Self {
        Self {
            tree: Tree::new(name),
            latency: Durations::default(),
            sums: Sums::default(),
            counts: [0; COUNTS],
            helped: Helped::default(),
            first_start_ns: u64::MAX,
            last_end_ns: 0,
            rows: Vec::new(),
            slowest: Vec::new(),
            overlapping: 0,
            lossy: 0,
        }
    }

    fn add(&mut self, request: &Request, room: &mut usize) {
        let root = request.root();
        let latency_ns = latency_ns(request);
        let located = self.tree.learn(request, room);
        let leaves = Leaves::of(request, &located);
        self.latency.record(latency_ns);
        self.sums.add(&request_split(request));
        add_counts(&mut self.counts, &root.counts);
        self.helped.add(root);
        self.first_start_ns = self.first_start_ns.min(root.start_ns);
        self.last_end_ns = self.last_end_ns.max(root.start_ns.saturating_add(root.duration_ns));
        self.overlapping += u64::from(leaves.overlapping_ns > 0);
        self.lossy += u64::from(root.edges_lost > 0);
        self.add_rows(request, &located, &leaves);
        if self.slowest.len() < SLOWEST
            || self.slowest.last().is_some_and(|last| latency_ns >= last.latency_ns)
        {
            self.slowest.push(Candidate::new(request, latency_ns, &leaves));
            self.slowest.sort_by_key(Candidate::rank);
            self.slowest.truncate(SLOWEST);
        }
    }

    fn add_rows(&mut self, request: &Request, located: &Located, leaves: &Leaves) {
        self.rows.resize_with(self.tree.len(), RowTally::default);
        for (index, phase) in request.phases.iter().enumerate().skip(1) {
            if !located.is_inside_other(index) {
                self.rows[located.places[index]].add(phase);
            }
        }
        let outside = &mut self.rows[ROOT];
        let (_, own) = leaves.own[0];
        // Cannot be cut: it is a part of the root's duration, which fits.
        outside.durations.record(own.total_ns() as u64);
        outside.sums.add(&own);
    }
}

/// Latency of a request by cause. What phases did on other threads has the place of its waits for others.
pub fn request_split(request: &Request) -> Split {
    let mut split = whole_time(request);
    for queue in request.phases.iter().filter(|phase| phase.kind == PhaseKind::Queue) {
        split.add(&Split::of(queue));
    }
    split
}

/// Kinds of requests by name, up to [`GROUPS`]; all later names are one kind.
#[derive(Clone, Debug)]
pub(super) struct ByName<T> {
    kinds: Vec<(Untrusted, T)>,
    by_name: HashMap<Untrusted, usize>,
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self { kinds: Vec::new(), by_name: HashMap::new() }
    }
}

impl<T> ByName<T> {
    /// The kind of this name, or the one for all others if there is no room.
    pub(super) fn entry(&mut self, name: &Untrusted, new: impl FnOnce(&Untrusted) -> T) -> &mut T {
        let index = match self.by_name.get(name) {
            Some(&index) => index,
            None if self.kinds.len() < GROUPS => self.insert(name.clone(), new),
            None => match self.by_name.get(&OTHER_REQUESTS.into()) {
                Some(&index) => index,
                None => self.insert(OTHER_REQUESTS.into(), new),
            },
        };
        &mut self.kinds[index].1
    }

    fn insert(&mut self, name: Untrusted, new: impl FnOnce(&Untrusted) -> T) -> usize {
        self.kinds.push((name.clone(), new(&name)));
        self.by_name.insert(name, self.kinds.len() - 1);
        self.kinds.len() - 1
    }

    /// The value that [`ByName::entry`] created for this name.
    pub(super) fn get(&self, name: &Untrusted) -> Option<&T> {
        let index = self.by_name.get(name).or_else(|| self.by_name.get(&OTHER_REQUESTS.into()))?;
        Some(&self.kinds[*index].1)
    }

    /// The same names with values beside these.
    pub(super) fn beside<U>(&self, new: impl Fn(&T) -> U) -> ByName<U> {
        let kinds = self.kinds.iter().map(|(name, kind)| (name.clone(), new(kind)));
        ByName { kinds: kinds.collect(), by_name: self.by_name.clone() }
    }

    /// Each name with its value.
    pub(super) fn into_kinds(self) -> impl Iterator<Item = (Untrusted, T)> {
        self.kinds.into_iter()
    }

    /// The same names with other values.
    pub(super) fn map<U>(self, mut convert: impl FnMut(&Untrusted, T) -> U) -> ByName<U> {
        let kinds = self.kinds.into_iter().map(|(name, kind)| {
            let converted = convert(&name, kind);
            (name, converted)
        });
        ByName { kinds: kinds.collect(), by_name: self.by_name }
    }

    pub(super) fn get_mut(&mut self, name: &Untrusted) -> Option<&mut T> {
        let index = self.by_name.get(name).or_else(|| self.by_name.get(&OTHER_REQUESTS.into()))?;
        Some(&mut self.kinds[*index].1)
    }
}

/// A whole run, read once.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Places that the trees may still take.
    room: usize,
    pub(super) groups: ByName<GroupTally>,
    pub(super) left_out: LeftOut,
    pub(super) processes: Vec<ProcessRow>,
    pub(super) processes_seen: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            room: ALL_PLACES,
            groups: ByName::default(),
            left_out: LeftOut::default(),
            processes: Vec::new(),
            processes_seen: 0,
        }
    }
}

impl Tally {
    pub(super) fn add(&mut self, request: &Request) {
        match Standing::of(request) {
            Standing::Counted => {
                self.groups.entry(&request.root().name, GroupTally::new).add(request, &mut self.room);
            }
            Standing::Warmup => self.left_out.warmups += 1,
            Standing::Unfinished => self.left_out.unfinished += 1,
            Standing::Damaged => self.left_out.damaged += 1,
            Standing::Process => self.add_process(request),
        }
    }

    fn add_process(&mut self, request: &Request) {
        let process = request.root();
        self.processes_seen += 1;
        self.processes.push(ProcessRow {
            id: process.id,
            name: process.name.clone(),
            pid: process.thread.tgid,
            wall_ns: process.duration_ns,
            split: Split::of(process),
            counts: process.counts,
        });
        self.processes.sort_by_key(|row| (std::cmp::Reverse(row.wall_ns), row.id));
        if self.processes.len() > PROCESSES {
            // The process with the most CPU time stays: a waiting shell outlasts every compiler.
            let cpu = |row: &ProcessRow| row.split.get(Cause::Account(Account::Cpu));
            let busiest = self.processes.iter().map(cpu).max();
            let spare = self.processes.iter().rposition(|row| Some(cpu(row)) != busiest);
            self.processes.remove(spare.unwrap_or(PROCESSES));
        }
    }
}
