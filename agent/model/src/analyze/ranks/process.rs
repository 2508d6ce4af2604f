//! What is kept of a process: its calls of collectives, and the times of its steps by name.

use std::collections::{BTreeMap, HashSet};

use guestscope_contract::{ACCOUNTS, Source};

use super::{
    super::tally::Standing,
    findings::{COLLECTIVES, Observed, Rank, Terms},
};
use crate::{
    phase::{Accounts, Phase, Request},
    untrusted::Untrusted,
};

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
    pub(super) fn new(folder: usize, pid: u32) -> Self {
        Self {
            rank: Rank { folder, pid, comm: Untrusted::default() },
            calls: Default::default(),
            init_ns: None,
            steps: BTreeMap::new(),
            before_call: Default::default(),
        }
    }

    /// Takes a request, and of calls of one name so many in all. Returns how many it kept and left out.
    pub(super) fn take(&mut self, request: &Request, offset_ns: i64, most_each: usize) -> (usize, u64) {
        let (mut kept, mut left_out) = (0, 0);
        let root = request.root();
        for phase in &request.phases {
            let start_ns = time(phase.start_ns).saturating_add(offset_ns);
            if let Some(name) = collective(phase) {
                if self.calls[name].len() >= most_each {
                    left_out += 1;
                    continue;
                }
                if !self.has_calls() {
                    self.rank.comm = phase.comm.clone();
                }
                if !is_of_nccl(root) {
                    let (ns, calls) = &mut self.before_call[name];
                    *ns += u128::from(phase.start_ns.saturating_sub(root.start_ns));
                    *calls += 1;
                }
                let end_ns = start_ns.saturating_add(time(phase.duration_ns));
                self.calls[name].push(Call { start_ns, end_ns });
                kept += 1;
            } else if phase.source == Source::Function && phase.name == INIT {
                self.init_ns = Some(self.init_ns.map_or(start_ns, |known| known.min(start_ns)));
            }
        }
        self.add_step(request);
        (kept, left_out)
    }

    /// The mean time from the begin of a step to a call of this name, ns; none if calls are in no steps.
    pub(super) fn before_call_ns(&self, name: usize) -> Option<u128> {
        let (ns, calls) = self.before_call[name];
        ns.checked_div(calls.into())
    }

    pub(super) const fn folder(&self) -> usize {
        self.rank.folder
    }

    pub(super) fn into_rank(self) -> Rank {
        self.rank
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls.iter().any(|calls| !calls.is_empty())
    }

    /// Whether it was seen to join the others before it called any collective: then its first call is its
    /// first one.
    pub(super) fn is_from_first(&self) -> bool {
        let first = self.calls.iter().filter_map(|calls| calls.first()).map(|call| call.start_ns).min();
        self.init_ns.zip(first).is_some_and(|(init_ns, first_ns)| init_ns <= first_ns)
    }

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

impl Terms {
    /// What is known of the folder of a process.
    pub(super) fn of(&self, process: &Process) -> Observed {
        self.folders.get(process.rank.folder).copied().unwrap_or_default()
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
pub(super) fn collective(phase: &Phase) -> Option<usize> {
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
