//! Groups of threads by name and by kind of wait: shows what a program did if it has no marks.
//!
//! Yields [`ThreadGroups`], in memory that does not grow with the number of threads or of their names. A
//! group is ranked by its *active* time: on a CPU, ready to run and without one, or kept by a disk, a page
//! fault or a GPU. The rest is also where idle threads wait (poll, sockets, locks, sleep): a pool that was
//! idle for an hour must not rank above a thread that worked for a minute.

use std::{cmp::Reverse, collections::HashMap};

use guestscope_contract::{Account, metrics::WaitsFor};

use super::{cause::Cause, pattern::pattern, split::Sums};
use crate::{
    phase::{Accounts, Counts, Thread},
    untrusted::Untrusted,
};

/// Groups that are shown.
pub(super) const GROUPS: usize = 10;
/// Groups that are kept apart while threads come; of more, the half that was active least becomes one.
const KEPT: usize = 1_024;
/// Whether a thread in this account has work: it runs, waits for a CPU, or for a device that works for it.
pub const fn is_active(account: Account) -> bool {
    matches!(account.waits_for(), WaitsFor::Nothing | WaitsFor::Cpu | WaitsFor::Device)
}

/// Role of a thread in its process, as far as its name or its accounts show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The process's first one.
    Main,
    /// It gets work through locks only: it computes for other threads.
    Pool,
    /// It waits mostly in poll: an event loop.
    Loop,
    /// PyTorch's, which runs the backward pass.
    Autograd,
    /// PyTorch's, which loads data, or copies it into pinned memory.
    Loader,
    /// NCCL's, or PyTorch's which looks after it.
    Nccl,
    /// CUDA's own.
    Cuda,
    /// Any other.
    Worker,
}

/// How names begin that libraries give to their threads: PyTorch 2.4 and later, NCCL (with
/// NCCL_SET_THREAD_NAME=1), and CUDA.
const NAMED: [(&str, Role); 5] = [
    ("pt_autograd", Role::Autograd),
    ("pt_data_", Role::Loader),
    ("pt_nccl", Role::Nccl),
    ("NCCL ", Role::Nccl),
    ("cuda-EvtHandlr", Role::Cuda),
];

impl Role {
    /// The word in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Main => "main",
            Role::Pool => "pool",
            Role::Loop => "loop",
            Role::Autograd => "autograd",
            Role::Loader => "loader",
            Role::Nccl => "nccl",
            Role::Cuda => "cuda",
            Role::Worker => "worker",
        }
    }

    /// The role that a name shows.
    fn by_name(name: &str) -> Option<Self> {
        NAMED.into_iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, role)| role)
    }

    /// The role of a thread that is not the first one. A thread of OpenMP has the name of its process, as a
    /// thread of Python below 3.14 has; but it never touches a socket, and waits in futex alone, or spins.
    /// A thread that takes requests from an event loop wakes the loop by a byte over a socket pair.
    fn of(accounts: &Accounts, counts: &Counts) -> Self {
        let [net, poll, lock, sleep, other] =
            [Account::Net, Account::Poll, Account::Lock, Account::Sleep, Account::Other]
                .map(|account| u128::from(accounts.get(account)));
        let idle = net + poll + lock + sleep + other;
        let talks = counts.net_send > 0 || counts.net_recv > 0;
        let Counts { sample_user, sample_fault, sample_syscall, sample_spin, sample_irq, .. } = *counts;
        let samples: u128 =
            [sample_user, sample_fault, sample_syscall, sample_spin, sample_irq].map(u128::from).iter().sum();
        let spins = u128::from(sample_spin) * 10 > samples;
        match () {
            () if poll > 0 && poll * 2 >= idle => Role::Loop,
            () if !talks && (lock > 0 && lock * 100 >= idle * 99 || spins && (idle - lock) * 10 <= idle) => {
                Role::Pool
            }
            () => Role::Worker,
        }
    }
}

/// Threads of one name pattern, and of one role where the name is a process's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadGroup {
    /// Their name, with `*` for numbers in which they differ.
    pub name: Untrusted,
    /// Role of the threads; none if they differ.
    pub role: Option<Role>,
    /// Number of threads.
    pub threads: u64,
    /// Where their time outside marked phases went, exact sums.
    pub sums: Sums,
    /// Estimated part of `poll` that was spent on sockets, ns.
    pub poll_net_ns: u128,
}

impl ThreadGroup {
    /// Active time, ns.
    pub fn active_ns(&self) -> u128 {
        active_ns(&self.sums)
    }
}

fn active_ns(sums: &Sums) -> u128 {
    Account::ALL
        .into_iter()
        .filter(|&account| is_active(account))
        .map(|account| sums.get(Cause::Account(account)))
        .sum()
}

/// All threads of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadGroups {
    /// Groups by active time, the longest first, at most [`GROUPS`].
    pub groups: Vec<ThreadGroup>,
    /// All other groups as one.
    pub others: Option<ThreadGroup>,
    /// Active time of threads inside marked phases, ns.
    pub active_inside_ns: u128,
}

impl ThreadGroups {
    /// Reads threads, in any order.
    ///
    /// # Errors
    /// The first error of the reading.
    pub fn read<E>(threads: impl Iterator<Item = Result<Thread, E>>) -> Result<Self, E> {
        let mut tally = Tally::default();
        for thread in threads {
            tally.add(&thread?);
        }
        Ok(tally.finish())
    }

