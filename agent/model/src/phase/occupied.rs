//! What a thread did while phases were suspended that continue on it: which phases were innermost on it, and
//! how long it ran outside all phases.
//!
//! Yields [`Holder`]s. An event loop runs one phase at a time; what one of them takes, all others wait for.

use std::collections::VecDeque;

use guestscope_contract::Account;

use super::{accounts::Accounts, snapshot::Snapshot, thread_id::ThreadId, values::Holder};
use crate::untrusted::Untrusted;

/// Pieces shorter than this are not kept.
const LEAST_NS: u64 = 500_000;
/// Pieces that are kept of a thread, the latest ones.
const PIECES: usize = 64;
/// With more threads than this only [`FEW`] are kept of each, 56 bytes a piece: 15 MB with 65,536 threads.
const MANY_THREADS: usize = 512;
const FEW: usize = 4;
/// Holders that are kept of a phase.
const HOLDERS: usize = 4;

/// Accounts of a thread that does something. In the others a thread of a loop or a pool waits for work, too.
const BUSY: [Account; 7] = [
    Account::Cpu,
    Account::Runq,
    Account::Throttled,
    Account::BlockIo,
    Account::Fault,
    Account::Gpu,
    Account::Other,
];

/// Time of these accounts in which a thread does something, ns.
fn busy_ns(accounts: &Accounts) -> u64 {
    BUSY.iter().map(|&account| accounts.get(account)).fold(0, u64::saturating_add)
}

/// An interval in which one phase was the innermost one on a thread.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// Number of its request.
    pub(super) root: u64,
    /// The number that the program gave to that request.
    pub(super) request: u64,
    pub(super) name: Untrusted,
}

/// The latest pieces of one thread.
#[derive(Debug, Default)]
pub(crate) struct Occupied {
    since_ns: u64,
    pieces: VecDeque<Piece>,
}

impl Occupied {
    /// Another phase is the innermost one from now on, or none. Returns since when the last one was, if that
    /// is worth a piece.
    pub(super) fn turn(&mut self, now_ns: u64) -> Option<u64> {
        let since_ns = self.since_ns;
        self.since_ns = since_ns.max(now_ns);
        (since_ns != 0 && now_ns.saturating_sub(since_ns) >= LEAST_NS).then_some(since_ns)
    }

    /// Keeps a piece of one of so many threads.
    pub(super) fn keep(&mut self, piece: Piece, threads: usize) {
        let most = if threads > MANY_THREADS { FEW } else { PIECES };
        while self.pieces.len() >= most {
            self.pieces.pop_front();
        }
        self.pieces.push_back(piece);
    }

    /// Phases of other requests that the thread was inside between two times, with their time there.
    pub(super) fn by_others(&self, root: u64, (from_ns, to_ns): (u64, u64)) -> Vec<Holder> {
        let mut holders: Vec<Holder> = Vec::new();
        let late = self.pieces.iter().rev().take_while(|piece| piece.end_ns > from_ns);
        for piece in late.filter(|piece| piece.root != root) {
            let ns = piece.end_ns.min(to_ns).saturating_sub(piece.begin_ns.max(from_ns));
            add(&mut holders, Holder { request: piece.request, phase: Some(piece.name.clone()), ns });
        }
        holders
    }
}

/// When and where a phase was left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Away {
    /// CLOCK_MONOTONIC, ns.
    pub(crate) since_ns: u64,
    /// The thread that left it, and for how long that had been busy outside of phases by then, ns.
    pub(crate) left: Option<(ThreadId, u64)>,
}

impl Away {
    pub(crate) const fn since(since_ns: u64) -> Self {
        Self { since_ns, left: None }
    }
}

/// Adds a holder to a list; one that has no room is left out.
pub(super) fn add(holders: &mut Vec<Holder>, new: Holder) {
    if new.ns == 0 {
        return;
    }
    let is_same = |known: &&mut Holder| known.request == new.request && known.phase == new.phase;
    if let Some(known) = holders.iter_mut().find(is_same) {
        known.ns = known.ns.saturating_add(new.ns);
    } else if holders.len() < PIECES {
        holders.push(new);
    }
}

/// Keeps the longest holders of a phase.
pub(super) fn keep_longest(holders: &mut Vec<Holder>) {
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.ns));
    holders.truncate(HOLDERS);
}

/// How long a thread was busy outside of phases since it was so for `before_ns`.
pub(super) fn outside(before_ns: u64, now_ns: u64) -> Option<Holder> {
    let ns = now_ns.saturating_sub(before_ns);
    (ns >= LEAST_NS).then_some(Holder { request: 0, phase: None, ns })
}

/// Time so far that a thread was busy outside of phases, ns; `within`: its time inside.
pub(super) fn outside_ns(now: &Snapshot, within: &Accounts) -> u64 {
    busy_ns(&now.accounts).saturating_sub(busy_ns(within))
}
