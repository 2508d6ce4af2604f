//! Which code observed processes have mapped: when that changes, there may be markers and busy-waiting libraries to be known.

use std::collections::{BTreeMap, HashMap};

use super::{
    Feed,
    sight::{self, Sight as _},
};
use crate::mapped::{self, MappedCode};

/// Forked processes that are looked at for the first time together, so that many take several looks.
const MOST_NEW: usize = 64;

/// Processes, and what code each had mapped when it was last looked at.
#[derive(Default)]
pub(super) struct Code(HashMap<u32, MappedCode>);

impl Code {
    /// Looks at what a process has mapped, if that has changed since the last look. What went wrong.
    pub(super) fn look(&mut self, pid: u32, feed: &mut Feed) -> Vec<String> {
        mapped::mapped_code(pid).map_or_else(Vec::new, |code| self.look_at(pid, code, feed))
    }

    fn look_at(&mut self, pid: u32, code: MappedCode, feed: &mut Feed) -> Vec<String> {
        if self.0.get(&pid) == Some(&code) {
            return Vec::new();
        }
        let Feed { loaded, pump, pairing, .. } = &mut *feed;
        let mut meanwhile = || {
            sight::empty(pump, pairing);
        };
        let problems = match mapped::look(pid.cast_signed(), loaded, &mut meanwhile) {
            Ok(problems) => {
                self.0.insert(pid, code);
                problems
            }
            Err(procfs::ProcError::NotFound(_)) => Vec::new(),
            Err(error) => vec![format!("reading the maps of process {pid}: {error}")],
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
        self.0.keys().copied().collect()
    }

    /// Looks at a process that has begun a program, perhaps the one that it had before. What went wrong.
    pub(super) fn meet(&mut self, pid: u32, feed: &mut Feed) -> Vec<String> {
        self.0.remove(&pid);
        self.look(pid, feed)
    }

    /// Looks at all again, but at nobody who has the number of one that has ended, and at what they have forked: that meets nobody.
    /// What went wrong.
    pub(super) fn look_again(&mut self, feed: &mut Feed) -> Vec<String> {
        let mapped = |(&pid, before): (&u32, &MappedCode)| {
            let code = mapped::mapped_code(pid).filter(|code| code.born == before.born)?;
            Some((pid, code))
        };
        let there: BTreeMap<u32, MappedCode> = self.0.iter().filter_map(mapped).collect();
        self.keep(feed, |pid| there.contains_key(&pid));
        let forked = there.iter().flat_map(|(pid, code)| mapped::forked(*pid, code));
        let new: Vec<_> = forked.filter(|(pid, _)| !there.contains_key(pid)).take(MOST_NEW).collect();
        there.into_iter().chain(new).flat_map(|(pid, code)| self.look_at(pid, code, feed)).collect()
    }

    /// Forgets all others: their numbers may be used again.
    pub(super) fn keep(&mut self, feed: &mut Feed, is_there: impl Fn(u32) -> bool) {
        for (gone, _) in self.0.extract_if(|pid, _| !is_there(*pid)) {
            feed.loaded.forget_spin_code(gone);
        }
    }
}
