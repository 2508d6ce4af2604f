//! The lives of tasks, as pairing sees them: births, execs, ends, and the end of observation.
//!
//! Ends what was open on a thread that is gone, and yields threads and processes. Part of [`Pairing`].

use guestscope_contract::{EXIT_REPLACED, FORK_ADOPTED, FORK_LATE, Kind, TaskRecord, ledger::Ledger};

use super::{
    Counts,
    open::{OpenPhase, OpenRequest, Place, begun},
    output::Output,
    pairing::Pairing,
    snapshot::Snapshot,
    thread::comm,
    thread_id::{ThreadId, thread_id},
    values::{Ending, PhaseKind, Thread},
};
use crate::untrusted::Untrusted;

impl Pairing {
    /// A task was born, replaced its program, or ended.
    pub fn task(&mut self, kind: Kind, record: &TaskRecord) {
        match kind {
            Kind::Fork => self.forked(record),
            Kind::Exec => self.replaced(record),
            Kind::Exit => self.exited(record),
            Kind::Rename => self.renamed(record),
            Kind::Edge | Kind::Wait | Kind::Io | Kind::Queue => {}
        }
    }

    fn forked(&mut self, record: &TaskRecord) {
        let child = thread_id(&record.ledger);
        // First of all it lives, and its process with it: its first edges may have been here before.
        let state = self.threads.meet(child, record.ledger.slot);
        state.name = comm(&record.comm);
        let is_of_another = record.other_tgid != 0 && record.other_tgid != child.tgid;
        state.forked_from = is_of_another.then_some(record.other_tgid);
        if record.header.flags & FORK_ADOPTED != 0 {
            state.faults_before = (record.minor_faults, record.major_faults);
            state.ran_before = record.header.flags & FORK_LATE != 0;
        }
        // The thread that had this number before is gone, whether or not that was seen.
        let before = self.threads.of_number(child.tid).filter(|thread| *thread != child);
        for thread in before.collect::<Vec<ThreadId>>() {
            self.vanished(thread, record.header.time_ns);
        }
        self.pasts.forget(child.tid);
        self.forget_displaced(record.header.time_ns);
    }

    /// Ends of threads are lost where they come faster than they are read: those that have lost their slots
    /// have ended.
    pub(super) fn forget_displaced(&mut self, time_ns: u64) {
        while let Some(thread) = self.threads.beyond(self.limits.threads) {
            self.vanished(thread, time_ns);
        }
    }

    /// Threads of a pool get their names after their births.
    fn renamed(&mut self, record: &TaskRecord) {
        if let Some(state) = self.threads.get_mut(thread_id(&record.ledger)) {
            state.name = comm(&record.comm);
        }
    }

    /// The name that a thread has now; empty if it is not known.
    pub(super) fn comm_of(&self, thread: ThreadId) -> Untrusted {
        self.threads.get(thread).map(|state| state.name.clone()).unwrap_or_default()
    }

    /// The phases of the process end here. Those of the thread that called exec end exactly; of the others'
    /// time nothing more is known.
    fn replaced(&mut self, record: &TaskRecord) {
        let thread = thread_id(&record.ledger);
        let before = ThreadId { tid: record.other_tid, ..thread };
        self.place_early(before, u64::MAX);
        let now = Snapshot::of_task(record);
        let is_on = |open: &OpenPhase, thread| matches!(open.place, Place::On(on, _) if on == thread);
        // Nothing stays on a number that is gone. Else what began later is the new program's.
        let is_old =
            |open: &OpenPhase| open.phase.start_ns < now.time_ns || before != thread && is_on(open, before);
        for id in self.open_in(thread.tgid, is_old) {
            let own = self.open.get(&id).is_some_and(|open| is_on(open, before));
            if own { self.close(id, &now, Ending::Exec) } else { self.abandon(id, now.time_ns, Ending::Exec) }
        }
        if before != thread {
            // The old main thread may have ended by itself; the process has not.
            self.leaders.remove(&thread.tgid);
        }
        let mut state = self.threads.remove(before).unwrap_or_default();
        if before != thread
            && let Some(main) = self.threads.remove(thread)
        {
            // All entries left there began later.
            (state.stack, state.lost) = (main.stack, main.lost);
        }
        self.note_thread(before);
        self.pasts.forget(before.tid);
        state.forget_edges();
        state.name = comm(&record.comm);
        state.slot = record.ledger.slot;
        state.forked_from = None;
        self.threads.insert(thread, state);
    }

    fn exited(&mut self, record: &TaskRecord) {
        let thread = thread_id(&record.ledger);
        let now = Snapshot::of_task(record);
        let mut name = comm(&record.comm);
        // The record of the end may have known the number alone.
        if name.is_empty() {
            name = self.threads.get(thread).map(|state| state.name.clone()).unwrap_or_default();
        }
        let now = self.end_thread(thread, &now, Ending::ThreadExited, &name);
        if record.header.flags & EXIT_REPLACED == 0 && thread.tid == thread.tgid {
            self.leaders.insert(thread.tgid, (thread, now, name));
        }
        // A process ends with its last thread.
        if !self.has_threads(thread.tgid)
            && let Some((leader, now, name)) = self.leaders.remove(&thread.tgid)
        {
            self.process(leader, &now, &name, Ending::Ended);
        }
    }

