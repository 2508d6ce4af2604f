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
    sinks::otlp::Delivered,
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

    /// What became of spans so far; called at least once a second if they are sent anywhere.
    fn delivered(&mut self, spans: Delivered);

    /// Called at least once a second, after the folder was flushed. It may change which part of the requests
    /// is kept.
    fn tick(&mut self, folder: &mut RunFolder, sampler: &mut Sampler);

    /// The agent ends; the folder was flushed.
    fn end(&mut self, folder: &mut RunFolder);
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
    /// What was counted.
    pub(crate) counts: Counts,
}

/// Counts of what only grows: since the start, or of a stretch, without zeros.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Samples of busy-waiting by library.
    pub(crate) spun: BTreeMap<String, u64>,
    /// Samples in system calls by the number of the call.
    pub(crate) called: BTreeMap<u32, u64>,
    /// What was lost or not seen, by its key in a run folder.
    pub(crate) lost: BTreeMap<String, u64>,
}

/// Counts that only grow become those of a stretch.
#[derive(Debug, Default)]
pub(crate) struct Stretches(Counts);

impl Stretches {
    /// The stretch that ends now: `counts` are those since the start.
    pub(super) fn end(
        &mut self,
        (from_ns, to_ns, limits): (u64, u64, Vec<Limit>),
        counts: Counts,
    ) -> Stretch {
        let since = Counts {
            spun: more(&self.0.spun, &counts.spun),
            called: more(&self.0.called, &counts.called),
            lost: more(&self.0.lost, &counts.lost),
        };
        self.0 = counts;
        Stretch { from_ns, to_ns, limits, counts: since }
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
        let mut end = |libgomp: u64, futex: u64, edges: u64| {
            let spun = BTreeMap::from([("libgomp".to_owned(), libgomp)]);
            let lost = BTreeMap::from([("kernel.edges".to_owned(), edges)]);
            let counts = Counts { spun, called: BTreeMap::from([(202, futex)]), lost };
            let Counts { spun, called, lost } = stretches.end((0, 1, Vec::new()), counts).counts;
            [spun.get("libgomp").copied(), called.get(&202).copied(), lost.get("kernel.edges").copied()]
        };
        assert_eq!(end(5, 7, 0), [Some(5), Some(7), None]);
        assert_eq!(end(5, 9, 3), [None, Some(2), Some(3)]);
    }
}
