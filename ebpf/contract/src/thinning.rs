//! Requests that are not handed over, where there are too many to see them all.
//!
//! Whether a request is handed over is drawn when it begins. Those that are not are remembered by the token
//! of their root, which every edge of the marker library about them carries: so a request is handed over
//! whole or not at all, on whatever threads it is. What has no token (a mark, the innermost phase) follows
//! the innermost phase of its thread, and so does a root within another source's phase, which is part of
//! that. What the kernel side makes by itself is always handed over; calls of functions within a request that
//! is not are not shown.

#![expect(
    clippy::inline_always,
    reason = "a call costs a BPF program more than the body, and some kernels' verifiers refuse it"
)]

use crate::{DETAIL, KERNEL_INSTANCE, Operation, Source, TOKEN_CHILD_BITS, helpers::Outside};

/// The part of the requests that is handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Thinning {
    /// One of 2 to the power of this.
    pub halved: u32,
    /// 1 once any request may not have been handed over.
    pub is_on: u32,
}

impl Thinning {
    /// Fewest that are handed over: one of 2 to the power of this.
    pub const MOST: u32 = 10;
}

/// A request that is not handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct UnseenRoot {
    /// Token of its root.
    pub token: u64,
    /// The process.
    pub tgid: u32,
    /// The copy of the library.
    pub instance: u32,
}

/// Requests that are remembered: those that began last.
pub const UNSEEN_ROOTS: u32 = 8192;

/// How an edge comes to its choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is handed over.
    Seen,
    /// A request begins, and this is drawn.
    Drawn,
    /// It is not handed over, and neither is what comes later of the root that begins.
    Unseen,
    /// As its root, which may be remembered.
    AsRoot,
    /// As the innermost phase of its thread.
    AsInnermost,
}

impl Choice {
    /// Whether what begins counts as a request; `length` is the second argument of its edge. A root within
    /// another source's phase is a part of that, and a detail outside of all phases is none.
    #[inline(always)]
    #[must_use]
    pub const fn is_request(self, length: u64) -> bool {
        matches!(self, Choice::Drawn) && length & DETAIL == 0
    }
}

/// The root of a token.
#[must_use]
pub const fn root_of(token: u64) -> u64 {
    token >> TOKEN_CHILD_BITS << TOKEN_CHILD_BITS
}

/// Whether the library ends another phase of the thread by an edge as well. `second` and `fourth` are
/// arguments of its operation.
#[inline(always)]
#[must_use]
pub const fn ends_another(head: u64, token: u64, second: u64, fourth: u64) -> bool {
    const BEGIN: u8 = Operation::Begin as u8;
    const END: u8 = Operation::End as u8;
    let joins = fourth != 0 && fourth != root_of(token);
    instance(head) != KERNEL_INSTANCE && (head as u8 == BEGIN && joins || head as u8 == END && second != 0)
}

const fn instance(head: u64) -> u16 {
    (head >> 16) as u16
}

impl Outside {
    /// How an edge of the running thread comes to its choice. Call it before [`Outside::edge`], and
    /// [`Outside::chosen`] after it. `length` is its second argument.
    #[inline(always)]
    #[must_use]
    pub const fn choice(&self, head: u64, token: u64, length: u64) -> Choice {
        if instance(head) == KERNEL_INSTANCE || head as u8 == Operation::Tell as u8 {
            return Choice::Seen;
        }
        if token == 0 {
            return Choice::AsInnermost;
        }
        if !Operation::begins_request(head as u8, token) {
            return Choice::AsRoot;
        }
        if self.is_separate(head, length) {
            Choice::Drawn
        } else if self.is_unseen() {
            Choice::Unseen
        } else {
            Choice::Seen
        }
    }

    /// Whether a root that begins is a request by itself: nothing is open on its thread, as far as is known
    /// or as its library says, or both are marked by the program.
    const fn is_separate(&self, head: u64, length: u64) -> bool {
        let is_same = self.outermost == instance(head);
        let is_marked = Source::and_length(length).0 as u8 == Source::Marker as u8;
        self.depth == 0 || is_same && (head as u8 == Operation::Begin as u8 || is_marked)
    }

    /// Remembers the choice, after the edge has changed the number of phases.
    #[inline(always)]
    pub const fn chosen(&mut self, head: u64, is_seen: bool) {
        const BEGIN: u8 = Operation::Begin as u8;
        const REQUEST: u8 = Operation::Request as u8;
        const ENTER: u8 = Operation::Enter as u8;
        if matches!(head as u8, BEGIN | REQUEST | ENTER) {
            let bit = self.innermost_bit();
            self.unseen = if is_seen { self.unseen & !bit } else { self.unseen | bit };
        }
        if is_seen {
            self.last = head;
        } else {
            self.left_out = self.left_out.wrapping_add(1);
        }
    }

    /// Whether the innermost phase of the thread is one that is not handed over.
    #[inline(always)]
    #[must_use]
    pub const fn is_unseen(&self) -> bool {
        self.depth != 0 && self.unseen & self.innermost_bit() != 0
    }

