//! Which phase a wait belongs to whose thread had another phase, because the phase that it was for was on no
//! thread, or on another one.

use crate::phase::{Request, Wait};

use super::super::{
    split::FOR_OTHERS,
    tree::{Elsewhere, Leaves, Located},
};

/// Phases of a request that are looked at for each wait.
const MOST: usize = 256;

/// A phase that had time in the place of its parent's.
#[derive(Clone, Debug, PartialEq)]
struct Cover {
    parent: u64,
    phase: u64,
    from_ns: u64,
    to_ns: u64,
    /// How much of it was on another thread: that one's waits are the phase's.
    elsewhere: Elsewhere,
}

/// Phases of a request that were suspended, or on other threads, while their parents were on a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Covers(Vec<Cover>);

impl Covers {
    pub(super) fn new(request: &Request, located: &Located) -> Self {
        let elsewhere = Leaves::of(request, located).elsewhere;
        let found = elsewhere.into_iter().enumerate().filter(|(_, one)| one.moved_ns.max(one.lent_ns) > 0);
        let cover = |(at, one): (usize, Elsewhere)| {
            let phase = &request.phases[at];
            Cover {
                parent: request.phases[located.parents[at]].id,
                phase: phase.id,
                from_ns: phase.start_ns,
                to_ns: phase.start_ns.saturating_add(phase.duration_ns),
                elsewhere: one,
            }
        };
        Self(found.map(cover).take(MOST).collect())
    }

    /// The phase that a wait is for, by its `id`; none where the waits of a phase on another thread have its
    /// place. `is_given`: another thread had the work meanwhile.
    pub(super) fn phase_of(&self, wait: &Wait, is_given: bool) -> Option<u64> {
        let mut at = wait.phase?;
        let is_within = |cover: &&Cover| {
            let common_ns = wait.end_ns().min(cover.to_ns).saturating_sub(wait.start_ns.max(cover.from_ns));
            common_ns > 0 && common_ns >= wait.duration_ns.div_ceil(2)
        };
        // A parent comes before its phases, so one look at the list leads from phase to phase.
        for cover in self.0.iter().filter(is_within) {
            if cover.parent != at {
                continue;
            }
            let Elsewhere { moved_ns, lent_ns } = cover.elsewhere;
            let is_moved = moved_ns > if is_given { 0 } else { lent_ns };
            if is_moved && FOR_OTHERS.contains(&wait.account) {
                return None;
            }
            if lent_ns > 0 {
                at = cover.phase;
            }
        }
        Some(at)
    }
}
