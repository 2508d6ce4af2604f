//! The other side of a wait: the processes that had the CPU, the thread that ended the wait or held the lock,
//! the device, the group.

use guestscope_contract::{Account, metrics::WaitsFor};

use crate::phase::{Blame, InFlight, Stopper, Wait, WaitedIo, waits_for_address_space};
use crate::untrusted::Untrusted;

/// A part of a wait for a CPU below its length divided by this is not worth a name: the switch itself.
const WORTH_A_NAME: u64 = 20;

/// The thread, device or group on the other side of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// A process that used the CPU meanwhile; where the kernel side keeps no turns, the last one that did.
    Ran {
        /// Thread name.
        comm: Untrusted,
        /// Process ID, in the initial namespace.
        pid: u32,
    },
    /// The CPU was idle until then: the wake-up itself took that long.
    Idle,
    /// A thread that was waited for and was itself kept from running.
    Kept(Blame),
    /// The thread that ended the wait, in a system call that can do so.
    Woken {
        /// Thread ID.
        tid: u32,
    },
    /// The thread that ended a wait for the lock of an address space, in a call that holds it.
    AddressSpace {
        /// Thread ID.
        tid: u32,
    },
    /// The wait for a lock timed out, and this thread ended a later wait of the same thread for the same
    /// lock.
    Held {
        /// Thread ID.
        tid: u32,
    },
    /// The wait timed out, and samples met this other thread of the process on a CPU meanwhile.
    Beside {
        /// Thread ID.
        tid: u32,
    },
    /// Another thread of the process, to which this one had given the work that it waited for.
    Given {
        /// ID of that thread.
        to: u32,
        /// What delayed it for most of the wait, or the thread that it waited for.
        blame: Option<Blame>,
    },
    /// Somebody kept the thread from running.
    Stopped {
        /// By what.
        by: Stopper,
        /// ID of the thread that let it go on; none where that is unknown, or several did.
        tid: Option<u32>,
    },
    /// The time limit of its system call ended the wait.
    TimedOut,
    /// A block device.
    Device {
        /// Device name in the guest.
        name: Untrusted,
        /// Whether it was a write; otherwise a read.
        is_write: bool,
        /// Whether a limit of the thread's control group had held it back.
        is_held: bool,
    },
    /// Reads and writes of a block device that the thread had asked for through io_uring.
    InFlight {
        /// Device name in the guest.
        name: Untrusted,
        /// How many were under way, in the wait with the most of them.
        most: InFlight,
    },
    /// A phase of another request that had the thread on which the suspended phase continued.
    Phase {
        /// Its name; none for code outside of phases.
        name: Option<Untrusted>,
        /// The number that the program gave to its request; none for several requests.
        request: Option<u64>,
    },
    /// A CPU quota: that of the thread's control group, or of one above it.
    Group {
        /// The path of the thread's group as the guest names it.
        path: Untrusted,
    },
    /// Only the system call of the wait is known.
    Syscall(u32),
    /// Nothing is known but the account.
    Unknown,
    /// All culprits beyond the limit.
    Others,
}

/// A culprit, and its part of a wait, ns.
pub(super) type Guilt = (Culprit, u64);

impl Culprit {
    /// The culprits of the part of a wait that belongs to an account and has this length, ns; the largest
    /// first. Their parts add up to it.
    pub(super) fn of(wait: &Wait, account: Account, ns: u64) -> Vec<Guilt> {
        if account.waits_for() == WaitsFor::Cpu && account != Account::Throttled {
            return users(wait, ns);
        }
        vec![(Self::one_of(wait, account), ns)]
    }

