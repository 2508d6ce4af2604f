//! Admission to the agent: the program under observation and its descendants, whatever user they have changed
//! to.
//!
//! The BPF programs know the processes that they track; others must have the program among their ancestors.
//! All other processes are refused, other programs of the same user too. Only what the kernel reports is
//! used: a check costs a lookup in a map, or a bounded number of files in /proc.

use std::collections::HashMap;

use crate::{loader::Tracked, tasks::Stat};

/// Most generations climbed.
const GENERATIONS: usize = 64;
/// The process that adopts orphans, in a session that has its own.
const MANAGER: &[u8] = b"systemd";

/// Kind of peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// The program or a descendant.
    Observed,
    /// It has ended already, and belonged to the program's user.
    Gone,
    Stranger,
}

/// An answer and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) peer: Peer,
    /// Cost in map lookups, about a microsecond each with what is around it.
    pub(super) cost: u32,
}

/// Cost of a walk through the ancestors, in the same unit.
const WALK: u32 = 16;
/// Most strangers kept.
const MOST_STRANGERS: usize = 8192;

pub(super) struct Welcome {
    /// The user as which the program was started.
    uid: u32,
    /// The program; none before it is started.
    program: Option<Program>,
    tracked: Option<Tracked>,
    /// Strangers, and the tick in which each was looked at: one that comes again and again costs little, and
    /// is still known when it has ended.
    strangers: HashMap<i32, u64>,
    tick: u64,
}

#[derive(Clone, Copy)]
struct Program {
    pid: i32,
    /// Start time, in the kernel's ticks since boot; none if it has ended already.
    born: Option<u64>,
}

impl Welcome {
    pub(super) fn new(uid: u32) -> Self {
        Self { uid, program: None, tracked: None, strangers: HashMap::new(), tick: 0 }
    }

    /// Admits what the kernel side tracks from now on.
    pub(super) fn trust(&mut self, tracked: Option<Tracked>) {
        self.tracked = tracked;
    }

    pub(super) fn expect(&mut self, pid: i32) {
        self.program = Some(Program { pid, born: stat(pid).map(|stat| stat.born) });
        self.strangers.clear();
    }

    /// Begins a new tick: a stranger's number may be another process's by now.
    pub(super) fn tick(&mut self) {
        self.tick += 1;
        if self.strangers.len() > MOST_STRANGERS {
            self.strangers.clear();
        }
    }

    /// `pid` as the kernel gave it, 0 for a process that has no number here.
    pub(super) fn is_for(&mut self, pid: i32, uid: u32) -> Answer {
        let Some(program) = self.program.filter(|_| pid > 0) else {
            return Answer { peer: Peer::Stranger, cost: 1 };
        };
        if pid == program.pid || self.is_tracked(pid) {
            return Answer { peer: Peer::Observed, cost: 1 };
        }
        let known = self.strangers.get(&pid);
        if known == Some(&self.tick) {
            return Answer { peer: Peer::Stranger, cost: 1 };
        }
        let is_known = known.is_some();
        let mut peer = self.climb(pid, uid, program);
        if peer == Peer::Gone && is_known {
            peer = Peer::Stranger;
        }
        if peer == Peer::Stranger {
            self.strangers.insert(pid, self.tick);
        }
        Answer { peer, cost: WALK }
    }

    fn is_tracked(&self, pid: i32) -> bool {
        self.tracked.as_ref().is_some_and(|tracked| tracked.has(pid.cast_unsigned()))
    }

    /// Looks for a descendant without room in the kernel side's tables, or of an agent without a kernel side.
    fn climb(&self, pid: i32, uid: u32, program: Program) -> Peer {
        let Some(mut here) = stat(pid) else {
            return if uid == self.uid { Peer::Gone } else { Peer::Stranger };
        };
        for _ in 0..GENERATIONS {
            if here.parent == program.pid || self.is_tracked(here.parent) {
                return Peer::Observed;
            }
            let number = here.parent;
            let Some(above) = Some(number).filter(|&pid| pid > 0).and_then(stat) else { break };
            let takes_in = number == 1 || above.comm == MANAGER;
            if self.tracked.is_none() && takes_in && is_left_behind(&here, program) && uid == self.uid {
                return Peer::Observed;
            }
            here = above;
        }
        Peer::Stranger
    }
}

