//! A model of well-formed programs on several threads: it adds up forward, at every step, what the pairing
//! must find by subtraction.
//!
//! While time passes every thread spends it on one account, and so does every phase on that thread; a phase
//! on none is suspended. It yields the records that the kernel side would send, and each phase as it must
//! come out. It never ends a phase before those inside it: that is well-formed.

use guestscope_contract::{
    ACCOUNTS, Account, Beside, COMM_BYTES, EdgeRecord, Header, Kind, NAME_BYTES, Operation, THREAD_INSIDE,
    THREAD_OUTSIDE, TOKEN_CHILD_BITS, TaskRecord,
    helpers::HelperSum,
    ledger::{Ledger, RUNNING},
};

use crate::{
    phase::{Ending, PhaseKind, ThreadId},
    record::Record,
};

/// What a program does next on a thread; what is impossible there is left out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Begin,
    /// A phase that begins where the innermost one ends.
    Next,
    /// The first phase of the innermost request, which begins with it.
    First,
    /// Scheduled this many ns before now, if not 0.
    Request(u64),
    End,
    /// The same by token 0.
    EndInnermost,
    /// The innermost one, and the one around it.
    EndBoth,
    Leave,
    /// The suspended phase of the process at this place, modulo their number.
    Enter(usize),
    Mark,
}

/// Time passes, then one thread acts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) passed_ns: u64,
    /// What each thread spends it on.
    pub(super) spent_on: [usize; THREADS],
    pub(super) thread: usize,
    pub(super) act: Act,
}

/// Two processes of two threads.
pub(super) const THREADS: usize = 4;

struct ModelThread {
    ledger: Ledger,
    stack: Vec<usize>,
    /// Its time inside phases, by account.
    inside: [u64; ACCOUNTS],
    edges: u32,
}

/// A phase, as it must come out.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) kind: PhaseKind,
    pub(super) parent: Option<usize>,
    pub(super) root: usize,
    pub(super) thread: ThreadId,
    pub(super) start_ns: u64,
    pub(super) queue_ns: u64,
    pub(super) accounts: [u64; ACCOUNTS],
    pub(super) suspended_ns: u64,
    pub(super) ending: Option<Ending>,
    pub(super) token: u64,
    process: usize,
    children: u64,
    open_children: usize,
    was_left: bool,
}

/// How a phase begins.
#[derive(Clone, Copy)]
enum How {
    Alone,
    /// Scheduled so many ns ago.
    Request(u64),
    /// Where the phase of this token has ended.
    Behind(u64),
    /// With the innermost one.
    First,
}

pub(super) struct Model {
    pub(super) now_ns: u64,
    threads: Vec<ModelThread>,
    pub(super) phases: Vec<Expected>,
    suspended: Vec<usize>,
    pub(super) marks: usize,
    /// Edges and births to feed, in order.
    pub(super) records: Vec<Record>,
}

impl Model {
    pub(super) fn new() -> Self {
        let mut model = Self {
            now_ns: 1_000,
            threads: Vec::new(),
            phases: Vec::new(),
            suspended: Vec::new(),
            marks: 0,
            records: Vec::new(),
        };
        for thread in 0..THREADS as u32 {
            let process = 10 * (1 + thread / 2);
            let mut ledger = Ledger { tgid: process, tid: process + thread % 2, ..Ledger::EMPTY };
            ledger.begin(model.now_ns, RUNNING, 0);
            model.threads.push(ModelThread { ledger, stack: Vec::new(), inside: [0; ACCOUNTS], edges: 0 });
            model.task(Kind::Fork, thread as usize);
        }
        model
    }

    /// What each thread spent inside phases, by its number.
    pub(super) fn inside(&self) -> impl Iterator<Item = (u32, [u64; ACCOUNTS])> {
        self.threads.iter().map(|thread| (thread.ledger.tid, thread.inside))
    }

    pub(super) fn ledgers(&self) -> Vec<Ledger> {
        self.threads.iter().map(|thread| thread.ledger).collect()
    }

    fn task(&mut self, kind: Kind, thread: usize) {
        let record = TaskRecord {
            header: Header { kind: kind as u32, flags: 0, time_ns: self.now_ns },
            ledger: self.threads[thread].ledger,
            other_tid: 0,
            other_tgid: 0,
            other_born_ns: 0,
            minor_faults: 0,
            major_faults: 0,
            beside: Beside::default(),
            comm: [0; COMM_BYTES],
        };
        self.records.push(Record::Task(kind, record));
    }

