//! Requests that are open, or did not end by themselves.
//!
//! Yields [`AllUnfinished`] for the first lines of every report: an open request has no row yet. Part of
//! [`Pairing`].

use std::cmp::Reverse;

use guestscope_contract::{
    Account, NO_SYSCALL, WaitRecord, kept_by,
    ledger::{BLOCKED, LIMITED, Ledger, RUNNABLE, RUNNING},
    waits_in,
};

use super::{
    ender::is_in_memory,
    open::Place,
    pairing::Pairing,
    stopper::Stopper,
    table::{Set, Table},
    thread_id::{ThreadId, thread_id},
    unfinished::{
        AllUnfinished, Doing, Fate, LastWait, Looked, OpenWait, Others, ReadLedger, UNFINISHED, Unfinished,
    },
    values::{Ending, Phase, Request, WARMUP},
};
use crate::untrusted::Untrusted;

/// Most names of a path: the innermost.
const NAMES: usize = 8;
/// Most other threads that are looked at.
const LOCKED_MOST: u32 = 256;
/// A wait that ended so shortly before the end of its thread was ended by that.
const ENDING_NS: u64 = 20_000_000;
/// Threads of a process that is killed end one after another, all within this time.
const KILLED_NS: u64 = 5_000_000_000;
/// Requests are remembered from this part of the age on from which they are reported: looks are as far apart
/// as that age, and one of them must come before the end of whatever was only a little older.
const REMEMBERED: u64 = 4;

impl Pairing {
    /// The requests without an end of their own: those that have been open for `least_ns`, and those that
    /// were ended. Remembers the look for when they are.
    pub fn look(&mut self, now_ns: u64, least_ns: u64, ledger: ReadLedger<'_>) -> AllUnfinished {
        let all = self.open_since(now_ns.saturating_sub(least_ns / REMEMBERED));
        let count = all.partition_point(|(start_ns, _)| *start_ns <= now_ns.saturating_sub(least_ns));
        let mut seen = self.oldest(&all, now_ns, ledger);
        let by_id = seen.iter().map(|one| (one.id, one.clone())).collect();
        self.unended.seen_before = std::mem::replace(&mut self.unended.seen, by_id);
        seen.retain(|one| one.age_ns() >= least_ns);
        self.all_unfinished(count as u64, seen)
    }

    /// The last look: whatever is open now was so at the end.
    pub fn last_look(&mut self, now_ns: u64, ledger: ReadLedger<'_>) {
        let all = self.open_since(now_ns);
        let mut open = self.oldest(&all, now_ns, ledger);
        for one in &mut open {
            one.fate = Fate::Stopped;
        }
        self.unended.stopped = Some((all.len() as u64, open));
    }

    /// What the last look found.
    pub fn unfinished(&self) -> AllUnfinished {
        let (count, open) = self.unended.stopped.clone().unwrap_or_default();
        self.all_unfinished(count, open)
    }

    /// What /proc told of the waiting threads of the last look.
    pub fn looked(&mut self, looked: Vec<Looked>) {
        self.unended.looked = looked;
    }

    fn all_unfinished(&self, open: u64, mut requests: Vec<Unfinished>) -> AllUnfinished {
        requests.extend(self.unended.ended.iter().cloned());
        AllUnfinished { open, ended: self.unended.count, requests }
    }

    /// Start and root of each open request that began by then, the oldest first.
    fn open_since(&self, since_ns: u64) -> Vec<(u64, u64)> {
        let start_of = |root: &u64| {
            let open = self.open.get(root).filter(|open| !open.was_none)?;
            let is_over = self.is_held(*root) || open.phase.name == WARMUP;
            (!is_over && open.phase.start_ns <= since_ns).then_some((open.phase.start_ns, *root))
        };
        let mut open: Vec<(u64, u64)> = self.requests.keys().filter_map(start_of).collect();
        open.sort_unstable();
        open
    }

    fn oldest(&self, open: &[(u64, u64)], now_ns: u64, ledger: ReadLedger<'_>) -> Vec<Unfinished> {
        let oldest = open.iter().take(UNFINISHED);
        oldest.filter_map(|(_, root)| self.open_one(*root, now_ns, ledger)).collect()
    }