    fn one_of(wait: &Wait, account: Account) -> Self {
        if account == Account::Throttled {
            return wait.cgroup.clone().map_or(Culprit::Unknown, |path| Culprit::Group { path });
        }
        if let Some(by) = wait.stopped_by {
            return Culprit::Stopped { by, tid: wait.waker_tid };
        }
        match &wait.io {
            Some(WaitedIo { name, is_write, is_held, in_flight: None, .. }) => {
                return Culprit::Device { name: name.clone(), is_write: *is_write, is_held: *is_held };
            }
            Some(WaitedIo { name, in_flight: Some(most), .. }) if wait.blame.is_none() => {
                return Culprit::InFlight { name: name.clone(), most: *most };
            }
            Some(_) | None => {}
        }
        if let Some(tid) = wait.waker_tid.filter(|_| waits_for_address_space(wait)) {
            return Culprit::AddressSpace { tid };
        }
        match (wait.blame, wait.waker_tid) {
            (Some(blame), _) => Culprit::Kept(Blame { ns: 0, ..blame }),
            (None, Some(tid)) => Culprit::Woken { tid },
            (None, None) if wait.timed_out() => {
                wait.beside_tid.map_or(Culprit::TimedOut, |tid| Culprit::Beside { tid })
            }
            (None, None) => wait.syscall.map_or(Culprit::Unknown, Culprit::Syscall),
        }
    }

    /// Takes up another wait's culprit, if it is the same one.
    pub(super) fn takes(&mut self, other: &Culprit) -> bool {
        if let (Culprit::InFlight { name, most }, Culprit::InFlight { name: of, most: more }) =
            (&mut *self, other)
            && name == of
        {
            most.reads = most.reads.max(more.reads);
            most.writes = most.writes.max(more.writes);
            return true;
        }
        if let (Culprit::Stopped { by, tid }, Culprit::Stopped { by: of, tid: another }) = (&mut *self, other)
            && by == of
        {
            *tid = tid.filter(|tid| Some(*tid) == *another);
            return true;
        }
        if let (Culprit::Ran { pid, .. }, Culprit::Ran { pid: of, .. }) = (&*self, other) {
            // Threads of one process have names of their own.
            return pid == of;
        }
        if let (Culprit::Phase { name, request }, Culprit::Phase { name: of, request: another }) =
            (&mut *self, other)
            && name == of
        {
            *request = request.filter(|request| Some(*request) == *another);
            return true;
        }
        self == other
    }

    /// The numbers of threads known by that alone.
    pub(super) fn tids(&self) -> impl Iterator<Item = u32> + use<> {
        let tids = match self {
            Culprit::Kept(blame) => [Some(blame.tid), None],
            Culprit::Given { to, blame } => [Some(*to), blame.map(|blame| blame.tid)],
            Culprit::Woken { tid }
            | Culprit::AddressSpace { tid }
            | Culprit::Held { tid }
            | Culprit::Beside { tid } => [Some(*tid), None],
            Culprit::Stopped { tid, .. } => [*tid, None],
            Culprit::Ran { .. }
            | Culprit::Idle
            | Culprit::TimedOut
            | Culprit::Device { .. }
            | Culprit::InFlight { .. }
            | Culprit::Phase { .. }
            | Culprit::Group { .. }
            | Culprit::Syscall(_)
            | Culprit::Unknown
            | Culprit::Others => [None, None],
        };
        tids.into_iter().flatten()
    }
}

/// Who used the CPU while the thread was queued for this long, ns.
fn users(wait: &Wait, ns: u64) -> Vec<Guilt> {
    let before = || Culprit::Ran { comm: wait.ran_before_comm.clone(), pid: wait.ran_before_tgid };
    if wait.users.total_ns() == 0 {
        return vec![(if wait.ran_before_tid == 0 { Culprit::Idle } else { before() }, ns)];
    }
    let mut left_ns = ns;
    let mut guilty: Vec<Guilt> = Vec::new();
    for user in &wait.users.listed {
        let used_ns = user.ns.min(left_ns);
        left_ns -= used_ns;
        guilty.push((Culprit::Ran { comm: user.comm.clone(), pid: user.pid }, used_ns));
    }
    let others_ns = wait.users.others_ns.min(left_ns);
    left_ns -= others_ns;
    if others_ns > 0 {
        guilty.push((Culprit::Others, others_ns));
    }
    match guilty.first_mut() {
        Some((_, used_ns)) if left_ns < ns / WORTH_A_NAME => *used_ns += left_ns,
        _ if wait.ran_before_tid == 0 => guilty.push((Culprit::Idle, left_ns)),
        _ => guilty.push((Culprit::Unknown, left_ns)),
    }
    guilty.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    guilty
}