    fn edge(&mut self, thread: usize, operation: Operation, token: u64, mut arguments: [u64; 4]) {
        let of = &mut self.threads[thread];
        if matches!(operation, Operation::End | Operation::Leave) {
            arguments[0] = if of.stack.is_empty() { THREAD_OUTSIDE } else { THREAD_INSIDE };
        }
        of.edges += 1;
        let mut name = [0; NAME_BYTES];
        // The name is the phase's index, so that what comes out can be found here again.
        name[..8].copy_from_slice(format!("{:08}", self.phases.len().saturating_sub(1)).as_bytes());
        let record = EdgeRecord {
            header: Header { kind: Kind::Edge as u32, flags: 0, time_ns: self.now_ns },
            ledger: of.ledger,
            operation: operation as u64 | 1 << 8 | u64::from(of.edges) << 32,
            token,
            arguments,
            minor_faults: 0,
            major_faults: 0,
            left_out: 0,
            unseen_threads: 0,
            beside: Beside::default(),
            helpers: HelperSum::default(),
            name,
        };
        self.records.push(Record::Edge(record));
    }

    /// Time passes: each thread spends it, and so does each phase on it.
    fn pass(&mut self, turn: &Turn) {
        let Turn { passed_ns, spent_on, .. } = *turn;
        for (thread, account) in self.threads.iter_mut().zip(spent_on) {
            for phase in &thread.stack {
                self.phases[*phase].accounts[account] += passed_ns;
            }
            if !thread.stack.is_empty() {
                thread.inside[account] += passed_ns;
            }
            // Time on the CPU stays an open interval of the ledger until something else comes.
            if account != Account::Cpu as usize {
                let ledger = &mut thread.ledger;
                ledger.accounts[Account::Cpu as usize] += self.now_ns - ledger.since_ns;
                ledger.accounts[account] += passed_ns;
                ledger.since_ns = self.now_ns + passed_ns;
            }
        }
        for phase in &self.suspended {
            self.phases[*phase].suspended_ns += passed_ns;
        }
        self.now_ns += passed_ns;
    }

    pub(super) fn turn(&mut self, turn: &Turn) {
        self.pass(turn);
        let thread = turn.thread;
        match turn.act {
            Act::Begin => self.begin(thread, How::Alone),
            Act::Next => self.next(thread),
            Act::First => self.first(thread),
            Act::Request(before_ns) => self.begin(thread, How::Request(before_ns)),
            Act::End => self.end(thread, false),
            Act::EndInnermost => self.end(thread, true),
            Act::EndBoth => self.end_both(thread),
            Act::Leave => self.leave(thread),
            Act::Enter(place) => self.enter(thread, place),
            Act::Mark => {
                self.marks += 1;
                self.edge(thread, Operation::Mark, 0, [0x7000, 4, 0, 0]);
            }
        }
    }

    fn begin(&mut self, thread: usize, how: How) {
        let index = self.phases.len();
        let is_request = matches!(how, How::Request(_));
        let parent = if is_request { None } else { self.threads[thread].stack.last().copied() };
        let ledger = &self.threads[thread].ledger;
        let id = ThreadId { tid: ledger.tid, tgid: ledger.tgid, born_ns: ledger.born_ns };
        let root = parent.map_or(index, |parent| self.phases[parent].root);
        let token = if parent.is_some() {
            self.phases[root].children += 1;
            self.phases[root].token | self.phases[root].children
        } else {
            (index as u64 + 1) << TOKEN_CHILD_BITS
        };
        if let Some(parent) = parent {
            self.phases[parent].open_children += 1;
        }
        let queue_ns = if let How::Request(before_ns) = how { before_ns } else { 0 };
        let with = parent.filter(|_| matches!(how, How::First)).map(|parent| &self.phases[parent]);
        let (start_ns, accounts) =
            with.map_or((self.now_ns, [0; ACCOUNTS]), |parent| (parent.start_ns, parent.accounts));
        let joined = match how {
            How::Alone | How::Request(0) => 0,
            How::Request(before_ns) => self.now_ns - before_ns,
            How::Behind(token) => token,
            How::First => self.phases[root].token,
        };
        self.phases.push(Expected {
            kind: if parent.is_some() { PhaseKind::Phase } else { PhaseKind::Request },
            parent,
            root,
            thread: id,
            start_ns,
            queue_ns,
            accounts,
            suspended_ns: 0,
            ending: None,
            token,
            process: thread / 2,
            children: 0,
            open_children: 0,
            was_left: false,
        });
        self.threads[thread].stack.push(index);
        let operation = if is_request { Operation::Request } else { Operation::Begin };
        self.edge(thread, operation, token, [0x7000, 8, index as u64, joined]);
    }