    fn open_one(&self, root: u64, now_ns: u64, ledger: ReadLedger<'_>) -> Option<Unfinished> {
        let request = self.open.get(&root)?;
        let leaves = self.requests.get(&root)?.begun().into_iter().filter_map(|id| self.open.get(&id));
        // The oldest of several that run beside each other: the others wait for it, as a rule.
        let leaf = leaves.filter(|open| open.children == 0).min_by_key(|open| open.phase.start_ns)?;
        let mut path = Vec::new();
        let mut at = &leaf.phase;
        while at.id != root && path.len() < NAMES {
            path.push(at.name.clone());
            let Some(around) = at.parent.and_then(|parent| self.open.get(&parent)) else { break };
            at = &around.phase;
        }
        path.reverse();
        let (thread, doing, others) = match leaf.place {
            Place::Suspended(away) => (leaf.phase.thread, Doing::Suspended { since_ns: away.since_ns }, None),
            Place::On(thread, _) => {
                let (doing, others) = self.state_of(thread, ledger);
                (thread, doing, others)
            }
        };
        Some(Unfinished {
            id: root,
            name: request.phase.name.clone(),
            request: request.phase.request,
            thread,
            start_ns: request.phase.start_ns,
            until_ns: now_ns,
            path,
            phase_start_ns: leaf.phase.start_ns,
            fate: Fate::Open,
            doing,
            others,
        })
    }

    fn state_of(&self, thread: ThreadId, ledger: ReadLedger<'_>) -> (Doing, Option<Others>) {
        let of = |thread: ThreadId| {
            let own = ledger(thread, self.threads.get(thread)?.slot)?;
            (thread_id(&own) == thread).then_some(own)
        };
        let Some(own) = of(thread) else { return (Doing::Unknown, None) };
        let since_ns = own.left_ns;
        let doing = match own.state {
            RUNNING => Doing::Runs,
            RUNNABLE | LIMITED => Doing::Queued { since_ns },
            BLOCKED => self.told(
                thread,
                OpenWait {
                    account: account(own.account),
                    syscall: syscall(waits_in(own.syscall)),
                    stopped_by: Stopper::of(kept_by(own.syscall)),
                    since_ns,
                    object: None,
                    is_private: None,
                },
            ),
            _ => Doing::Unknown,
        };
        let others = || self.threads.of_process(thread.tgid).filter(|other| *other != thread);
        let main = self.threads.of_process(thread.tgid).find(|one| one.tid == one.tgid);
        let forked_from = main.and_then(|main| self.threads.get(main)?.forked_from);
        let mut known = Others { alive: others().count() as u32, locked: 0, forked_from };
        // It matters for locks alone, and nobody would look at each of more threads.
        if own.state == BLOCKED && is_lock(&own) && known.alive <= LOCKED_MOST {
            let waits = |other| of(other).is_some_and(|ledger| ledger.state == BLOCKED && is_lock(&ledger));
            known.locked = others().filter(|other| waits(*other)).count() as u32;
        }
        // Threads that are not tracked are alive all the same.
        let told = self.unended.looked.iter().find(|looked| looked.thread == thread);
        known.alive = known.alive.max(told.and_then(|told| told.others).unwrap_or(0));
        (doing, Some(known))
    }

    /// The wait with what /proc told of it.
    fn told(&self, thread: ThreadId, wait: OpenWait) -> Doing {
        let is_of = |looked: &&Looked| looked.thread == thread && looked.since_ns == wait.since_ns;
        Doing::Waits(match self.unended.looked.iter().find(is_of) {
            Some(looked) => OpenWait { object: looked.object.clone(), is_private: looked.is_private, ..wait },
            None => wait,
        })
    }

    /// A thread was off the CPU for long.
    pub(super) fn note_wait(&mut self, record: &WaitRecord) {
        let thread = ThreadId { tid: record.tid, tgid: record.tgid, born_ns: record.born_ns };
        let (since_ns, until_ns) = (record.left_ns, record.header.time_ns);
        let Some(state) = self.threads.get_mut(thread) else { return };
        // A killed thread waits a little on its way out: what it was killed in is the wait before.
        if until_ns.saturating_sub(since_ns) < ENDING_NS
            && let Some(last) = &mut state.last_wait
            && last.until_ns.saturating_add(ENDING_NS) >= since_ns
            && last.until_ns.saturating_sub(last.since_ns) >= ENDING_NS
        {
            last.until_ns = last.until_ns.max(until_ns);
            return;
        }
        let (account, syscall) = (record.account, record.syscall);
        let stopped_by = Stopper::of(record.header.flags);
        state.last_wait = Some(LastWait { account, syscall, stopped_by, since_ns, until_ns });
    }

