//! Which code observed processes have mapped: a change may bring markers and busy-waiting libraries.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::record_source;
use crate::{
    loader::Loaded,
    mapped::{self, Looked, MappedCode, Problem},
    out,
    patient::{self, NoAnswer, Patience},
    phase::pairing::Pairing,
    pump::Pump,
    sources::{driver::Drivers, function::Functions},
};

/// Most forked processes with a first look at once: more take several looks.
const MOST_NEW: usize = 64;
/// Most children checked in one look for running the same program as their parent.
const MOST_CHILDREN: usize = 512;
/// Most warnings: a process can cause any number, each with another name.
const MOST_TOLD: usize = 200;

/// Time limit of a look, which takes some milliseconds unless a process holds it up or the machine is
/// overloaded.
const LOOK: Duration = Duration::from_secs(2);
/// Added limit per process: 16,000 took 0.45 s.
const EACH: Duration = Duration::from_millis(1);
/// Interval between looks at all processes, where functions are traced.
const WHOLE: Duration = Duration::from_secs(1);
/// Interval at which the rings are drained during the work.
const TURN: Duration = Duration::from_millis(20);

/// The kernel side, whose rings are drained while processes are looked at.
pub(crate) struct KernelSide<'a> {
    pub(crate) loaded: &'a mut Loaded,
    pub(crate) pump: &'a mut Pump,
    pub(crate) pairing: &'a mut Pairing,
    /// Functions whose calls are phases.
    pub(crate) functions: Option<&'a Arc<Functions>>,
    /// Drivers of graphics processors.
    pub(crate) drivers: Option<&'a Arc<Drivers>>,
}

/// Mapped code of observed processes.
#[derive(Default)]
pub(crate) struct Code {
    /// Code that each process had mapped at the last look.
    seen: HashMap<u32, MappedCode>,
    /// Processes that blocked a check: they are skipped from then on.
    passed_over: HashSet<u32>,
    /// The started program, if all its descendants are looked at, whatever they run.
    root: Option<u32>,
    /// When all were last checked regardless of changes, and whether they are being checked now: a library
    /// that replaces another may have the same size. If functions are traced this is worth a millisecond per
    /// process.
    whole: (Option<Instant>, bool),
    /// Children up to this PID had their turn.
    turn: u32,
    told: Told,
}

/// Runs `work` on a separate thread and drains the rings until it is done: processes may block reads about
/// them.
fn ask<T: Send + 'static>(
    kernel: &mut KernelSide<'_>,
    processes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    let KernelSide { pump, pairing, .. } = kernel;
    let mut meanwhile = || {
        record_source::empty(pump, pairing);
    };
    let limit = LOOK + EACH * u32::try_from(processes).unwrap_or(u32::MAX);
    patient::within(Patience { limit, turn: TURN }, &mut meanwhile, work)
}

/// Warnings so far; each is printed once.
#[derive(Default)]
struct Told(HashSet<String>);

impl Told {
    /// Warnings that were not printed yet; at the limit the last one says so.
    fn new_ones(&mut self, problems: Vec<Problem>) -> Vec<String> {
        let mut new = Vec::new();
        for Problem { text, .. } in problems {
            if self.0.len() < MOST_TOLD && self.0.insert(text.clone()) {
                new.push(text);
                if self.0.len() == MOST_TOLD {
                    new.push("further warnings of this kind are not printed".to_owned());
                }
            }
        }
        new
    }
}

/// Mapped code by process, for those read before one blocked the check.
type Answers = HashMap<u32, Option<MappedCode>>;