    fn next(&mut self, thread: usize) {
        let Some(phase) = self.pop(thread) else { return };
        let Expected { token, parent, .. } = self.phases[phase];
        let around = self.threads[thread].stack.last().map(|around| self.phases[*around].root);
        if parent.is_some() && around == Some(self.phases[phase].root) {
            self.begin(thread, How::Behind(token));
        } else {
            // The library says both by themselves.
            self.edge(thread, Operation::End, token, [0; 4]);
            self.begin(thread, How::Alone);
        }
    }

    fn first(&mut self, thread: usize) {
        let Some(&phase) = self.threads[thread].stack.last() else { return };
        let Expected { parent, children, was_left, .. } = self.phases[phase];
        if parent.is_none() && children == 0 && !was_left {
            self.begin(thread, How::First);
        }
    }

    fn end_both(&mut self, thread: usize) {
        let Some(inner) = self.pop(thread) else { return };
        let Expected { token: inner_token, root: inner_root, .. } = self.phases[inner];
        let around = self.threads[thread].stack.last().map(|around| self.phases[*around].root);
        if around != Some(inner_root) {
            // The library says both by themselves.
            self.edge(thread, Operation::End, inner_token, [0; 4]);
            return self.end(thread, false);
        }
        match self.pop(thread) {
            Some(outer) => {
                self.edge(thread, Operation::End, self.phases[outer].token, [0, inner_token, 0, 0]);
            }
            None => self.edge(thread, Operation::End, inner_token, [0; 4]),
        }
    }

    /// The innermost phase ends, if it can.
    fn pop(&mut self, thread: usize) -> Option<usize> {
        let &phase = self.threads[thread].stack.last()?;
        if self.phases[phase].open_children > 0 {
            return None;
        }
        self.threads[thread].stack.pop();
        self.close(phase, Ending::Ended);
        Some(phase)
    }

    fn end(&mut self, thread: usize, innermost: bool) {
        let Some(phase) = self.pop(thread) else { return };
        let token = if innermost { 0 } else { self.phases[phase].token };
        self.edge(thread, Operation::End, token, [0; 4]);
    }

    fn close(&mut self, phase: usize, ending: Ending) {
        self.phases[phase].ending = Some(ending);
        if let Some(parent) = self.phases[phase].parent {
            self.phases[parent].open_children -= 1;
        }
    }

    fn leave(&mut self, thread: usize) {
        let Some(phase) = self.threads[thread].stack.pop() else { return };
        self.suspended.push(phase);
        self.phases[phase].was_left = true;
        self.edge(thread, Operation::Leave, self.phases[phase].token, [0; 4]);
    }

    fn enter(&mut self, thread: usize, place: usize) {
        let ours = |phase: &&usize| self.phases[**phase].process == thread / 2;
        let ours: Vec<usize> = self.suspended.iter().filter(ours).copied().collect();
        if ours.is_empty() {
            return;
        }
        let phase = ours[place % ours.len()];
        self.suspended.retain(|&suspended| suspended != phase);
        self.threads[thread].stack.push(phase);
        self.edge(thread, Operation::Enter, self.phases[phase].token, [0; 4]);
    }

    /// Ends what is open: all is left, then each phase is entered once more and ended, nested ones first.
    pub(super) fn finish(&mut self) {
        for thread in 0..THREADS {
            while !self.threads[thread].stack.is_empty() {
                self.leave(thread);
            }
        }
        // A child has a higher index than its parent.
        self.suspended.sort_unstable();
        while let Some(phase) = self.suspended.pop() {
            let thread = self.phases[phase].process * 2;
            self.threads[thread].stack.push(phase);
            self.edge(thread, Operation::Enter, self.phases[phase].token, [0; 4]);
            self.end(thread, false);
        }
    }

    /// Every thread exits, and what is open ends there.
    pub(super) fn exit(&mut self) {
        for thread in 0..THREADS {
            self.task(Kind::Exit, thread);
        }
        self.abandon(Ending::ThreadExited);
    }

    pub(super) fn abandon(&mut self, ending: Ending) {
        for phase in self.phases.iter_mut().filter(|phase| phase.ending.is_none()) {
            phase.ending = Some(ending);
        }
    }

    /// The roots all of whose phases have ended.
    pub(super) fn done(&self) -> std::collections::BTreeSet<usize> {
        let open: Vec<usize> =
            self.phases.iter().filter(|phase| phase.ending.is_none()).map(|phase| phase.root).collect();
        self.phases.iter().map(|phase| phase.root).filter(|root| !open.contains(root)).collect()
    }
}