    /// A request is over. Where it did not end by itself, it is kept with what its thread did last.
    pub(super) fn note_unended(&mut self, request: &Request) {
        let root = request.root();
        let seen = [self.unended.seen.remove(&root.id), self.unended.seen_before.remove(&root.id)];
        let fate = match root.ending {
            Ending::ThreadExited => Fate::ThreadEnded,
            Ending::Exec => Fate::Replaced,
            Ending::Ended | Ending::Lost | Ending::ObservationStopped => return,
        };
        if request.is_warmup() {
            return;
        }
        let until_ns = root.start_ns.saturating_add(root.duration_ns);
        let (leaf, path) = innermost(request);
        let (doing, others) = self.at_the_end(leaf, until_ns, seen);
        self.unended.count += 1;
        self.unended.ended.push(Unfinished {
            id: root.id,
            name: root.name.clone(),
            request: root.request,
            thread: leaf.thread,
            start_ns: root.start_ns,
            until_ns,
            path,
            phase_start_ns: leaf.start_ns,
            fate,
            doing,
            others,
        });
        self.unended.ended.sort_by_key(|one| (Reverse(one.age_ns()), one.id));
        self.unended.ended.truncate(UNFINISHED);
    }

    /// What the thread of a phase did when it was ended, and its process's other threads by the last look at
    /// that. Another look tells nothing of them: at one that falls into the end of a process, its threads no
    /// longer wait.
    fn at_the_end(
        &self,
        leaf: &Phase,
        until_ns: u64,
        seen: [Option<Unfinished>; 2],
    ) -> (Doing, Option<Others>) {
        let mut seen = seen.into_iter().flatten();
        let Some(wait) = self.wait_until(leaf, until_ns) else {
            return seen.next().map(|last| (last.doing, last.others)).unwrap_or_default();
        };
        let is_same =
            |look: &Unfinished| matches!(&look.doing, Doing::Waits(known) if known.since_ns == wait.since_ns);
        match seen.find(is_same) {
            Some(look) => (look.doing, look.others),
            None => (self.told(leaf.thread, wait), None),
        }
    }

    /// The last wait of a phase's thread, if it ended with it.
    fn wait_until(&self, phase: &Phase, until_ns: u64) -> Option<OpenWait> {
        let last = self.threads.get(phase.thread)?.last_wait?;
        let is_last = last.until_ns.saturating_add(ENDING_NS) >= until_ns && last.until_ns > phase.start_ns;
        is_last.then(|| OpenWait {
            account: account(last.account),
            syscall: syscall(last.syscall),
            stopped_by: last.stopped_by,
            since_ns: last.since_ns,
            object: None,
            is_private: None,
        })
    }

    /// The last thread of a process is gone: what its threads had open ended with the process.
    pub(super) fn note_process_ended(&mut self, tgid: u32, time_ns: u64) {
        let is_of = |one: &&mut Unfinished| {
            one.thread.tgid == tgid
                && one.fate == Fate::ThreadEnded
                && one.until_ns.saturating_add(KILLED_NS) >= time_ns
        };
        for one in self.unended.ended.iter_mut().filter(is_of) {
            one.fate = Fate::ProcessEnded;
        }
    }
}

/// The innermost phase of a request that was not ended, and the names from under the request to it.
fn innermost(request: &Request) -> (&Phase, Vec<Untrusted>) {
    let root = request.root();
    let unended: Table<u64, &Phase> = request
        .phases
        .iter()
        .filter(|phase| phase.ending != Ending::Ended)
        .map(|phase| (phase.id, phase))
        .collect();
    let around: Set<u64> = unended.values().filter_map(|phase| phase.parent).collect();
    let leaves = unended.values().filter(|phase| !around.contains(&phase.id));
    let leaf = leaves.min_by_key(|phase| (phase.start_ns, phase.id)).copied().unwrap_or(root);
    let mut path = Vec::new();
    let mut at = Some(leaf);
    while let Some(phase) = at.filter(|phase| phase.id != root.id && path.len() < NAMES) {
        path.push(phase.name.clone());
        at = phase.parent.and_then(|parent| unended.get(&parent).copied());
    }
    path.reverse();
    (leaf, path)
}

fn account(number: u8) -> Account {
    Account::ALL.get(usize::from(number)).copied().unwrap_or(Account::Other)
}

/// Whether a thread waits in a futex: for a lock, or, inside the driver of a graphics processor, for what
/// only another thread can tell it.
fn is_lock(ledger: &Ledger) -> bool {
    let account = account(ledger.account);
    account == Account::Lock || account == Account::Gpu && is_in_memory(ledger.syscall)
}

fn syscall(number: u16) -> Option<u32> {
    (number != NO_SYSCALL).then(|| u32::from(number))
}