    /// A thread is gone and its end was not seen: nothing is known of its open phases since its last edge.
    fn vanished(&mut self, thread: ThreadId, time_ns: u64) {
        self.place_early(thread, u64::MAX);
        let is_alive = self.threads.of_process(thread.tgid).any(|other| other != thread);
        let open = if is_alive { self.open_at(thread) } else { self.open_in(thread.tgid, |_| true) };
        for id in open {
            self.abandon(id, time_ns, Ending::ThreadExited);
        }
        self.threads.remove(thread);
        self.note_thread(thread);
        self.pasts.ended(thread.tid, time_ns);
        if is_alive {
            return;
        }
        self.note_process_ended(thread.tgid, time_ns);
        self.forget_process(thread.tgid);
        if let Some((leader, now, name)) = self.leaders.remove(&thread.tgid) {
            self.process(leader, &now, &name, Ending::Ended);
        }
    }

    /// The process is gone.
    fn forget_process(&mut self, tgid: u32) {
        self.helpers.forget(tgid);
        self.waits.forget(tgid);
    }

    fn has_threads(&self, tgid: u32) -> bool {
        self.threads.of_process(tgid).next().is_some()
    }

    /// Ends a thread and yields its totals.
    fn end_thread(&mut self, thread: ThreadId, now: &Snapshot, ending: Ending, name: &Untrusted) -> Snapshot {
        self.place_early(thread, u64::MAX);
        for id in self.open_at(thread) {
            self.close(id, now, ending);
        }
        let state = self.threads.remove(thread).unwrap_or_default();
        self.note_thread(thread);
        self.pasts.ended(thread.tid, now.time_ns);
        if !self.has_threads(thread.tgid) {
            // The process is gone, and with it what was suspended in it.
            for id in self.open_in(thread.tgid, |_| true) {
                self.abandon(id, now.time_ns, ending);
            }
            if ending == Ending::ThreadExited {
                self.note_process_ended(thread.tgid, now.time_ns);
            }
            self.forget_process(thread.tgid);
        }
        let now = state.since_tracked(*now);
        self.note_gone(thread, state.ios);
        self.outputs.push(Output::Thread(Box::new(Thread {
            id: thread,
            comm: name.clone(),
            end_ns: now.time_ns,
            accounts: now.accounts,
            inside: state.within.spent(),
            counts: now.counts,
            phases: state.phases,
            exited: ending == Ending::ThreadExited,
        })));
        now
    }

    /// A process as a request of its own: its main thread's ledger from birth to end.
    fn process(&mut self, thread: ThreadId, now: &Snapshot, name: &Untrusted, ending: Ending) {
        let id = self.next_id();
        let mut phase = begun(id, PhaseKind::Process, name.clone(), thread, thread.born_ns);
        phase.comm = name.clone();
        phase.accounts = now.accounts;
        phase.counts = now.counts;
        phase.duration_ns = now.accounts.total_ns();
        phase.ending = ending;
        let mut request = OpenRequest::default();
        request.add(phase);
        self.outputs.push(Output::Request(request.finish(&self.ids)));
    }

    /// Observation stops: what is still open ends here. `ledgers` are those of threads that live on.
    pub fn stop(&mut self, time_ns: u64, ledgers: &[Ledger]) {
        self.place_all_early();
        let mut ledgers: Vec<&Ledger> = ledgers.iter().collect();
        ledgers.sort_by_key(|ledger| (ledger.tgid, ledger.tid));
        for ledger in ledgers {
            let thread = thread_id(ledger);
            let Some(state) = self.threads.get(thread) else { continue };
            // Faults and samples are read at edges alone: those since the last one are not known here.
            let faults = state.stack.top().and_then(|top| self.open.get(&top.id)).map(|open| open.place);
            let counts = match faults {
                Some(Place::On(_, begin)) => begin.counts,
                _ => Counts::default(),
            };
            let name = state.name.clone();
            let now = Snapshot::new(ledger, time_ns, &counts.with_ledger(ledger));
            let now = self.end_thread(thread, &now, Ending::ObservationStopped, &name);
            if thread.tid == thread.tgid {
                let name = if name.is_empty() { "(still running)".into() } else { name };
                self.process(thread, &now, &name, Ending::ObservationStopped);
            }
        }
        for id in self.all_open() {
            self.abandon(id, time_ns, Ending::ObservationStopped);
        }
        let mut leaders: Vec<_> = self.leaders.drain().map(|(_, leader)| leader).collect();
        leaders.sort_by_key(|leader| leader.0);
        for (leader, now, name) in leaders {
            self.process(leader, &now, &name, Ending::ObservationStopped);
        }
        self.threads.clear();
    }
}
