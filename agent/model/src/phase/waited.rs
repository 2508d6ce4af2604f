//! Long waits of threads, laid into the phases that they fall into. Part of [`Pairing`].

use guestscope_contract::{Account, NO_SYSCALL, QueueRecord, WAIT_LIMITED, WaitRecord, waker};

use super::{
    Counts, Wait, ender, open::Place, output::Output, pairing::Pairing, stopper::Stopper, thread::comm,
    thread_id::ThreadId,
};

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

    /// The users of the CPU during a thread's wait, which comes next.
    pub fn queue(&mut self, record: &QueueRecord) {
        self.queues.add(record);
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
        let waker_syscall = waker::syscall(record.waker);
        let may_be_theirs =
            !ender::is_in_memory(record.syscall) || self.threads.knows(waker::tid(record.waker));
        let is_ended = ender::can_end(account, waker_syscall) && may_be_theirs;
        let waker_tid = Some(waker::tid(record.waker)).filter(|tid| *tid != 0 && is_ended);
        let waker_comm = waker_tid.map(|_| comm(&record.waker_comm)).filter(|name| !name.is_empty());
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
            stopped_by: Stopper::of(record.header.flags),
            left_cpu: u32::from(record.left_cpu),
            cpu: u32::from(record.cpu),
            waker_tid,
            waker_syscall: (is_ended && waker_syscall != waker::UNSEEN).then(|| u32::from(waker_syscall)),
            argument: (record.syscall != NO_SYSCALL).then_some(record.argument),
            is_limited: record.header.flags & WAIT_LIMITED != 0,
            limit_ms: (record.limit_ms != 0).then_some(record.limit_ms),
            beside_tid: (record.beside_tid != 0).then_some(record.beside_tid),
            replaced_by_tid: record.replaced_by_tid,
            ran_before_tid: record.ran_before_tid,
            ran_before_tgid: record.ran_before_tgid,
            ran_before_comm: comm(&record.ran_before_comm),
            users: self.queues.take(thread, record.header.time_ns, duration_ns - blocked_ns - throttled_ns),
            ns_tid: (record.ns_tid != 0).then_some(record.ns_tid),
            cgroup_number: (record.group != 0).then_some(record.group),
            cgroup: None,
            waker_comm,
            blame: None,
            io: self.waited_for(thread, record, account),
        };
        let mut counts = Counts::default();
        if wait.stopped_by.is_some() {
            counts.stopped_ns = wait.blocked_ns;
        } else if ender::waits_for_address_space(&wait) {
            counts.address_space_ns = wait.blocked_ns;
        }
        if counts != Counts::default() {
            self.add_within(thread, wait.start_ns, &counts);
        }
        wait.blame = self.pasts.add(&wait);
        if self.helpers.is_busy(thread.tgid) {
            self.waits.add(&wait);
        }
        self.outputs.push(Output::Wait(Box::new(wait)));
    }

    /// The innermost phase that was open on the thread at that time, and its request. A wait that arrives
    /// late, because a writer on another CPU blocked its ring, may find only later phases: it belongs to none
    /// of them.
    fn innermost_at(&self, thread: ThreadId, time_ns: u64) -> Option<(u64, u64)> {
        let mut phases = self.threads.get(thread)?.stack.downward();
        phases.find(|phase| phase.begin_ns <= time_ns).map(|phase| (phase.id, phase.root))
    }
}
