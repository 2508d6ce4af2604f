//! What the requests of a run folder do not contain, by its manifest.

use crate::{
    analyze::{Hidden, Summary, Untracked},
    clock,
    folder::{Manifest, State},
    phase::{AllUnfinished, Fate},
    platform::Root,
};

/// A run that goes on looks every second at what is open.
const STALE_NS: u64 = 10_000_000_000;

/// Requests without an end, and marks that are in no phase.
pub(super) fn hidden(manifest: &Manifest, summary: &Summary) -> Hidden {
    let lost = |name: &str| manifest.health.losses.get(name).copied().unwrap_or(0);
    let untracked = Untracked {
        marks: lost("kernel.marks_untracked"),
        requests: lost("kernel.requests_untracked"),
        for_want_of_room: lost("kernel.tasks_missed") > 0,
        max_threads: manifest.max_threads,
    };
    let mut unfinished = AllUnfinished::from(&manifest.unfinished);
    if !goes_on(manifest, &unfinished, clock::now_ns()) {
        for one in unfinished.requests.iter_mut().filter(|one| one.fate == Fate::Open) {
            one.fate = Fate::Stopped;
        }
    }
    Hidden::new(unfinished, untracked, Some(summary))
}

/// Whether the run is being written: it was not closed, and somebody looked a moment ago.
fn goes_on(manifest: &Manifest, unfinished: &AllUnfinished, now_ns: u64) -> bool {
    let looked_ns = unfinished.requests.iter().map(|one| one.until_ns).max().unwrap_or(0);
    let is_recent = looked_ns <= now_ns && now_ns - looked_ns < STALE_NS;
    let boot_id = || Root::system().boot_id().unwrap_or_default();
    manifest.state == State::Running && is_recent && manifest.boot_id == boot_id()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::OpenRecord;

    fn fate(state: State, until_ns: u64, boot_id: Option<String>) -> Fate {
        let mut manifest = Manifest { state, boot_id: boot_id.unwrap_or_default(), ..Manifest::default() };
        let open = OpenRecord { fate: "open".to_owned(), until_ns, ..OpenRecord::default() };
        manifest.unfinished.requests.push(open);
        hidden(&manifest, &Summary::new(std::iter::empty)).requests[0].1.fate
    }

    #[test]
    fn what_was_open_when_the_agent_was_killed_is_not_open_still() {
        let (now_ns, here) = (clock::now_ns(), Root::system().boot_id());
        assert_eq!(fate(State::Running, now_ns, here.clone()), Fate::Open);
        assert_eq!(fate(State::Running, now_ns - STALE_NS, here.clone()), Fate::Stopped);
        assert_eq!(fate(State::Running, now_ns + STALE_NS, here.clone()), Fate::Stopped, "of the future");
        assert_eq!(fate(State::Running, now_ns, Some("elsewhere".to_owned())), Fate::Stopped);
        assert_eq!(fate(State::Closed, now_ns, here), Fate::Stopped);
    }
}