impl Code {
    /// Looks at what a process has mapped, if that has changed since the last look. Returns warnings.
    pub(crate) fn look(&mut self, pid: u32, kernel: &mut KernelSide<'_>) -> Vec<String> {
        if self.passed_over.contains(&pid) {
            return Vec::new();
        }
        let known = self.seen.get(&pid).copied().filter(|_| !self.whole.1);
        let (marks, functions) = (Arc::clone(&kernel.loaded.marks), kernel.functions.cloned());
        let drivers = kernel.drivers.cloned();
        let looked = ask(kernel, 1, move || {
            let code = mapped::mapped_code(pid).filter(|code| known.as_ref() != Some(code))?;
            let looked = mapped::look(pid.cast_signed(), &marks, functions.as_deref(), drivers.as_deref());
            Some((code, looked))
        });
        let problems = match looked {
            Ok(None) => return Vec::new(),
            // The process has ended.
            Ok(Some((_, Err(error)))) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {
                return Vec::new();
            }
            Ok(Some((code, Ok(Looked { spin, problems })))) => {
                kernel.loaded.set_spin_code(pid, &spin);
                self.seen.insert(pid, code);
                problems
            }
            Ok(Some((_, Err(error)))) => {
                vec![Problem { text: format!("reading the maps of process {pid}: {error}"), is_ours: true }]
            }
            Err(no_answer) => vec![self.pass_over(pid, no_answer)],
        };
        for problem in problems.iter().filter(|problem| problem.is_ours) {
            kernel.loaded.marker_failed(&problem.text);
        }
        // Attaching takes its time, and the rings go on filling.
        record_source::empty(kernel.pump, kernel.pairing);
        self.told.new_ones(problems)
    }

    /// Whether reads about a process block.
    pub(crate) fn holds_up(&mut self, pid: u32, kernel: &mut KernelSide<'_>) -> bool {
        let (_, problem) = self.codes(vec![pid], kernel);
        let problem = self.told.new_ones(problem.into_iter().collect());
        for problem in problem {
            out::say(&format!("warning: {problem}\n"));
        }
        self.passed_over.contains(&pid)
    }

    /// Decides whether this look covers unchanged processes too.
    fn is_whole(&mut self, kernel: &KernelSide<'_>) {
        let is_due = self.whole.0.is_none_or(|before| before.elapsed() >= WHOLE);
        let is_whole = kernel.functions.is_some() && is_due;
        self.whole = (if is_whole { Some(Instant::now()) } else { self.whole.0 }, is_whole);
    }

    fn pass_over(&mut self, pid: u32, no_answer: NoAnswer) -> Problem {
        if no_answer == NoAnswer::Late {
            self.passed_over.insert(pid);
        }
        let text = format!("mappings of process {pid} are not checked: {no_answer}");
        Problem { text, is_ours: false }
    }

