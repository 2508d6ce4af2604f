//! Why a thread waited for another one: what that one had been kept from meanwhile, from thread to thread.
//!
//! A wait in a lock or at a pipe ends when somebody wakes the thread. Where that somebody's own long waits lie within it,
//! they explain it; where those ended by a third thread's wake-up, that one's do. It is an estimate: only waits above the
//! threshold are known, and a wake-up from an interrupt names whoever was interrupted.

use std::collections::{HashMap, VecDeque};

use guestscope_ebpf::Account;

use super::Wait;

/// Waits that are kept of each thread, the latest ones.
const RECENT: usize = 16;
/// Waits of a thread for another thread. Sleep ends by a timer, disks by interrupts.
const FOR_OTHERS: [Account; 4] = [Account::Net, Account::Poll, Account::Lock, Account::Other];

/// What explains most of a wait for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blame {
    /// The thread that was kept.
    pub tid: u32,
    /// From what, or by what.
    pub account: Account,
    /// For how much of the wait, ns.
    pub ns: u64,
    /// Wake-ups between that thread and this one, from 1.
    pub depth: u32,
}

/// A long wait that is over: when it was what.
#[derive(Clone, Copy, Debug)]
struct Past {
    start_ns: u64,
    ready_ns: u64,
    queued_ns: u64,
    end_ns: u64,
    account: Account,
    blame: Option<Blame>,
}

/// The latest long waits of all threads, by number.
#[derive(Debug, Default)]
pub(crate) struct Pasts(HashMap<u32, VecDeque<Past>>);

impl Pasts {
    /// What explains a wait that has just ended.
    pub(crate) fn blame(&self, wait: &Wait) -> Option<Blame> {
        let waker =
            wait.waker_tid.filter(|&tid| tid != wait.thread.tid && FOR_OTHERS.contains(&wait.account))?;
        let window = (wait.start_ns, wait.start_ns.saturating_add(wait.blocked_ns));
        let mut found: Vec<Blame> = Vec::new();
        let mut add = |blame: Blame| {
            let alike = |one: &&mut Blame| (one.tid, one.account) == (blame.tid, blame.account);
            match found.iter_mut().find(alike) {
                Some(one) => one.ns = one.ns.saturating_add(blame.ns),
                None => found.push(blame),
            }
        };
        for past in self.0.get(&waker)? {
            let own = |account, ns| Blame { tid: waker, account, ns, depth: 1 };
            add(own(Account::Runq, common(window, (past.queued_ns, past.end_ns))));
            add(own(Account::Throttled, common(window, (past.ready_ns, past.queued_ns))));
            let blocked_ns = common(window, (past.start_ns, past.ready_ns));
            add(match past.blame {
                Some(blame) => Blame { ns: blame.ns.min(blocked_ns), depth: blame.depth + 1, ..blame },
                None => own(past.account, blocked_ns),
            });
        }
        found
            .into_iter()
            .filter(|blame| blame.ns > 0)
            .max_by_key(|blame| (blame.ns, std::cmp::Reverse(blame.depth)))
    }

    /// Keeps a wait, of any thread.
    pub(crate) fn add(&mut self, wait: &Wait) {
        let pasts = self.0.entry(wait.thread.tid).or_default();
        if pasts.len() == RECENT {
            pasts.pop_front();
        }
        let ready_ns = wait.start_ns.saturating_add(wait.blocked_ns);
        pasts.push_back(Past {
            start_ns: wait.start_ns,
            ready_ns,
            queued_ns: ready_ns.saturating_add(wait.throttled_ns),
            end_ns: wait.start_ns.saturating_add(wait.duration_ns),
            account: wait.account,
            blame: wait.blame,
        });
    }

    /// The thread of this number is gone.
    pub(crate) fn forget(&mut self, tid: u32) {
        self.0.remove(&tid);
    }
}

fn common(one: (u64, u64), other: (u64, u64)) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}
