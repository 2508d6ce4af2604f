//! Long waits: off-CPU intervals of a thread, with the phase that they fall into and the previous thread on
//! the CPU.
//!
//! Yields values from records. A wait explains time that its phase's accounts already contain; it adds
//! nothing.

use std::collections::{HashMap, VecDeque};

use guestscope_contract::{Account, MINOR_BITS, NO_DEVICE, NO_SYSCALL, WAIT_WRITES, WaitRecord, waker};

use super::{
    Blame, ThreadId,
    ids::wait_span_id,
    open::Place,
    pairing::{Output, Pairing},
    thread::comm,
};
use crate::untrusted::Untrusted;

/// Waits that are kept until their edges are here: as many as the ring holds.
const EARLY: usize = 16_384;

/// A thread was off the CPU for longer than the threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The `id` of the innermost phase that was on the thread when it left the CPU and is there still.
    pub phase: Option<u64>,
    /// The `id` of that phase's request.
    pub root: Option<u64>,
    /// The thread that waited.
    pub thread: ThreadId,
    /// When the thread left the CPU: CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// Until it was on a CPU again, ns.
    pub duration_ns: u64,
    /// Why it left the CPU: [`Account::Runq`] if it could have continued.
    pub account: Account,
    /// Blocked time, ns.
    pub blocked_ns: u64,
    /// Time after that without quota of its group, ns.
    pub throttled_ns: u64,
    /// The syscall that it waited in, by its number; a 32-bit one by [`guestscope_contract::CALLS_32`] more.
    pub syscall: Option<u32>,
    /// The CPU that it left.
    pub left_cpu: u32,
    /// The CPU that it got.
    pub cpu: u32,
    /// The thread that began to wake it; in an interrupt (timers, disks, packets) the interrupted thread.
    pub waker_tid: Option<u32>,
    /// The thread that got the CPU which it left; 0 is the idle task, or a new thread's first wait.
    pub replaced_by_tid: u32,
    /// The thread that had the CPU which it got, until then; 0 is the idle task.
    pub ran_before_tid: u32,
    /// Process of that thread.
    pub ran_before_tgid: u32,
    /// Name of that thread.
    pub ran_before_comm: Untrusted,
    /// The number of the thread in its own PID namespace.
    pub ns_tid: Option<u32>,
    /// The control group that ruled its CPU time when it ended, by the number of its directory.
    pub cgroup_number: Option<u64>,
    /// The same by its path as the guest names it; none while that is not known.
    pub cgroup: Option<Untrusted>,
    /// What had delayed the thread that ended this wait.
    pub blame: Option<Blame>,
    /// Its I/O on a block device when it left its CPU; none where it waited for the I/O of another thread.
    pub io: Option<WaitedIo>,
}

/// I/O on a block device that a thread waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitedIo {
    /// The device by its numbers, `MAJOR:MINOR`.
    pub device: Untrusted,
    /// Device name in the guest; its numbers again while the name is unknown.
    pub name: Untrusted,
    /// Whether it was a write; otherwise a read, or an operation that changes nothing.
    pub is_write: bool,
}

impl WaitedIo {
    /// `read` or `write`, as OpenTelemetry has it.
    pub fn direction(&self) -> &'static str {
        if self.is_write { "write" } else { "read" }
    }

    /// Only waits of these accounts are for a device.
    fn of(record: &WaitRecord, account: Account) -> Option<Self> {
        let is_for_one = matches!(account, Account::BlockIo | Account::Fault) && record.device != NO_DEVICE;
        is_for_one.then(|| {
            let (major, minor) = (record.device >> MINOR_BITS, record.device & ((1 << MINOR_BITS) - 1));
            let device = Untrusted::from(format!("{major}:{minor}"));
            Self { name: device.clone(), device, is_write: record.header.flags & WAIT_WRITES != 0 }
        })
    }
}

impl Wait {
    /// Time for which it was runnable and had no CPU, though its group had quota, ns.
    pub fn runq_ns(&self) -> u64 {
        self.duration_ns - self.blocked_ns - self.throttled_ns
    }

    /// When it was on a CPU again: CLOCK_MONOTONIC, ns.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// ID of its span in the trace, given that of its phase.
    pub fn span_id(&self, phase: [u8; 8]) -> [u8; 8] {
        wait_span_id(phase, self.start_ns)
    }

    /// The account with the largest part, and that part, ns.
    pub fn mainly(&self) -> (Account, u64) {
        let parts = [
            (Account::Runq, self.runq_ns()),
            (Account::Throttled, self.throttled_ns),
            (self.account, self.blocked_ns),
        ];
        parts.into_iter().max_by_key(|part| part.1).unwrap_or(parts[0])
    }
}

/// Waits that arrived before an edge that their thread had begun earlier: the thread lost its CPU inside the
/// BPF program that records the edge, or another thread did and blocked the ring of edges. Their phase is
/// known once that edge arrives. Waits right after the start of a request are kept as well, until the next
/// edge.
#[derive(Debug, Default)]
pub(crate) struct Early {
    of: HashMap<ThreadId, VecDeque<WaitRecord>>,
    /// Number of waits kept.
    kept: usize,
}

