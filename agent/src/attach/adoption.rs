//! Tracks the target's threads: adopts them, puts probes into what they have mapped, samples them, and looks
//! every second for what has changed.

use std::{collections::HashSet, fs, thread, time::Duration};

use guestscope_contract::visit::Found;

use guestscope_kernel::attach::Target;

use crate::{
    loader::VisitError,
    out,
    session::{Feed, SessionError, code::Code, record_source::RecordSource as _},
};

/// Most walks in a row. One finds all existing threads; more are needed while new threads have not been on a
/// CPU yet.
const WALKS: usize = 32;
/// Pause between walks while a new thread has not been on a CPU yet: all walks together wait longer than the
/// usual period of a quota (100 ms).
const A_WAIT_FOR_A_CPU: Duration = Duration::from_millis(5);
/// Most listings of the target's processes in a row. A walk after each tracks them and what they start from
/// then on.
const LISTS: usize = 16;
/// Number of first looks at which a walk is made even without changes: it corrects the assumed states of
/// threads.
const SETTLING: u32 = 3;

/// The threads of a target.
pub(crate) struct Adoption {
    target: Target,
    /// Processes that the iterator adopts.
    asked: HashSet<u32>,
    /// Processes with a tracked thread, by their numbers in the agent's PID namespace: the target's and those
    /// that they started.
    processes: HashSet<u32>,
    threads: usize,
    /// Processes that had to be adopted, and so are sampled thread by thread.
    adopted: HashSet<u32>,
    code: Code,
    /// A warning about too many processes was printed.
    told: bool,
    /// Processes that pairing knew at the last walk, by their numbers in the initial namespace.
    known: HashSet<u32>,
    settling: u32,
    /// Threads that have not been on a CPU yet, at the last walk.
    unborn: usize,
    threads_missed: u64,
    at_begin: usize,
}

/// Result of one walk.
#[derive(Default)]
struct Walk {
    processes: HashSet<u32>,
    threads: usize,
    adopted: Vec<u32>,
    unborn: usize,
    missed: u64,
}

