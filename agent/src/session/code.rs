//! Which code observed processes have mapped: when that changes, there may be markers and busy-waiting libraries to be known.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use super::{
    Feed,
    sight::{self, Sight as _},
};
use crate::{
    mapped::{self, Looked, MappedCode},
    patient,
};

/// Forked processes that are looked at for the first time together, so that many take several looks.
const MOST_NEW: usize = 64;

/// A look takes some milliseconds, unless a process makes it wait.
const LOOK: Duration = Duration::from_secs(1);
/// The rings are emptied at least so often meanwhile.
const TURN: Duration = Duration::from_millis(20);

/// Processes that were looked at.
#[derive(Default)]
pub(super) struct Code {
    /// What code each had mapped when it was last looked at.
    seen: HashMap<u32, MappedCode>,
    /// When each was born that made a look wait: it is looked at no more.
    passed_over: HashMap<u32, u64>,
}

impl Code {
    /// Looks at what a process has mapped, if that has changed since the last look. What went wrong.
    pub(super) fn look(&mut self, pid: u32, feed: &mut Feed) -> Vec<String> {
        mapped::mapped_code(pid).map_or_else(Vec::new, |code| self.look_at(pid, code, feed))
    }

    fn look_at(&mut self, pid: u32, code: MappedCode, feed: &mut Feed) -> Vec<String> {
        let born = code.born;
        if self.seen.get(&pid) == Some(&code) || self.passed_over.get(&pid) == Some(&born) {
            return Vec::new();
        }
        let Feed { loaded, pump, pairing, .. } = &mut *feed;
        let mut meanwhile = || {
            sight::empty(pump, pairing);
        };
        let marks = Arc::clone(&loaded.marks);
        let looked =
            patient::within((LOOK, TURN), &mut meanwhile, move || mapped::look(pid.cast_signed(), &marks));
        let problems = match looked {
            Ok(Ok(Looked { spin, problems })) => {
                loaded.set_spin_code(pid, &spin);
                self.seen.insert(pid, code);
                problems
            }
            Ok(Err(procfs::ProcError::NotFound(_))) => Vec::new(),
            Ok(Err(error)) => vec![format!("reading the maps of process {pid}: {error}")],
            Err(no_answer) => {
                self.seen.insert(pid, code);
                self.passed_over.insert(pid, born);
                vec![format!("what process {pid} has mapped is not looked at: {no_answer}")]
            }
        };
        for problem in &problems {
            feed.loaded.marker_failed(problem);
        }
        // Attaching takes its time, and the rings go on filling.
        feed.take_in();
        problems
    }

    /// Those that were looked at and are there still.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.seen.keys().copied().collect()
    }

    /// Looks at a process that has begun a program, perhaps the one that it had before. What went wrong.
    pub(super) fn meet(&mut self, pid: u32, feed: &mut Feed) -> Vec<String> {
        self.seen.remove(&pid);
        self.look(pid, feed)
    }

    /// Looks at all again, but at nobody who has the number of one that has ended, and at what they have forked: that meets nobody.
    /// What went wrong.
    pub(super) fn look_again(&mut self, feed: &mut Feed) -> Vec<String> {
        let mapped = |(&pid, before): (&u32, &MappedCode)| {
            let code = mapped::mapped_code(pid).filter(|code| code.born == before.born)?;
            Some((pid, code))
        };
        let there: BTreeMap<u32, MappedCode> = self.seen.iter().filter_map(mapped).collect();
        self.keep(feed, |pid| there.contains_key(&pid));
        let forked = there.iter().flat_map(|(pid, code)| mapped::forked(*pid, code));
        let new: Vec<_> = forked.filter(|(pid, _)| !there.contains_key(pid)).take(MOST_NEW).collect();
        there.into_iter().chain(new).flat_map(|(pid, code)| self.look_at(pid, code, feed)).collect()
    }

    /// Forgets all others: their numbers may be used again.
    pub(super) fn keep(&mut self, feed: &mut Feed, is_there: impl Fn(u32) -> bool) {
        self.passed_over.retain(|pid, _| is_there(*pid));
        for (gone, _) in self.seen.extract_if(|pid, _| !is_there(*pid)) {
            feed.loaded.forget_spin_code(gone);
        }
    }
}
