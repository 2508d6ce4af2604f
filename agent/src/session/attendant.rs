//! What goes along with the folder of an agent that stays: it sees each request as it ends, may keep what was
//! seen around it, and ends a folder and begins the next.
//!
//! All of it runs on the thread that writes the folder, and must not block.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::kept::Sampler;
use crate::{
    analyze::{Live, TailVerdict},
    folder::{RunFolder, Sample},
    limits::Limit,
    phase::{AllUnfinished, Request},
};

/// An agent that stays.
pub(crate) struct Resident {
    /// What goes along with its folder.
    pub(crate) attendant: Box<dyn Attendant>,
    /// Length of a [`Stretch`].
    pub(crate) stretch: Duration,
    /// The directory below which it changes files.
    pub(crate) directory: PathBuf,
}

/// Goes along with a folder.
pub(crate) trait Attendant: Send {
    /// A request has ended. `live` knows it already; `verdict` as in [`Live::observe`]. Returns whether it
    /// has to be kept, chosen or not.
    fn request(&mut self, request: &Request, live: &Live, verdict: Option<&TailVerdict>) -> bool;

    /// A sample of the guest and the agent.
    fn sample(&mut self, sample: &Sample);

    /// What was seen of all observed processes during some seconds.
    fn stretch(&mut self, stretch: Stretch);

    /// Requests that have been open for long.
    fn unfinished(&mut self, all: &AllUnfinished);

    /// Called at least once a second, after the folder was flushed. It may change which part of the requests
    /// is kept.
    fn tick(&mut self, folder: &mut RunFolder, sampler: &mut Sampler);
}

/// What was seen of all observed processes together during some seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stretch {
    /// Begin, CLOCK_MONOTONIC, ns.
    pub(crate) from_ns: u64,
    /// End, CLOCK_MONOTONIC, ns.
    pub(crate) to_ns: u64,
    /// Limits, and how often each was hit.
    pub(crate) limits: Vec<Limit>,
    /// Samples of busy-waiting by library.
    pub(crate) spun: BTreeMap<String, u64>,
    /// Samples in system calls by the number of the call.
    pub(crate) called: BTreeMap<u32, u64>,
}

/// Counts that only grow become those of a stretch.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    spun: BTreeMap<String, u64>,
    called: BTreeMap<u32, u64>,
}

impl Stretches {
    /// The stretch that ends now: `spun` and `called` are counts since the start.
    pub(super) fn end(
        &mut self,
        (from_ns, to_ns, limits): (u64, u64, Vec<Limit>),
        spun: BTreeMap<String, u64>,
        called: BTreeMap<u32, u64>,
    ) -> Stretch {
        let since = Stretch {
            from_ns,
            to_ns,
            limits,
            spun: more(&self.spun, &spun),
            called: more(&self.called, &called),
        };
        (self.spun, self.called) = (spun, called);
        since
    }
}

fn more<K: Clone + Ord>(before: &BTreeMap<K, u64>, now: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let since = now.iter().map(|(key, count)| {
        let before = before.get(key).copied().unwrap_or(0);
        (key.clone(), count.saturating_sub(before))
    });
    since.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_has_what_came_since_the_one_before() {
        let mut stretches = Stretches::default();
        let counts = |libgomp: u64, futex: u64| {
            (BTreeMap::from([("libgomp".to_owned(), libgomp)]), BTreeMap::from([(202, futex)]))
        };
        let mut end = |(spun, called)| {
            let stretch = stretches.end((0, 1, Vec::new()), spun, called);
            (stretch.spun.get("libgomp").copied(), stretch.called.get(&202).copied())
        };
        assert_eq!(end(counts(5, 7)), (Some(5), Some(7)));
        assert_eq!(end(counts(5, 9)), (None, Some(2)));
    }
}