/// Whether an orphan may be the program's: it began after the program and was adopted. Without a kernel side
/// its parent is unknown. The caller checks that it is of the same user, which could look into the program
/// anyway.
fn is_left_behind(child: &Stat, program: Program) -> bool {
    program.born.is_some_and(|born| child.born >= born)
}

fn stat(pid: i32) -> Option<Stat> {
    Stat::read(pid).ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Ended {
        fn pid(&self) -> i32 {
            self.0.id().cast_signed()
        }
    }

    fn sleeper(script: &str) -> Ended {
        Ended(Command::new("sh").args(["-c", script]).spawn().expect("there is a shell"))
    }

    fn own_uid() -> u32 {
        nix::unistd::geteuid().as_raw()
    }

    #[test]
    fn before_the_program_everybody_is_a_stranger() {
        let mut welcome = Welcome::new(own_uid());
        let own = std::process::id().cast_signed();
        assert_eq!(welcome.is_for(own, own_uid()).peer, Peer::Stranger);
    }

    #[test]
    fn the_program_and_its_descendants_are_met_and_no_other_process_of_the_same_user() {
        let (program, other) = (sleeper("sleep 60"), sleeper("sleep 60"));
        let mut welcome = Welcome::new(own_uid());
        welcome.expect(program.pid());
        assert_eq!(welcome.is_for(program.pid(), own_uid()), Answer { peer: Peer::Observed, cost: 1 });
        // Whatever user it has become.
        assert_eq!(welcome.is_for(program.pid(), 4711).peer, Peer::Observed);
        assert_eq!(welcome.is_for(other.pid(), own_uid()), Answer { peer: Peer::Stranger, cost: WALK });
        // From the cache the second time, and with a new check in the next tick.
        assert_eq!(welcome.is_for(other.pid(), own_uid()), Answer { peer: Peer::Stranger, cost: 1 });
        welcome.tick();
        assert_eq!(welcome.is_for(other.pid(), own_uid()).cost, WALK);
        // This process is no descendant, but an ancestor.
        assert_eq!(welcome.is_for(std::process::id().cast_signed(), own_uid()).peer, Peer::Stranger);
        assert_eq!(welcome.is_for(0, own_uid()).peer, Peer::Stranger, "a process without a number here");
        welcome.expect(std::process::id().cast_signed());
        assert_eq!(welcome.is_for(other.pid(), own_uid()).peer, Peer::Observed);
    }

    #[test]
    fn one_that_was_a_stranger_is_one_after_its_end() {
        let (program, mut other) = (sleeper("sleep 60"), sleeper("sleep 60"));
        let mut welcome = Welcome::new(own_uid());
        welcome.expect(program.pid());
        assert_eq!(welcome.is_for(other.pid(), own_uid()).peer, Peer::Stranger);
        other.0.kill().and_then(|()| other.0.wait()).expect("it is ours");
        welcome.tick();
        assert_eq!(welcome.is_for(other.pid(), own_uid()).peer, Peer::Stranger);
    }

    #[test]
    fn one_that_has_ended_is_told_by_its_user() {
        let mut welcome = Welcome::new(own_uid());
        welcome.expect(std::process::id().cast_signed());
        let mut gone = sleeper("exit 0");
        gone.0.wait().expect("it is ours");
        assert_eq!(welcome.is_for(gone.pid(), own_uid()).peer, Peer::Gone);
        welcome.tick();
        assert_eq!(welcome.is_for(gone.pid(), own_uid() + 1).peer, Peer::Stranger);
    }
}
