//! Takes requests, keeps the calls of collectives by process and the times of steps by name.
//!
//! Bounded: what finds no room is counted. All processes keep the same number of first calls, so that those
//! of one still meet those of the others.

use std::collections::{BTreeMap, HashSet};

use guestscope_contract::{ACCOUNTS, Source};

use super::{
    super::tally::Standing, COLLECTIVES, Collective, Judged, Rank, Straggler, Terms, Verdict, arrivals, steps,
};
use crate::{
    phase::{Accounts, Phase, Request},
    untrusted::Untrusted,
};

/// Calls that are kept in all, 16 bytes each, and up to as much again while lists grow.
const MOST_CALLS: usize = 2 << 20;
/// Processes that are told apart: a large machine's, with all those that load data.
const MOST_PROCESSES: usize = 1024;
/// Names of steps for each process: a program of training has a handful.
const MOST_NAMES: usize = 16;
/// Other phases of the preset `nccl`: no steps, and what passes in them is no work of a step either.
const BESIDE: [&str; 4] = ["send", "receive", "group", INIT];
/// The phase in which a process joins the others, before its first collective.
const INIT: &str = "init";

/// A call of a collective, ns on the clock of its folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
}

/// Times of all steps of a name, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) steps: u64,
    pub(super) accounts: [u128; ACCOUNTS],
    pub(super) helpers: [u128; ACCOUNTS],
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    rank: Rank,
    /// By the places of the names in [`COLLECTIVES`].
    pub(super) calls: [Vec<Call>; COLLECTIVES.len()],
    /// When it first joined the others, if that was seen, ns.
    init_ns: Option<i64>,
    pub(super) steps: BTreeMap<Untrusted, Sums>,
    /// Time from the begin of a step to calls of these names, ns, and the number of such calls.
    before_call: [(u128, u64); COLLECTIVES.len()],
}

impl Process {
    /// The mean time from the begin of a step to a call of this name, ns; none if calls are in no steps.
    pub(super) fn before_call_ns(&self, name: usize) -> Option<u128> {
        let (ns, calls) = self.before_call[name];
        ns.checked_div(calls.into())
    }

    pub(super) const fn folder(&self) -> usize {
        self.rank.folder
    }

    fn has_calls(&self) -> bool {
        self.calls.iter().any(|calls| !calls.is_empty())
    }

    /// Whether it was seen to join the others before it called any collective: then its first call is its
    /// first one.
    pub(super) fn is_from_first(&self) -> bool {
        let first = self.calls.iter().filter_map(|calls| calls.first()).map(|call| call.start_ns).min();
        self.init_ns.zip(first).is_some_and(|(init_ns, first_ns)| init_ns <= first_ns)
    }
}

/// Collects what all processes did.
#[derive(Debug)]
pub struct Ranks {
    processes: BTreeMap<(usize, u32), Process>,
    /// Calls kept in all.
    kept: usize,
    /// Calls of one name that each process may keep.
    most_each: usize,
    left_out: u64,
}

impl Default for Ranks {
    fn default() -> Self {
        Self { processes: BTreeMap::new(), kept: 0, most_each: MOST_CALLS, left_out: 0 }
    }
}

impl Ranks {
    /// Takes a request of the folder of this number. `offset_ns` brings its times to the clock by which they
    /// compare with those of other folders.
    pub fn add(&mut self, folder: usize, request: &Request, offset_ns: i64) {
        let Some(root) = request.phases.first() else { return };
        let id = (folder, root.thread.tgid);
        if !self.processes.contains_key(&id) && self.processes.len() >= MOST_PROCESSES {
            self.left_out += request.phases.iter().filter(|phase| collective(phase).is_some()).count() as u64;
            return;
        }
        let process = self.processes.entry(id).or_insert_with(|| Process {
            rank: Rank { folder, pid: id.1, comm: Untrusted::default() },
            calls: Default::default(),
            init_ns: None,
            steps: BTreeMap::new(),
            before_call: Default::default(),
        });
        for phase in &request.phases {
            let start_ns = time(phase.start_ns).saturating_add(offset_ns);
            if let Some(name) = collective(phase) {
                if !process.has_calls() {
                    process.rank.comm = phase.comm.clone();
                }
                let calls = &mut process.calls[name];
                if calls.len() >= self.most_each {
                    self.left_out += 1;
                    continue;
                }
                if !is_of_nccl(root) {
                    let (ns, calls) = &mut process.before_call[name];
                    *ns += u128::from(phase.start_ns.saturating_sub(root.start_ns));
                    *calls += 1;
                }
                calls.push(Call { start_ns, end_ns: start_ns.saturating_add(time(phase.duration_ns)) });
                self.kept += 1;
            } else if phase.source == Source::Function && phase.name == INIT {
                process.init_ns = Some(process.init_ns.map_or(start_ns, |known| known.min(start_ns)));
            }
        }
        process.add_step(request);
        while self.kept > MOST_CALLS {
            self.keep_fewer();
        }
    }

