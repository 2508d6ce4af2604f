//! A slow request, as plain data: its latency, and what it is more than the typical one's.

use super::{
    cause::Cause,
    event_loop::{Polls, is_worth},
};
use crate::{
    phase::{Holder, ThreadId, Wait, waits_for_address_space},
    untrusted::Untrusted,
};

/// Waits in poll that are looked at together, workers' and arrivals, of each: a summary may be made in a
/// resident agent. Of ten slow requests of each of 33 kinds: 50 MB at most.
const ROOM: usize = 256;

/// A part of an excess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The phase whose own time it is: names from under the request, or [`super::OUTSIDE`].
    pub path: Vec<Untrusted>,
    /// The cause.
    pub cause: Cause,
    /// More than in a typical request, ns; negative if less.
    pub excess_ns: i64,
}

/// One of the slowest requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slow {
    /// The `id` of its outermost phase.
    pub id: u64,
    /// The number that the program gave it.
    pub request: u64,
    /// ID of its trace.
    pub trace_id: [u8; 16],
    /// The thread that began it.
    pub thread: ThreadId,
    /// CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// Minor faults of its thread.
    pub fault_minor: u64,
    /// Duration of the outermost phase, ns.
    pub duration_ns: u64,
    /// Queue and duration, ns.
    pub latency_ns: u64,
    /// More than the typical request, ns: the sum over `parts`, exactly.
    pub excess_ns: i64,
    /// Parts that are not zero, largest first.
    pub parts: Vec<Excess>,
    /// The thread that had its work during the longest wait, an event loop's; `blame` of that wait is what
    /// delayed this thread.
    pub given_to: Option<u32>,
    /// The longest wait inside it, of those of its largest cause, if there are any. None before
    /// [`Summary::add_waits`](super::Summary::add_waits).
    pub longest_wait: Option<Wait>,
    /// Its long waits that are mainly of the same account as that one.
    pub waits_like_it: LikeIt,
    /// What had its thread for longest while one of its phases was suspended.
    pub holder: Option<Box<Holder>>,
}

/// Long waits that are mainly of one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LikeIt {
    /// Their number.
    pub count: u64,
    /// Their time in that account, ns.
    pub ns: u64,
}

impl Slow {
    /// The part of the excess that one cause explains, over all phases, ns.
    pub fn excess_by(&self, cause: Cause) -> i64 {
        self.parts.iter().filter(|part| part.cause == cause).map(|part| part.excess_ns).sum()
    }

    /// Waits in poll as those of an event loop, if it waited for much longer than usual there.
    pub(super) fn polls(&self) -> Option<Polls> {
        let ThreadId { tid, tgid, .. } = self.thread;
        let within = (self.start_ns, self.start_ns.saturating_add(self.duration_ns));
        let parts = self.parts.iter().map(|part| (part.cause, part.excess_ns));
        is_worth(parts, self.excess_ns).then(|| Polls::new(self.id, tgid, vec![tid], within, ROOM))
    }

    /// Whether a wait is of the cause that explains most of the excess.
    pub(super) fn is_of_largest(&self, wait: &Wait) -> bool {
        match self.parts.first().filter(|part| part.excess_ns > 0).map(|part| part.cause) {
            Some(Cause::Account(account)) => wait.mainly().0 == account,
            Some(Cause::AddressSpace) => waits_for_address_space(wait),
            Some(Cause::Stopped) => wait.stopped_by.is_some(),
            Some(
                Cause::Suspended
                | Cause::Queue
                | Cause::Handoff
                | Cause::Steal
                | Cause::InDriver
                | Cause::Pause
                | Cause::Helper(_)
                | Cause::Overlay(_),
            )
            | None => false,
        }
    }

    /// The cause that makes at least half of the excess, if there is one.
    pub fn dominant(&self) -> Option<Cause> {
        let (excess, cause) =
            Cause::all().map(|cause| (self.excess_by(cause), cause)).max_by_key(|&(excess, cause)| {
                (excess, std::cmp::Reverse(cause)) // among equals the first account
            })?;
        (excess > 0 && i128::from(excess) * 2 >= i128::from(self.excess_ns)).then_some(cause)
    }
}
