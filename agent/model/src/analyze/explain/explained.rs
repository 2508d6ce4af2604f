//! What is explained, as plain data: which requests were asked for, and what is said about each kind.

use super::{
    case::Case,
    tail::{Tail, TailCause},
    whose::Circle,
};
use crate::analyze::{
    called::MostCalled,
    cause::{Cause, Overlay},
    tally::SLOWEST,
};

/// Requests of one number that are explained: programs may give one to several.
pub(super) const SAME_NUMBER: usize = SLOWEST;

/// Which requests to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This number of the slowest requests of each name, at most [`SLOWEST`]; only one for names with the
    /// least total time.
    Slowest(usize),
    /// Requests with this number of the program's, the first ones of each kind.
    Number(u64),
}

/// Explanation of one kind of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explained {
    /// Requests asked for, slowest first.
    pub cases: Vec<Case>,
    /// The tails above the 90th percentile and, with 100 requests, above the 99th.
    pub tails: Vec<Tail>,
}

impl Explained {
    /// The system call that took the explained requests longer, by all their samples in system calls where
    /// these took longer.
    pub fn most_called(&self, circle: &Circle) -> Option<MostCalled> {
        let parts = self.cases.iter().flat_map(|case| &case.phases).flat_map(|phase| &phase.parts);
        let slower =
            parts.filter(|part| part.cause == Cause::Overlay(Overlay::Syscall) && part.excess_ns > 0);
        let samples = slower.filter_map(|part| part.evidence.sampled.as_ref()).map(|sampled| sampled.samples);
        circle.called.most_of(samples.fold(0, u64::saturating_add))
    }

    /// The cause that makes most of the excess above the 90th percentile.
    pub fn leading(&self) -> Option<(&Tail, &TailCause)> {
        let tail = self.tails.first()?;
        tail.causes.first().filter(|cause| cause.excess_ns > 0).map(|cause| (tail, cause))
    }
}
