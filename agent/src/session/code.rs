//! Which code observed processes have mapped: when that changes, there may be markers and busy-waiting libraries to be known.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::{
    Feed,
    sight::{self, Sight as _},
};
use crate::{
    mapped::{self, Looked, MappedCode, Problem},
    patient,
};

/// Forked processes that are looked at for the first time together, so that many take several looks.
const MOST_NEW: usize = 64;
/// Children that are asked whether they run what their parents run, in one look.
const MOST_CHILDREN: usize = 512;
/// A process can make any number of things go wrong, each with another name.
const MOST_TOLD: usize = 200;

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
    /// Children up to this number had their turn.
    turn: u32,
    told: Told,
}

/// Warnings so far, of which each is told once.
#[derive(Default)]
struct Told(HashSet<String>);

impl Told {
    /// Those that were not told yet; of too many the last one says so.
    fn new_ones(&mut self, problems: Vec<Problem>) -> Vec<String> {
        let mut new = Vec::new();
        for Problem { text, .. } in problems {
            if self.0.len() < MOST_TOLD && self.0.insert(text.clone()) {
                new.push(text);
                if self.0.len() == MOST_TOLD {
                    new.push("no more of these warnings are told".to_owned());
                }
            }
        }
        new
    }
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
            Ok(Err(error)) => {
                vec![Problem { text: format!("reading the maps of process {pid}: {error}"), is_ours: true }]
            }
            Err(no_answer) => {
                self.seen.insert(pid, code);
                self.passed_over.insert(pid, born);
                let text = format!("what process {pid} has mapped is not looked at: {no_answer}");
                vec![Problem { text, is_ours: false }]
            }
        };
        for problem in problems.iter().filter(|problem| problem.is_ours) {
            feed.loaded.marker_failed(&problem.text);
        }
        // Attaching takes its time, and the rings go on filling.
        feed.take_in();
        self.told.new_ones(problems)
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
        let new = self.forked(&there);
        there.into_iter().chain(new).flat_map(|(pid, code)| self.look_at(pid, code, feed)).collect()
    }

    /// Children that run what their parents run and were not looked at yet, in turns: there may be any number of children, and
    /// most may be dead.
    fn forked(&mut self, there: &BTreeMap<u32, MappedCode>) -> Vec<(u32, MappedCode)> {
        let children = there
            .iter()
            .flat_map(|(pid, code)| mapped::children(*pid).into_iter().map(move |child| (child, code)));
        let mut unknown: Vec<_> = children.filter(|(child, _)| !there.contains_key(child)).collect();
        unknown.sort_unstable_by_key(|(child, _)| (*child <= self.turn, *child));
        unknown.truncate(MOST_CHILDREN);
        self.turn = unknown.last().map_or(0, |(child, _)| *child);
        let forked =
            unknown.into_iter().filter_map(|(child, code)| Some((child, mapped::forked(child, code)?)));
        forked.take(MOST_NEW).collect()
    }

    /// Forgets all others: their numbers may be used again.
    pub(super) fn keep(&mut self, feed: &mut Feed, is_there: impl Fn(u32) -> bool) {
        self.passed_over.retain(|pid, _| is_there(*pid));
        for (gone, _) in self.seen.extract_if(|pid, _| !is_there(*pid)) {
            feed.loaded.forget_spin_code(gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_told_once_and_not_without_end() {
        let mut told = Told::default();
        let mut new_ones = |names: std::ops::Range<usize>| {
            told.new_ones(names.map(|name| Problem { text: name.to_string(), is_ours: false }).collect())
        };
        assert_eq!(
            (new_ones(0..3), new_ones(1..4)),
            (vec!["0".into(), "1".into(), "2".into()], vec!["3".into()])
        );
        let many = new_ones(0..10 * MOST_TOLD);
        assert_eq!(
            (many.len(), many.last().map(String::as_str)),
            (MOST_TOLD - 4 + 1, Some("no more of these warnings are told"),)
        );
        assert_eq!(new_ones(5_000..5_001), [""; 0]);
    }
}
