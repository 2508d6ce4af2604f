//! Who held a lock while waits for it timed out: the thread that ended the next wait for it.
//!
//! Programs wait for a lock in pieces: Python's interpreter asks for its lock (GIL) every 5 ms. The timer
//! ends all pieces but the last one; the thread that ends that one held the lock, at least at the end.

use guestscope_contract::Account;

use crate::phase::{ThreadId, Wait};

use super::culprit::Culprit;

/// Waits of a request that are kept, of either kind: 5 s of pieces of 5 ms.
const KEPT: usize = 1_024;
/// A condition variable has its futexes within so many bytes.
const ONE_LOCK: u64 = 64;

/// A wait for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    thread: ThreadId,
    start_ns: u64,
    /// Address of the lock.
    lock: u64,
}

/// Waits for locks of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Locks {
    /// Those that timed out: their culprit is not known before the later ones have come.
    open: Vec<(Piece, Box<Wait>)>,
    /// Those that a thread ended, and that thread.
    ended: Vec<(Piece, u32)>,
}

impl Locks {
    /// Takes a wait, any number of which may come before. Returns whether it is kept until
    /// [`Locks::settle`].
    pub(super) fn take(&mut self, wait: &Wait) -> bool {
        let Some(lock) = wait.argument.filter(|_| wait.account == Account::Lock) else { return false };
        let piece = Piece { thread: wait.thread, start_ns: wait.start_ns, lock };
        match wait.waker_tid {
            Some(tid) if self.ended.len() < KEPT => self.ended.push((piece, tid)),
            None if wait.timed_out() && self.open.len() < KEPT => {
                self.open.push((piece, Box::new(wait.clone())));
                return true;
            }
            Some(_) | None => {}
        }
        false
    }

    /// All waits have come: hands out those that were kept, with the thread that held the lock if a later
    /// wait tells.
    pub(super) fn settle(&mut self) -> Vec<(Box<Wait>, Option<Culprit>)> {
        self.ended.sort_by_key(|(piece, tid)| (piece.start_ns, *tid));
        let Self { open, ended } = std::mem::take(self);
        let holder = |piece: &Piece| {
            let later = ended.iter().find(|(other, _)| {
                other.thread == piece.thread
                    && other.start_ns > piece.start_ns
                    && other.lock.abs_diff(piece.lock) < ONE_LOCK
            });
            later.map(|(_, tid)| Culprit::Held { tid: *tid })
        };
        open.into_iter().map(|(piece, wait)| (wait, holder(&piece))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start_ns: u64, lock: u64, waker_tid: Option<u32>) -> Wait {
        Wait {
            start_ns,
            blocked_ns: 5,
            duration_ns: 5,
            account: Account::Lock,
            argument: Some(lock),
            is_limited: true,
            waker_tid,
            ..Wait::default()
        }
    }

    #[test]
    fn pieces_that_timed_out_are_of_the_thread_that_ended_the_last_one() {
        let mut locks = Locks::default();
        // In any order; another lock was ended by thread 8 in between.
        let waits = [
            piece(30, 0x1004, Some(7)),
            piece(20, 0x9000, Some(8)),
            piece(10, 0x1000, None),
            piece(20, 0x1000, None),
            piece(40, 0x1000, None),
        ];
        assert_eq!(waits.each_ref().map(|wait| locks.take(wait)), [false, false, true, true, true]);
        let found: Vec<_> = locks.settle().into_iter().map(|(wait, held)| (wait.start_ns, held)).collect();
        let held = Some(Culprit::Held { tid: 7 });
        assert_eq!(found, [(10, held.clone()), (20, held), (40, None)]);
    }

    #[test]
    fn a_wait_without_a_limit_is_not_kept() {
        let mut locks = Locks::default();
        assert!(!locks.take(&Wait { is_limited: false, ..piece(10, 1, None) }));
        assert!(!locks.take(&Wait { account: Account::Poll, ..piece(10, 1, None) }));
        assert!(locks.settle().is_empty());
    }
}
