//! Whose a process is that had the CPU while a request was queued for it: four groups, and different
//! advice for each.

use std::collections::{HashMap, HashSet};

use crate::{
    analyze::called::Called,
    phase::{Metric, Thread},
};

use super::counts::SAMPLES;

/// Most processes, and most threads, that are known to be observed.
const MOST: usize = 65_536;

/// Fewer samples do not support a share.
const ENOUGH_SAMPLES: u64 = 20;

/// A process, seen from a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Whose {
    /// The request's own process: another of its threads.
    Own,
    /// Another observed process of the same run.
    Sibling,
    /// guestscope itself.
    Agent,
    /// Any other one.
    Stranger,
}

impl Whose {
    /// All of them.
    pub const ALL: [Whose; 4] = [Whose::Own, Whose::Sibling, Whose::Agent, Whose::Stranger];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Whose::Own => "own_thread",
            Whose::Sibling => "sibling",
            Whose::Agent => "agent",
            Whose::Stranger => "stranger",
        }
    }

    /// The key of the advice on a wait for a CPU that such a process had.
    pub(super) const fn advice(self) -> &'static str {
        match self {
            Whose::Own => "runq.own",
            Whose::Sibling => "runq.sibling",
            Whose::Agent => "runq.agent",
            Whose::Stranger => "runq",
        }
    }
}

/// Samples of a process's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sampled {
    /// Those of busy-waiting in threads without phases.
    spin: u64,
    /// All in threads without phases.
    without_phases: u64,
    /// All in any thread.
    all: u64,
}

/// The processes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circle {
    observed: HashMap<u32, Sampled>,
    /// Thread IDs that observed threads had.
    tids: HashSet<u32>,
    /// Process ID of the agent, in the initial namespace, where it is known.
    pub agent_pid: Option<u32>,
    /// Samples of busy-waiting in the whole run by library, as [`spinners`](crate::analyze::spinners) names
    /// them; empty where that is not known.
    pub spun: Vec<(&'static str, u64)>,
    /// Samples in system calls in the whole run, by call; empty where that is not known.
    pub called: Called,
}

impl Circle {
    /// A thread that was observed.
    pub(crate) fn add(&mut self, thread: &Thread) {
        let pid = thread.id.tgid;
        if self.tids.len() < MOST {
            self.tids.insert(thread.id.tid);
        }
        if self.observed.len() >= MOST && !self.observed.contains_key(&pid) {
            return;
        }
        let sampled = self.observed.entry(pid).or_default();
        let of = |metric: Metric| thread.counts.get(metric);
        let all = SAMPLES.into_iter().map(of).fold(0, u64::saturating_add);
        sampled.all = sampled.all.saturating_add(all);
        if thread.phases == 0 {
            sampled.spin = sampled.spin.saturating_add(of(Metric::SampleSpin));
            sampled.without_phases = sampled.without_phases.saturating_add(all);
        }
    }

    /// The part of their samples in which threads without phases busy-waited, those of a process; none where
    /// there are too few samples.
    pub fn spinning(&self, pid: u32) -> Option<f64> {
        let Sampled { spin, without_phases, .. } = *self.observed.get(&pid)?;
        (without_phases >= ENOUGH_SAMPLES).then(|| spin as f64 / without_phases as f64)
    }

    /// The part of all samples of a process in which threads without phases busy-waited; none as above.
    pub(super) fn wasted(&self, pid: u32) -> Option<f64> {
        let Sampled { spin, all, .. } = *self.observed.get(&pid)?;
        (all >= ENOUGH_SAMPLES).then(|| spin as f64 / all as f64)
    }

    /// Whether a thread with this ID may have been observed: true where no threads are known, or too many.
    pub(super) fn has(&self, tid: u32) -> bool {
        self.tids.is_empty() || self.tids.len() >= MOST || self.tids.contains(&tid)
    }

    /// Whose the process `pid` is to a request of the process `own_pid`.
    pub fn whose(&self, pid: u32, own_pid: u32) -> Whose {
        if pid == own_pid {
            Whose::Own
        } else if self.agent_pid == Some(pid) {
            Whose::Agent
        } else if self.observed.contains_key(&pid) {
            Whose::Sibling
        } else {
            Whose::Stranger
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::analyze::samples::thread;

    #[test]
    fn each_process_is_of_one_group() {
        let mut circle = Circle { agent_pid: Some(4), ..Circle::default() };
        circle.add(&thread(1, 1, "python", &[]));
        circle.add(&thread(2, 2, "python", &[]));
        let groups = [1, 2, 3, 4].map(|pid| circle.whose(pid, 1));
        assert_eq!(groups, [Whose::Own, Whose::Sibling, Whose::Stranger, Whose::Agent]);
    }

    #[test]
    fn a_pool_spins_by_the_samples_of_its_threads_alone() {
        let mut circle = Circle::default();
        let sampled = |pid, phases, user, spin| {
            let mut one = Thread { phases, ..thread(pid, pid, "python", &[]) };
            (one.counts.sample_user, one.counts.sample_spin) = (user, spin);
            one
        };
        // The thread with phases computes, and that of another process spins.
        let threads =
            [sampled(1, 9, 900, 0), sampled(1, 0, 10, 40), sampled(1, 0, 0, 50), sampled(2, 0, 0, 70)];
        for thread in &threads {
            circle.add(thread);
        }
        circle.add(&sampled(3, 0, 0, 19));
        assert_eq!([1, 2, 3, 4].map(|pid| circle.spinning(pid)), [Some(0.9), Some(1.0), None, None]);
        assert_eq!([1, 2, 3, 4].map(|pid| circle.wasted(pid)), [Some(0.09), Some(1.0), None, None]);
    }
}