    /// Known processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.seen.keys().copied().collect()
    }

    /// From now on includes this process and all that it starts.
    pub(crate) fn follow(&mut self, pid: u32) {
        self.root = Some(pid);
    }

    /// Looks at a process after exec, perhaps of the same program. Returns warnings.
    pub(crate) fn meet(&mut self, pid: u32, kernel: &mut KernelSide<'_>) -> Vec<String> {
        self.seen.remove(&pid);
        self.look(pid, kernel)
    }

    /// Looks at all known processes again, except reused PIDs, and at their forks, which send no greeting.
    /// Returns warnings.
    pub(crate) fn look_again(&mut self, kernel: &mut KernelSide<'_>) -> Vec<String> {
        let mut problems = Vec::new();
        self.is_whole(kernel);
        if let Some(root) = self.root.filter(|root| !self.seen.contains_key(root)) {
            problems = self.look(root, kernel);
        }
        let (answers, held_up) = self.codes(self.seen.keys().copied().collect(), kernel);
        let is_there = |pid: u32, before: &MappedCode| match answers.get(&pid) {
            Some(code) => code.is_some_and(|code| code.born == before.born),
            // It was not included in this check.
            None => true,
        };
        let there: BTreeMap<u32, MappedCode> = self
            .seen
            .iter()
            .filter(|(pid, before)| is_there(**pid, before))
            .map(|(&pid, &code)| (pid, code))
            .collect();
        self.keep(kernel, |pid| there.contains_key(&pid));
        let (new, held_up_too) = self.forked(&there, kernel);
        let changed =
            |(pid, before): &(u32, MappedCode)| answers.get(pid).is_some_and(|code| *code != Some(*before));
        let is_whole = self.whole.1;
        let changed: Vec<u32> =
            there.into_iter().filter(|one| is_whole || changed(one)).map(|(pid, _)| pid).chain(new).collect();
        problems.extend(self.look_at_each(changed, held_up.into_iter().chain(held_up_too).collect(), kernel));
        self.whole.1 = false;
        problems
    }

    /// Looks at what these processes have mapped, where that has changed since the last look. Returns
    /// warnings.
    pub(crate) fn look_at_all(&mut self, pids: Vec<u32>, kernel: &mut KernelSide<'_>) -> Vec<String> {
        self.is_whole(kernel);
        let (answers, held_up) = self.codes(pids, kernel);
        let is_new = |(pid, code): &(&u32, &Option<MappedCode>)| {
            code.is_some() && (self.whole.1 || self.seen.get(pid) != code.as_ref())
        };
        let mut changed: Vec<u32> = answers.iter().filter(is_new).map(|(pid, _)| *pid).collect();
        changed.sort_unstable();
        let problems = self.look_at_each(changed, held_up.into_iter().collect(), kernel);
        self.whole.1 = false;
        problems
    }

    /// Looks at each. Returns warnings, those in `before` first.
    fn look_at_each(
        &mut self,
        pids: Vec<u32>,
        before: Vec<Problem>,
        kernel: &mut KernelSide<'_>,
    ) -> Vec<String> {
        let mut told = self.told.new_ones(before);
        for pid in pids {
            told.extend(self.look(pid, kernel));
        }
        told
    }

    /// Code that these processes have mapped. One that holds the look up is passed over, and those after it
    /// have their turn next time.
    fn codes(&mut self, pids: Vec<u32>, kernel: &mut KernelSide<'_>) -> (Answers, Option<Problem>) {
        // A process that was passed over may have ended.
        self.passed_over.retain(|pid| Path::new(&format!("/proc/{pid}")).exists());
        let pids: Vec<u32> = pids.into_iter().filter(|pid| !self.passed_over.contains(pid)).collect();
        if pids.is_empty() {
            return Default::default();
        }
        let told = Arc::new(Mutex::new(Vec::new()));
        let (asked, answers) = (pids.clone(), Arc::clone(&told));
        let done = ask(kernel, pids.len(), move || {
            for pid in asked {
                let code = mapped::mapped_code(pid);
                answers.lock().unwrap_or_else(PoisonError::into_inner).push((pid, code));
            }
        });
        let answers = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
        let holder = pids.get(answers.len()).copied();
        let problem = done.err().zip(holder).map(|(no_answer, pid)| self.pass_over(pid, no_answer));
        (answers.into_iter().collect(), problem)
    }

    /// New children that run their parent's program (or anything, if a root is followed), in turns: there may
    /// be any number of children, most of them dead.
    fn forked(
        &mut self,
        there: &BTreeMap<u32, MappedCode>,
        kernel: &mut KernelSide<'_>,
    ) -> (Vec<u32>, Option<Problem>) {
        let children = there
            .iter()
            .flat_map(|(pid, code)| mapped::children(*pid).into_iter().map(move |child| (child, code)));
        let mut unknown: Vec<_> = children.filter(|(child, _)| !there.contains_key(child)).collect();
        unknown.sort_unstable_by_key(|(child, _)| (*child <= self.turn, *child));
        unknown.truncate(MOST_CHILDREN);
        self.turn = unknown.last().map_or(0, |(child, _)| *child);
        let (answers, problem) = self.codes(unknown.iter().map(|(child, _)| *child).collect(), kernel);
        let runs_the_same = |child: &u32, parent: &MappedCode| {
            answers.get(child).copied().flatten().is_some_and(|code| code.is_program_of(parent))
        };
        let is_followed = self.root.is_some();
        let forked =
            unknown.into_iter().filter(|(child, parent)| is_followed || runs_the_same(child, parent));
        (forked.map(|(child, _)| child).take(MOST_NEW).collect(), problem)
    }

    /// Forgets all other processes: their PIDs may be reused.
    pub(crate) fn keep(&mut self, kernel: &mut KernelSide<'_>, is_there: impl Fn(u32) -> bool) {
        for (gone, _) in self.seen.extract_if(|pid, _| !is_there(*pid)) {
            kernel.loaded.forget_spin_code(gone);
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
            (MOST_TOLD - 4 + 1, Some("further warnings of this kind are not printed"),)
        );
        assert_eq!(new_ones(5_000..5_001), [""; 0]);
    }
}
