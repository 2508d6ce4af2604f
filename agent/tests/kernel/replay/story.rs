//! A thread's activity, derived from a recording alone: spans of time with one account each.
//!
//! It shares no code with the ledger, so that both do not make the same mistake.

use std::collections::HashMap;

use guestscope_contract::{ACCOUNTS, Account};

use super::recording::{Act, Event};

/// In the state field of sched_switch: the thread was preempted and stays runnable if no other bit is set.
const PREEMPTED: u64 = 0x100;

/// Longest time between a wakeup and the switch-out that it overtook.
const OVERTAKEN_NS: u64 = 1_000_000;

/// From `begin_ns` until the next span.
#[derive(Clone, Copy, Debug)]
struct Span {
    begin_ns: u64,
    account: Account,
}

/// The activity of one thread.
#[derive(Default)]
struct Life {
    spans: Vec<Span>,
    /// Current system call.
    call: Option<i64>,
    is_blocked: bool,
    /// A wakeup that found the thread on a CPU and was not followed by an enqueueing: the thread may be about
    /// to leave the CPU.
    woken_ns: Option<u64>,
    /// Times at which it ran although no switch had brought it to a CPU.
    holes_ns: Vec<u64>,
}

impl Life {
    /// Handles an event of the thread, which therefore runs.
    fn runs(&mut self, time_ns: u64) {
        if self.spans.last().is_some_and(|span| span.account != Account::Cpu) {
            self.holes_ns.push(time_ns);
            self.spans.push(Span { begin_ns: time_ns, account: Account::Cpu });
            self.is_blocked = false;
        }
    }
}

/// An interval according to the recording.
pub(super) enum Recorded {
    /// The thread's activity is unknown at the start or the end.
    Nothing,
    /// The thread ran without having been switched to.
    Holes,
    /// Its accounts, ns.
    Accounts([u64; ACCOUNTS]),
}

/// The activities of all recorded threads.
pub(super) struct Story(HashMap<u32, Life>);

/// Bit of the state: the sleep is uninterruptible.
const UNINTERRUPTIBLE: u64 = 2;

/// poll(2), which newer architectures do not have.
const POLL: i64 = if cfg!(target_arch = "x86_64") { 7 } else { libc::SYS_ppoll };

/// The account of a sleep in a system call that the tempest makes, or outside system calls.
fn waited_for(call: Option<i64>, state: u64) -> Account {
    match call {
        None if state & UNINTERRUPTIBLE != 0 => Account::Fault,
        Some(libc::SYS_futex) => Account::Lock,
        Some(libc::SYS_nanosleep | libc::SYS_clock_nanosleep | libc::SYS_wait4) => Account::Sleep,
        Some(call) if call == libc::SYS_ppoll || call == POLL => Account::Poll,
        None | Some(_) => Account::Other,
    }
}

impl Story {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut story = Self(HashMap::new());
        for Event { time_ns, act } in events {
            story.tell(*time_ns, *act);
        }
        story
    }

    fn tell(&mut self, time_ns: u64, act: Act) {
        match act {
            Act::Switch { from, state, to } => {
                let life = self.0.entry(from).or_default();
                life.runs(time_ns);
                let leaves_to_wait = state & !PREEMPTED != 0;
                let was_overtaken =
                    life.woken_ns.take().is_some_and(|woken_ns| time_ns - woken_ns <= OVERTAKEN_NS);
                life.is_blocked = leaves_to_wait && !was_overtaken;
                let account = if life.is_blocked { waited_for(life.call, state) } else { Account::Runq };
                life.spans.push(Span { begin_ns: time_ns, account });
                let life = self.0.entry(to).or_default();
                life.is_blocked = false;
                life.spans.push(Span { begin_ns: time_ns, account: Account::Cpu });
            }
            Act::Waking { thread } => {
                if !self.wake(thread, time_ns) {
                    self.0.entry(thread).or_default().woken_ns = Some(time_ns);
                }
            }
            Act::Wakeup { thread } => {
                self.wake(thread, time_ns);
                self.0.entry(thread).or_default().woken_ns = None;
            }
            Act::Enter { thread, number } => self.call(thread, time_ns, Some(number)),
            Act::Exit { thread } => self.call(thread, time_ns, None),
        }
    }

    /// Ends the thread's wait; returns whether it was in one.
    fn wake(&mut self, thread: u32, time_ns: u64) -> bool {
        let life = self.0.entry(thread).or_default();
        let was_blocked = std::mem::take(&mut life.is_blocked);
        if was_blocked {
            life.spans.push(Span { begin_ns: time_ns, account: Account::Runq });
        }
        was_blocked
    }

    fn call(&mut self, thread: u32, time_ns: u64, call: Option<i64>) {
        let life = self.0.entry(thread).or_default();
        life.runs(time_ns);
        life.call = call;
    }

    /// The accounts of an interval at both ends of which the thread ran.
    pub(super) fn told(&self, thread: u32, begin_ns: u64, end_ns: u64) -> Recorded {
        let Some(life) = self.0.get(&thread) else { return Recorded::Nothing };
        let at = |time_ns: u64| life.spans.partition_point(|span| span.begin_ns <= time_ns).checked_sub(1);
        let (Some(first), Some(last)) = (at(begin_ns), at(end_ns)) else { return Recorded::Nothing };
        let ran = |index: usize| life.spans[index].account == Account::Cpu;
        let is_whole = !life.holes_ns.iter().any(|hole| (begin_ns..=end_ns).contains(hole));
        if !(is_whole && ran(first) && ran(last)) {
            return Recorded::Holes;
        }
        let mut accounts = [0; ACCOUNTS];
        for index in first..=last {
            let span = life.spans[index];
            let until_ns = life.spans.get(index + 1).map_or(end_ns, |next| next.begin_ns.min(end_ns));
            accounts[span.account as usize] += until_ns - span.begin_ns.max(begin_ns);
        }
        Recorded::Accounts(accounts)
    }
}