impl Early {
    /// Keeps a wait. False if there is no room.
    fn keep(&mut self, thread: ThreadId, record: &WaitRecord) -> bool {
        let has_room = self.kept < EARLY;
        if has_room {
            self.kept += 1;
            self.of.entry(thread).or_default().push_back(*record);
        }
        has_room
    }

    /// The first waits of a thread for which `is_due` holds.
    fn take(&mut self, thread: ThreadId, is_due: impl Fn(&WaitRecord) -> bool) -> Vec<WaitRecord> {
        // Asked at every edge, and there is hardly ever one.
        if self.of.is_empty() {
            return Vec::new();
        }
        let Some(waits) = self.of.get_mut(&thread) else { return Vec::new() };
        let due: Vec<WaitRecord> = std::iter::from_fn(|| waits.pop_front_if(|wait| is_due(wait))).collect();
        if waits.is_empty() {
            self.of.remove(&thread);
        }
        self.kept -= due.len();
        due
    }
}

impl Pairing {
    /// A thread waited for long.
    pub fn wait(&mut self, record: &WaitRecord) {
        let thread = ThreadId { tid: record.tid, tgid: record.tgid, born_ns: record.born_ns };
        let is_ahead = self.threads.get(thread).is_some_and(|state| !state.has_come_to(record.edge));
        let is_early = is_ahead || self.may_be_of_first(thread, record);
        if !is_early || !self.early.keep(thread, record) {
            self.losses.waits_unplaced += u64::from(is_early);
            self.place(thread, record);
        }
    }

    /// An edge of the thread is here.
    pub(super) fn place_behind_edge(&mut self, thread: ThreadId) {
        let threads = &self.threads;
        let has_come_to = |mark| threads.get(thread).is_some_and(|state| state.has_come_to(mark));
        for wait in self.early.take(thread, |wait| has_come_to(wait.edge)) {
            self.place(thread, &wait);
        }
    }

    /// A phase leaves the thread then, or the thread ends: its waits until then lie in what was open before.
    pub(super) fn place_early(&mut self, thread: ThreadId, before_ns: u64) {
        for wait in self.early.take(thread, |wait| wait.left_ns < before_ns) {
            self.place(thread, &wait);
        }
    }

    /// The same of the thread that an open phase is on.
    pub(super) fn place_early_in(&mut self, id: u64, before_ns: u64) {
        if let Some(Place::On(thread, _)) = self.open.get(&id).map(|open| open.place) {
            self.place_early(thread, before_ns);
        }
    }

    /// Places all kept waits: no further edges will come.
    pub(super) fn place_all_early(&mut self) {
        let mut threads: Vec<ThreadId> = self.early.of.keys().copied().collect();
        threads.sort_unstable();
        for thread in threads {
            self.place_early(thread, u64::MAX);
        }
    }

    fn place(&mut self, thread: ThreadId, record: &WaitRecord) {
        let within = self.innermost_at(thread, record.left_ns);
        let (phase, root) = within.map_or((None, None), |(phase, root)| (Some(phase), Some(root)));
        // A damaged record's times are cut to the wait, so that its parts never exceed it.
        let duration_ns = record.header.time_ns.saturating_sub(record.left_ns);
        let blocked_ns = record.ready_ns.saturating_sub(record.left_ns).min(duration_ns);
        let throttled_ns = record.throttled_ns.min(duration_ns - blocked_ns);
        let account = Account::ALL.get(usize::from(record.account)).copied().unwrap_or(Account::Other);
        let mut wait = Wait {
            phase,
            root,
            thread,
            start_ns: record.left_ns,
            duration_ns,
            account,
            blocked_ns,
            throttled_ns,
            syscall: (record.syscall != NO_SYSCALL).then(|| u32::from(record.syscall)),
            left_cpu: u32::from(record.left_cpu),
            cpu: u32::from(record.cpu),
            waker_tid: Some(waker::tid(record.waker)).filter(|tid| *tid != 0),
            replaced_by_tid: record.replaced_by_tid,
            ran_before_tid: record.ran_before_tid,
            ran_before_tgid: record.ran_before_tgid,
            ran_before_comm: comm(&record.ran_before_comm),
            ns_tid: (record.ns_tid != 0).then_some(record.ns_tid),
            cgroup_number: (record.group != 0).then_some(record.group),
            cgroup: None,
            blame: None,
            io: WaitedIo::of(record, account),
        };
        wait.blame = self.pasts.add(&wait, waker::syscall(record.waker));
        if self.helpers.is_busy(thread.tgid) {
            self.waits.add(&wait);
        }
        self.outputs.push(Output::Wait(wait));
    }

    /// The innermost phase that was open on the thread at that time, and its request. A wait that arrives
    /// late, because a writer on another CPU blocked its ring, may find only later phases: it belongs to none
    /// of them.
    fn innermost_at(&self, thread: ThreadId, time_ns: u64) -> Option<(u64, u64)> {
        let mut phases = self.threads.get(thread)?.stack.downward();
        phases.find(|phase| phase.begin_ns <= time_ns).map(|phase| (phase.id, phase.root))
    }
}
