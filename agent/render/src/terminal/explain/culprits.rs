//! Culprits of waits, in words: who had the CPU, which thread, device or group was waited for.
//!
//! Yields a list of the largest. Threads that are too many to name each stand together by their name.

use std::collections::HashMap;

use guestscope_contract::Account;

use crate::{
    analyze::explain::{Case, Circle, Culprit, Named, OfGroup, Whose},
    phase::{Blame, Stopper},
};

use super::{
    super::{
        units::{duration, thousands},
        waits_for::{self, kept},
    },
    calls,
    facts::ExplainFacts,
    limited,
};

/// Most culprits named per part.
pub(super) const CULPRITS: usize = 3;
/// Culprits below 1 / `NAMED` of the waits are not named.
const NAMED: u64 = 20;

/// Context of the words.
pub(super) struct Words<'a> {
    pub(super) case: &'a Case,
    pub(super) threads: &'a HashMap<u32, Named>,
    pub(super) circle: &'a Circle,
    pub(super) facts: &'a ExplainFacts,
}

/// Waits on one culprit, or on several threads of one name.
struct Gathered {
    /// The first of them, with the sums of all.
    of: OfGroup,
    /// Number of the threads.
    threads: usize,
}

impl Words<'_> {
    /// Culprits of the waits; with the time of each where there are several.
    pub(super) fn culprits(&self, by: &[OfGroup], total_ns: u64) -> String {
        let gathered = self.gathered(by);
        let is_named =
            |one: &&Gathered| one.of.by.ns >= total_ns / NAMED && one.of.by.culprit != Culprit::Unknown;
        let named: Vec<&Gathered> = gathered.iter().filter(is_named).collect();
        let texts: Vec<String> = named
            .iter()
            .take(CULPRITS)
            .map(|one| {
                let culprit = self.culprit(one);
                if named.len() > 1 { format!("{culprit} ({})", duration(one.of.by.ns)) } else { culprit }
            })
            .collect();
        let is_cpu = |one: &&Gathered| matches!(one.of.by.culprit, Culprit::Ran { .. } | Culprit::Idle);
        let before = if named.first().is_some_and(is_cpu) { "behind " } else { "" };
        format!("{before}{}", texts.join(", "))
    }

    fn culprit(&self, Gathered { of: OfGroup { group, by }, threads }: &Gathered) -> String {
        let who = |tid: u32| self.threads_like(tid, *threads);
        match &by.culprit {
            Culprit::Ran { comm, .. } if *threads > 1 => {
                let also = if *group == Some(Whose::Sibling) { ", also observed" } else { "" };
                format!("{} processes ({comm}{also})", thousands(*threads as u64))
            }
            Culprit::Ran { comm, pid } => match group {
                Some(Whose::Own) => format!("its own thread {comm} (pid {pid})"),
                Some(Whose::Sibling) => format!("{comm} (pid {pid}, also observed)"),
                Some(Whose::Agent) => format!("guestscope itself (pid {pid})"),
                Some(Whose::Stranger) | None => format!("{comm} (pid {pid})"),
            },
            Culprit::Idle => "no thread (the CPU was idle)".to_owned(),
            Culprit::Kept(blame) => blamed(*blame, &who(blame.tid), by.kept_ns),
            Culprit::Given { to, blame } => {
                let worker = format!("for {}, which had the work", who(*to));
                match blame {
                    Some(blame) if blame.tid == *to => {
                        let did = kept(blame.account, blame.stopped_by);
                        format!("{worker} and {did} for {} of it", duration(by.kept_ns))
                    }
                    Some(blame) => {
                        let depth = blame.depth.saturating_sub(1);
                        let third = blamed(Blame { depth, ..*blame }, &self.thread(blame.tid), by.kept_ns);
                        format!("{worker} and waited {third}")
                    }
                    None => worker,
                }
            }
            Culprit::Woken { tid } => format!("ended by {}", who(*tid)),
            Culprit::AddressSpace { tid } => {
                let kept = match by.kept_ns {
                    0 => String::new(),
                    ns => format!(", which could not run for {} of it", duration(ns)),
                };
                format!("for the lock of its address space, held by {}{kept}", who(*tid))
            }
            Culprit::Stopped { by: stopper, tid } => {
                waits_for::stopped(*stopper, tid.map(|tid| self.thread(tid)))
            }
            Culprit::Held { tid } => format!("timed out until {} released it", self.thread(*tid)),
            Culprit::Beside { tid } => format!("timed out while {} ran", self.thread(*tid)),
            Culprit::TimedOut => "ended by its own time limit".to_owned(),
            Culprit::Device { name, is_write, is_held } => waits_for::device(name, *is_write, *is_held),
            Culprit::InFlight { name, most } => {
                let up_to = if by.count > 1 { "up to " } else { "" };
                format!("{up_to}{}", waits_for::in_flight(name, *most))
            }
            Culprit::Phase { name: Some(name), request: Some(0) } => format!("{name} of another request"),
            Culprit::Phase { name: Some(name), request: Some(number) } => {
                format!("{name} of request #{number}")
            }
            Culprit::Phase { name, .. } => waits_for::held_by(name.as_ref()),
            Culprit::Group { path } => limited::group_with_quota(path, &self.facts.limits),
            Culprit::Syscall(number) => format!("in {}", calls::name(*number, self.facts)),
            Culprit::Unknown => String::new(),
            Culprit::Others => "others".to_owned(),
        }
    }

    /// `thread 4711 (python)`: by its name where it was observed itself.
    pub(super) fn thread(&self, tid: u32) -> String {
        match self.threads.get(&tid) {
            Some(named) => format!("thread {tid} ({})", named.comm),
            None => format!("thread {tid}"),
        }
    }

    /// `7 tasks (cat)`: threads of one process, or processes; or `thread 4711 (python)`.
    fn threads_like(&self, tid: u32, threads: usize) -> String {
        match self.threads.get(&tid) {
            Some(named) if threads > 1 => {
                format!("{} tasks ({})", thousands(threads as u64), named.comm)
            }
            _ => self.thread(tid),
        }
    }

    /// Threads of one name that were waited for in the same way become one, if they are more than would be
    /// named one by one; the largest sum first.
    fn gathered(&self, by: &[OfGroup]) -> Vec<Gathered> {
        let mut gathered: Vec<Gathered> = Vec::with_capacity(by.len());
        for one in by {
            let alike = by.iter().filter(|other| self.is_alike(one, other)).count();
            let known = gathered.iter_mut().find(|known| alike > CULPRITS && self.is_alike(&known.of, one));
            match known {
                Some(Gathered { of, threads }) => {
                    *threads += 1;
                    of.by.add(&one.by);
                }
                None => gathered.push(Gathered { of: one.clone(), threads: 1 }),
            }
        }
        gathered.sort_by_key(|one| std::cmp::Reverse(one.of.by.ns));
        gathered
    }

    /// Whether both are waits for threads of the same name that did the same, or for a CPU that processes of
    /// the same name had.
    fn is_alike(&self, one: &OfGroup, other: &OfGroup) -> bool {
        if let (Culprit::Ran { comm, .. }, Culprit::Ran { comm: of, .. }) =
            (&one.by.culprit, &other.by.culprit)
        {
            return comm == of && one.group == other.group;
        }
        let (tid, another) = match (&one.by.culprit, &other.by.culprit) {
            (Culprit::Kept(blame), Culprit::Kept(of))
                if (blame.account, blame.stopped_by) == (of.account, of.stopped_by) =>
            {
                (blame.tid, of.tid)
            }
            (Culprit::Given { to, blame }, Culprit::Given { to: another, blame: of })
                if story(*to, *blame) == story(*another, *of) =>
            {
                (*to, *another)
            }
            (Culprit::Woken { tid }, Culprit::Woken { tid: another })
            | (Culprit::AddressSpace { tid }, Culprit::AddressSpace { tid: another }) => (*tid, *another),
            _ => return false,
        };
        let name = |tid: u32| self.threads.get(&tid).map(|named| &named.comm);
        name(tid).is_some() && name(tid) == name(another)
    }
}

/// What is told of a thread that had the work: what delayed it, and which other thread that was.
fn story(to: u32, blame: Option<Blame>) -> Option<(Account, Option<Stopper>, Option<u32>)> {
    blame.map(|blame| (blame.account, blame.stopped_by, Some(blame.tid).filter(|tid| *tid != to)))
}

/// `for thread 4711 (python), which was throttled for 6.00 ms of it`.
fn blamed(blame: Blame, who: &str, kept_ns: u64) -> String {
    let did = kept(blame.account, blame.stopped_by);
    let far = match blame.depth {
        ..=1 => String::new(),
        depth => format!(", {depth} wake-ups away"),
    };
    format!("for {who}{far}, which {did} for {} of it", duration(kept_ns))
}