    /// Number of threads.
    pub fn threads(&self) -> u64 {
        self.groups.iter().chain(&self.others).map(|group| group.threads).sum()
    }

    /// Active time of threads outside marked phases, ns.
    pub fn active_outside_ns(&self) -> u128 {
        self.groups.iter().chain(&self.others).map(ThreadGroup::active_ns).sum()
    }
}

/// A group while threads come.
#[derive(Clone, Debug, Default)]
struct Gathered {
    /// The name of the first one.
    name: Untrusted,
    /// Others are called otherwise.
    differ: bool,
    threads: u64,
    sums: Sums,
    poll_net_ns: u128,
}

impl Gathered {
    fn merge(&mut self, other: &Gathered) {
        if self.threads == 0 {
            self.name = other.name.clone();
        }
        self.differ |= other.differ || other.name != self.name;
        self.threads += other.threads;
        self.sums.merge(&other.sums);
        self.poll_net_ns += other.poll_net_ns;
    }

    fn finish(self, name: Untrusted, role: Option<Role>) -> ThreadGroup {
        let Self { threads, sums, poll_net_ns, .. } = self;
        ThreadGroup { name, role, threads, sums, poll_net_ns }
    }
}

#[derive(Default)]
struct Tally {
    groups: HashMap<(String, Role), Gathered>,
    /// The sum of groups for which there was no room.
    others: Gathered,
    active_inside_ns: u128,
}

impl Tally {
    fn add(&mut self, thread: &Thread) {
        let is_main = thread.id.tid == thread.id.tgid;
        let by_name = Role::by_name(thread.comm.stored()).or(is_main.then_some(Role::Main));
        let role = by_name.unwrap_or_else(|| Role::of(&thread.accounts, &thread.counts));
        let mut one = Gathered {
            name: thread.comm.clone(),
            differ: false,
            threads: 1,
            sums: Sums::default(),
            poll_net_ns: u128::from(thread.counts.poll_net_ns),
        };
        for (account, ns) in thread.accounts.iter() {
            let outside_ns = ns.saturating_sub(thread.inside.get(account));
            one.sums.accounts[account as usize] = u128::from(outside_ns);
            if is_active(account) {
                self.active_inside_ns += u128::from(ns - outside_ns);
            }
        }
        self.groups.entry((pattern(&thread.comm), role)).or_default().merge(&one);
        if self.groups.len() > KEPT {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let mut active: Vec<u128> = self.groups.values().map(|group| active_ns(&group.sums)).collect();
        let (_, &mut least, _) = active.select_nth_unstable_by_key(KEPT / 2, |&ns| Reverse(ns));
        // Some groups that were active equally long stay.
        let mut room = KEPT / 2 - active.iter().filter(|&&ns| ns > least).count();
        let others = &mut self.others;
        self.groups.retain(|_, group| {
            let ns = active_ns(&group.sums);
            let is_among_equals = ns == least && room > 0;
            room -= usize::from(is_among_equals);
            let stays = ns > least || is_among_equals;
            if !stays {
                others.merge(group);
            }
            stays
        });
    }

    /// Threads with names of their own form one group, whatever they waited in; threads named like their
    /// process are grouped by role.
    fn finish(self) -> ThreadGroups {
        let Self { groups, others, active_inside_ns } = self;
        let mut by_name: HashMap<String, Vec<(Role, Gathered)>> = HashMap::new();
        for ((pattern, role), group) in groups {
            by_name.entry(pattern).or_default().push((role, group));
        }
        let mut all: Vec<ThreadGroup> = Vec::new();
        for (pattern, mut kinds) in by_name {
            kinds.sort_by_key(|(role, _)| *role);
            let name = |group: &Gathered| {
                if group.differ { Untrusted::from(pattern.as_str()) } else { group.name.clone() }
            };
            if kinds.iter().any(|(role, _)| *role == Role::Main) {
                all.extend(kinds.into_iter().map(|(role, group)| {
                    let name = name(&group);
                    group.finish(name, Some(role))
                }));
                continue;
            }
            let role = if let [(role, _)] = kinds.as_slice() { Some(*role) } else { None };
            let mut whole = Gathered::default();
            for (_, group) in &kinds {
                whole.merge(group);
            }
            let name = name(&whole);
            all.push(whole.finish(name, role));
        }
        all.sort_by(|a, b| {
            let rank = |group: &ThreadGroup| (Reverse(group.active_ns()), group.name.clone(), group.role);
            rank(a).cmp(&rank(b))
        });
        let mut rest = others;
        for group in all.drain(GROUPS.min(all.len())..) {
            let ThreadGroup { name, role: _, threads, sums, poll_net_ns } = group;
            rest.merge(&Gathered { name, differ: true, threads, sums, poll_net_ns });
        }
        let others = (rest.threads > 0).then(|| rest.finish(OTHER_THREADS.into(), None));
        ThreadGroups { groups: all, others, active_inside_ns }
    }
}

/// Name of all threads without a separate group.
pub const OTHER_THREADS: &str = "(other threads)";

#[cfg(test)]
mod tests;