    /// Halves what each process may keep. Calls come nearly in the order of their times.
    fn keep_fewer(&mut self) {
        self.most_each /= 2;
        for calls in self.processes.values_mut().flat_map(|process| &mut process.calls) {
            let over = calls.len().saturating_sub(self.most_each);
            calls.truncate(self.most_each);
            calls.shrink_to_fit();
            self.kept -= over;
            self.left_out += over as u64;
        }
    }

    /// What the calls show.
    pub fn judged(self, terms: &Terms) -> Judged {
        let mut processes: Vec<Process> = self.processes.into_values().filter(Process::has_calls).collect();
        // Requests come in the order of their ends.
        processes.iter_mut().flat_map(|process| &mut process.calls).for_each(|calls| calls.sort_unstable());
        let judged = |at: usize| arrivals::judged(at, &processes, terms);
        let collectives: Vec<Collective> = (0..COLLECTIVES.len()).filter_map(judged).collect();
        let straggler = straggler(&collectives, &processes, terms);
        let mut clocks: Vec<usize> = processes.iter().map(|process| terms.clock(process)).collect();
        clocks.sort_unstable();
        clocks.dedup();
        let ranks = processes.into_iter().map(|process| process.rank).collect();
        Judged { ranks, collectives, straggler, clocks: clocks.len(), left_out: self.left_out }
    }
}

impl Terms {
    /// Number of the clock of a process's times.
    pub(super) fn clock(&self, process: &Process) -> usize {
        self.folders.get(process.folder()).map_or(0, |folder| folder.clock)
    }
}

impl Process {
    /// Sums up the request, if it is a step: the outermost phase less its own thread's time in collectives.
    fn add_step(&mut self, request: &Request) {
        let root = request.root();
        if Standing::of(request) != Standing::Counted || is_of_nccl(root) {
            return;
        }
        if !self.steps.contains_key(&root.name) && self.steps.len() >= MOST_NAMES {
            return;
        }
        let sums = self.steps.entry(root.name.clone()).or_default();
        sums.steps += 1;
        add(&mut sums.accounts, &root.accounts);
        add(&mut sums.helpers, &root.helpers.accounts);
        for call in outermost_calls(request) {
            for (sum, ns) in sums.accounts.iter_mut().zip(call.accounts.0) {
                *sum = sum.saturating_sub(ns.into());
            }
        }
    }
}

/// The outermost phases of the preset on the thread of the request.
fn outermost_calls(request: &Request) -> impl Iterator<Item = &Phase> {
    let tid = request.root().thread.tid;
    let mut within = HashSet::new();
    request.phases.iter().filter(move |phase| {
        let is_inside = phase.parent.is_some_and(|parent| within.contains(&parent));
        let is_call = is_of_nccl(phase);
        if is_inside || is_call {
            within.insert(phase.id);
        }
        is_call && !is_inside && phase.thread.tid == tid
    })
}

fn add(sums: &mut [u128; ACCOUNTS], accounts: &Accounts) {
    for (sum, ns) in sums.iter_mut().zip(accounts.0) {
        *sum += u128::from(ns);
    }
}

/// The place of the phase's name in [`COLLECTIVES`].
fn collective(phase: &Phase) -> Option<usize> {
    COLLECTIVES.iter().position(|name| phase.name == *name)
}

fn is_of_nccl(phase: &Phase) -> bool {
    let is_beside = || phase.source == Source::Function && BESIDE.iter().any(|name| phase.name == *name);
    collective(phase).is_some() || is_beside()
}

/// A time of a folder that may say anything.
fn time(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// The process that was late to the collective at which most time could have been saved.
fn straggler(collectives: &[Collective], processes: &[Process], terms: &Terms) -> Option<Straggler> {
    let saved = |(at, one): (usize, &Collective)| {
        let Verdict::Late(rank) = one.verdict else { return None };
        let margin_ns = one.arrivals.iter().find(|arrival| arrival.rank == rank)?.margin_ns;
        Some((i128::from(margin_ns) * i128::from(one.calls), at, rank, margin_ns))
    };
    let most = collectives.iter().enumerate().filter_map(saved).max_by_key(|&(saved, at, ..)| {
        // Of equal ones the first.
        (saved, std::cmp::Reverse(at))
    });
    let (_, collective, rank, margin_ns) = most?;
    let steps = steps::compared(processes, rank, margin_ns, terms.is_coarse);
    Some(Straggler { rank, collective, steps })
}

#[cfg(test)]
impl Ranks {
    /// Calls that it keeps.
    pub(super) const fn kept(&self) -> usize {
        self.kept
    }

    /// The most that it keeps.
    pub(super) const MOST: usize = MOST_CALLS;
}
