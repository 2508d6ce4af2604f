//! Whose a process is that had the CPU while a request was queued for it: four groups, and different
//! advice for each.

use std::collections::HashSet;

/// Processes that are known to be observed.
const MOST: usize = 65_536;

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

    /// The name in JSON, and that of its advice behind `runq.`.
    pub const fn name(self) -> &'static str {
        match self {
            Whose::Own => "own",
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

/// The processes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circle {
    observed: HashSet<u32>,
    /// Process ID of the agent, in the initial namespace, where it is known.
    pub agent_pid: Option<u32>,
}

impl Circle {
    /// A thread of this process was observed.
    pub(crate) fn add(&mut self, pid: u32) {
        if self.observed.len() < MOST {
            self.observed.insert(pid);
        }
    }

    /// Whose the process `pid` is to a request of the process `own_pid`.
    pub fn whose(&self, pid: u32, own_pid: u32) -> Whose {
        if pid == own_pid {
            Whose::Own
        } else if self.agent_pid == Some(pid) {
            Whose::Agent
        } else if self.observed.contains(&pid) {
            Whose::Sibling
        } else {
            Whose::Stranger
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_is_of_one_group() {
        let mut circle = Circle { agent_pid: Some(4), ..Circle::default() };
        circle.add(1);
        circle.add(2);
        let groups = [1, 2, 3, 4].map(|pid| circle.whose(pid, 1));
        assert_eq!(groups, [Whose::Own, Whose::Sibling, Whose::Stranger, Whose::Agent]);
    }
}