    /// The bit of the innermost phase; those that are nested deeper than 64 share the last one.
    const fn innermost_bit(&self) -> u64 {
        let place = self.depth.wrapping_sub(1);
        1 << if place > 63 { 63 } else { place }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{THREAD_INSIDE, THREAD_OUTSIDE, ledger::Ledger};

    const LIBRARY: u16 = 7;

    /// A thread, and the numbers of its edges that were handed over.
    #[derive(Default)]
    struct Thread {
        outside: Outside,
        number: u64,
        unseen: HashSet<(u16, u64)>,
        seen: Vec<u64>,
        requests_unseen: u32,
    }

    impl Thread {
        /// An edge; a request that is drawn is handed over if `is_lucky`.
        fn edge(&mut self, instance: u16, operation: Operation, token: u64, first: u64, is_lucky: bool) {
            self.number += 1;
            let head = operation as u64 | u64::from(instance) << 16 | self.number << 32;
            let root = (instance, root_of(token));
            let choice = self.outside.choice(head, token, 0);
            let is_seen = match choice {
                Choice::Seen => true,
                Choice::Drawn => is_lucky,
                Choice::Unseen => false,
                Choice::AsRoot => !self.unseen.contains(&root),
                Choice::AsInnermost => !self.outside.is_unseen(),
            };
            if !is_seen && Operation::begins_request(operation as u8, token) {
                self.unseen.insert(root);
                self.requests_unseen += u32::from(choice.is_request(0));
            }
            if is_seen {
                self.seen.push(self.number);
            }
            self.outside.edge(head, token, first, &Ledger::EMPTY, 0);
            self.outside.chosen(head, is_seen);
        }
    }

    const fn root(number: u64) -> u64 {
        number << TOKEN_CHILD_BITS
    }

    #[test]
    fn a_request_is_handed_over_whole_or_not_at_all() {
        for is_seen in [true, false] {
            let mut thread = Thread::default();
            thread.edge(LIBRARY, Operation::Begin, root(1), 0, is_seen);
            thread.edge(LIBRARY, Operation::Begin, root(1) | 1, 0, !is_seen);
            assert_eq!(thread.outside.is_unseen(), !is_seen);
            thread.edge(LIBRARY, Operation::Mark, 0, 0, !is_seen);
            // A root of another library within it is part of it.
            thread.edge(LIBRARY + 1, Operation::Request, root(9), 0, !is_seen);
            thread.edge(LIBRARY + 1, Operation::End, root(9), 0, !is_seen);
            thread.edge(LIBRARY, Operation::End, 0, THREAD_INSIDE, !is_seen);
            thread.edge(LIBRARY, Operation::Leave, root(1), THREAD_OUTSIDE, !is_seen);
            assert!(!thread.outside.is_unseen());
            thread.edge(LIBRARY, Operation::Enter, root(1), 0, !is_seen);
            assert_eq!(thread.outside.is_unseen(), !is_seen);
            thread.edge(LIBRARY, Operation::End, root(1), THREAD_OUTSIDE, !is_seen);
            assert_eq!(thread.seen, if is_seen { (1..=9).collect() } else { Vec::new() });
            assert_eq!(thread.outside.left_out, if is_seen { 0 } else { 9 });
            assert_eq!(thread.requests_unseen, u32::from(!is_seen));
        }
    }

    #[test]
    fn marked_requests_within_each_other_are_drawn_by_themselves() {
        for outer in [true, false] {
            let mut thread = Thread::default();
            thread.edge(LIBRARY, Operation::Request, root(1), 0, outer);
            thread.edge(LIBRARY, Operation::Request, root(2), 0, !outer);
            thread.edge(LIBRARY, Operation::Mark, 0, 0, true);
            thread.edge(LIBRARY, Operation::End, 0, THREAD_INSIDE, true);
            thread.edge(LIBRARY, Operation::Mark, 0, 0, true);
            thread.edge(LIBRARY, Operation::End, 0, THREAD_OUTSIDE, true);
            assert_eq!(thread.seen, if outer { [1, 5, 6] } else { [2, 3, 4] });
            assert_eq!(thread.requests_unseen, 1);
        }
    }

    #[test]
    fn what_the_kernel_side_makes_and_what_is_within_is_seen() {
        let mut thread = Thread::default();
        thread.edge(KERNEL_INSTANCE, Operation::Request, root(3), 0, false);
        thread.edge(LIBRARY, Operation::Begin, root(1), 0, false);
        thread.edge(LIBRARY, Operation::End, root(1), THREAD_OUTSIDE, false);
        thread.edge(KERNEL_INSTANCE, Operation::End, root(3), 0, false);
        assert_eq!(thread.seen, [1, 2, 3, 4]);
        thread.edge(LIBRARY, Operation::Begin, root(2), 0, false);
        thread.edge(KERNEL_INSTANCE, Operation::Leave, root(3), 0, false);
        thread.edge(LIBRARY, Operation::Tell, 0, 0, false);
        assert_eq!(thread.seen, [1, 2, 3, 4, 6, 7], "a source speaks of itself");
    }

    #[test]
    fn a_library_that_has_nothing_open_begins_anew() {
        // The end of the first one came on another thread.
        let mut thread = Thread::default();
        thread.edge(LIBRARY, Operation::Begin, root(1), 0, false);
        thread.edge(LIBRARY, Operation::Begin, root(2), 0, true);
        thread.edge(LIBRARY, Operation::Request, root(3), 0, true);
        assert_eq!(thread.seen, [2, 3]);
    }
}