impl Adoption {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            asked: HashSet::new(),
            processes: HashSet::new(),
            threads: 0,
            adopted: HashSet::new(),
            code: Code::default(),
            told: false,
            known: HashSet::new(),
            settling: SETTLING,
            unborn: 0,
            threads_missed: 0,
            at_begin: 0,
        }
    }

    /// Adopts all existing threads. Returns the number of tracked ones.
    pub(crate) fn begin(&mut self, feed: &mut Feed) -> Result<usize, SessionError> {
        // Probes first, which take some ten milliseconds: then a thread's first edge is seen as soon as it is
        // tracked.
        let processes = self.target.processes();
        self.probe(processes, feed);
        // The first sampling clock takes milliseconds, in which threads are made: it is opened for the
        // agent's own thread.
        feed.loaded.sample_children();
        self.adopt(feed)?;
        self.at_begin = self.adopted.len();
        Ok(self.threads)
    }

    /// Text that names the target.
    pub(crate) fn summary(&self) -> String {
        let some =
            |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let processes = some(self.processes.len(), "process", "processes");
        format!("attached to {processes}, {}", some(self.threads, "thread", "threads"))
    }

    /// Whether the target may have processes later.
    pub(crate) fn may_be_empty(&self) -> bool {
        self.target.may_be_empty()
    }

    /// Excludes a process of the agent's own.
    pub(crate) fn leave_out(&mut self, pid: u32) {
        self.target.leave_out(pid);
    }

    /// Processes with a tracked thread, by their numbers in the agent's PID namespace.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.processes.iter().copied().collect()
    }

    /// Threads that found no free slot.
    pub(crate) fn threads_missed(&self) -> u64 {
        self.threads_missed
    }

    /// Processes that were adopted after the beginning.
    pub(crate) fn joined(&self) -> usize {
        self.adopted.len() - self.at_begin
    }

    /// Looks for processes that joined or ended and for new mappings. Returns whether any process is left.
    pub(crate) fn look(&mut self, feed: &mut Feed) -> Result<bool, SessionError> {
        feed.loaded.keep_clocks();
        let known: HashSet<u32> = feed.pairing.live_threads().map(|(thread, _)| thread.tgid).collect();
        let is_listed = self.target.processes().iter().all(|pid| self.asked.contains(pid));
        let is_settled = self.settling == 0 && self.unborn == 0;
        // Those that were asked for and are not tracked: they may have ended.
        let is_missing = known.is_empty() && !self.asked.is_empty();
        if !is_settled || !is_listed || is_missing || known != self.known {
            self.settling = self.settling.saturating_sub(1);
            self.known = known;
            self.adopt(feed)?;
        }
        let mut processes: Vec<u32> = self.processes.iter().copied().collect();
        processes.sort_unstable();
        self.code.keep(&mut feed.kernel_side(), |pid| self.processes.contains(&pid));
        self.probe(processes, feed);
        feed.look_at_functions();
        Ok(!self.processes.is_empty() || self.unborn > 0)
    }

    /// Lists the target's processes and tracks them, until none is new.
    fn adopt(&mut self, feed: &mut Feed) -> Result<(), SessionError> {
        for _ in 0..LISTS {
            let there: HashSet<u32> = self.target.processes().into_iter().collect();
            for gone in self.asked.extract_if(|pid| !there.contains(pid)) {
                feed.loaded.ask_no_more(gone)?;
            }
            let mut is_new = false;
            for pid in there {
                if self.asked.insert(pid) {
                    is_new = true;
                    if !feed.loaded.ask_for(pid)? && !std::mem::replace(&mut self.told, true) {
                        out::say("warning: more processes than can be asked for\n");
                    }
                }
            }
            self.walk_until_all_are_tracked(feed)?;
            if !is_new {
                break;
            }
        }
        Ok(())
    }

    fn walk_until_all_are_tracked(&mut self, feed: &mut Feed) -> Result<(), SessionError> {
        for _ in 0..WALKS {
            let walk = walk(feed)?;
            let is_settled = walk.adopted.is_empty() && walk.unborn == 0;
            self.unborn = walk.unborn;
            self.threads_missed = self.threads_missed.max(walk.missed);
            (self.processes, self.threads) = (walk.processes, walk.threads);
            for pid in walk.adopted {
                // Opening a thread's sampling clock waits for the same lock as reading its mappings, and
                // cannot be abandoned.
                if self.adopted.insert(pid) && !self.code.holds_up(pid, &mut feed.kernel_side()) {
                    Self::sample(pid, feed);
                }
            }
            if is_settled {
                break;
            }
            if self.unborn > 0 {
                thread::sleep(A_WAIT_FOR_A_CPU);
            }
        }
        Ok(())
    }

    /// Samples the threads of a process that was not sampled before. A thread that an unsampled thread
    /// creates during that is left out: sampling it later could count it twice.
    fn sample(pid: u32, feed: &mut Feed) {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let threads: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        for tid in threads {
            if !feed.loaded.sample(tid) {
                return;
            }
        }
    }

    /// Puts the probe into what processes have mapped, where they have mapped code since the last look.
    fn probe(&mut self, processes: Vec<u32>, feed: &mut Feed) {
        for problem in self.code.look_at_all(processes, &mut feed.kernel_side()) {
            out::say(&format!("warning: {problem}\n"));
        }
    }
}

/// Visits all tasks once, and takes in the records of those that were adopted on the way.
fn walk(feed: &mut Feed) -> Result<Walk, SessionError> {
    let mut walk = Walk::default();
    let mut visits = feed.loaded.visit()?;
    while let Some(portion) = visits.portion()? {
        for visit in portion {
            let found = Found::from_number(visit.found).ok_or(VisitError::Unknown)?;
            match found {
                Found::Missed => walk.missed += 1,
                Found::Unborn => walk.unborn += 1,
                Found::Adopted => walk.adopted.push(visit.process),
                Found::Tracked => {}
            }
            if matches!(found, Found::Tracked | Found::Adopted) {
                walk.threads += 1;
                walk.processes.insert(visit.process);
            }
        }
        feed.take_in();
    }
    walk.adopted.sort_unstable();
    walk.adopted.dedup();
    Ok(walk)
}
