//! Observations of a run, and the invariants of every run: sums, nesting, and no uncounted loss.
//!
//! It judges nothing of a single case.

use std::{collections::HashMap, os::unix::process::ExitStatusExt as _, process::ExitStatus};

use guestscope::{
    health::KernelLosses,
    phase::{Accounts, Mark, PairingLosses, Phase, PhaseKind, Request, Thread, Wait, pairing::Output},
};

use guestscope_contract::Account;

use crate::book::Book;

/// Everything that was seen of a run.
pub(crate) struct Seen {
    pub(crate) status: ExitStatus,
    pub(crate) book: Book,
    /// Marked requests, in the order in which they ended.
    pub(crate) requests: Vec<Request>,
    /// Processes.
    pub(crate) processes: Vec<Phase>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) kernel: KernelLosses,
    /// Runs of BPF programs that the kernel skipped, for any task.
    pub(crate) runs_left_out: u64,
    pub(crate) pairing: PairingLosses,
    pub(crate) undecodable: u64,
    pub(crate) edges_read: u64,
    /// Requests that were not handed over, on purpose.
    pub(crate) requests_unseen: u64,
    /// Slots that were not freed.
    pub(crate) slots_held: usize,
    /// Ledgers that were read during the run.
    pub(crate) ledgers_read: usize,
    /// Names of the attached hooks, such as `sched_switch`.
    pub(crate) attached: Vec<String>,
}

impl Seen {
    /// Whether the hook on this tracepoint was attached.
    pub(crate) fn has(&self, tracepoint: &str) -> bool {
        self.attached.iter().any(|attached| attached == tracepoint)
    }

    /// Sorts the outputs of pairing by kind.
    pub(crate) fn sort(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Request(mut request) if request.root().kind == PhaseKind::Process => {
                    self.processes.append(&mut request.phases);
                }
                Output::Request(request) => self.requests.push(request),
                Output::Thread(thread) => self.threads.push(*thread),
                Output::Mark(mark) => self.marks.push(mark),
                Output::Wait(wait) => self.waits.push(*wait),
                Output::Pause(_) | Output::GpuWork(_) => {
                    unreachable!("pairing knows no pauses, and was told of no work")
                }
            }
        }
    }

    /// Checks the invariants of every run: it ended well, all sums agree, and phases lie inside their
    /// parents.
    pub(crate) fn check(&self) {
        let killed_by_us = self.status.signal() == Some(libc::SIGKILL);
        assert!(self.status.success() || killed_by_us, "the program ends well: {}", self.status);
        assert_eq!(self.undecodable, 0);
        for request in &self.requests {
            assert_eq!(request.phases[0].id, request.phases[0].root);
            for phase in &request.phases {
                check_phase(phase, request);
            }
        }
        self.check_waits();
        for process in &self.processes {
            assert_eq!(process.accounts.total_ns(), process.duration_ns, "{process:?}");
        }
        for thread in &self.threads {
            assert_eq!(thread.accounts.total_ns(), thread.end_ns - thread.id.born_ns, "{thread:?}");
        }
    }

    /// Checks that the accounts of a request contain its waits.
    fn check_waits(&self) {
        let mut sums: HashMap<u64, Accounts> = HashMap::new();
        for wait in &self.waits {
            let Some(root) = wait.root else { continue };
            let sum = &mut sums.entry(root).or_default().0;
            sum[wait.account as usize] += wait.blocked_ns;
            sum[Account::Throttled as usize] += wait.throttled_ns;
            sum[Account::Runq as usize] += wait.runq_ns();
        }
        for (root, sum) in sums {
            let request = self.requests.iter().find(|request| request.root().id == root);
            let Some(request) = request else { continue };
            let whole = request.root().accounts;
            assert!(sum.0.iter().zip(whole.0).all(|(part, whole)| *part <= whole), "{sum:?} of {request:?}");
        }
    }

    /// The waits in the request of this number.
    pub(crate) fn waits_in(&self, number: u64) -> Vec<&Wait> {
        let root = self.request(number).id;
        self.waits.iter().filter(|wait| wait.root == Some(root)).collect()
    }

    /// Asserts that nothing was lost, in the kernel or in pairing.
    pub(crate) fn check_no_losses(&self) {
        // A storm of long waits may fill their ring; lost waits are counted, and nothing else depends on
        // them. In some guests the end of an I/O that interrupts certain tasks reaches no program: see
        // `KERNELS.md`. Tests about I/Os count them.
        let KernelLosses { waits, sums_torn, ends_unseen, ios, .. } = self.kernel;
        assert_eq!(
            self.kernel,
            KernelLosses { waits, sums_torn, ends_unseen, ios, ..KernelLosses::default() }
        );
        assert_eq!(self.pairing, PairingLosses::default());
        assert_eq!(self.slots_held, 0, "every slot was given back");
        assert!(self.threads.iter().all(|thread| thread.exited), "{:?}", self.threads);
    }

    /// The outermost phase that the program gave this number.
    pub(crate) fn request(&self, number: u64) -> &Phase {
        let mut found = self.requests.iter().filter(|request| request.root().request == number);
        let request = found.next().unwrap_or_else(|| panic!("request {number} was seen"));
        assert!(found.next().is_none(), "request {number} was seen once");
        request.root()
    }

    /// Phases inside the request of this number.
    pub(crate) fn inside(&self, number: u64) -> &[Phase] {
        let request = self.requests.iter().find(|request| request.root().request == number);
        &request.unwrap_or_else(|| panic!("request {number} was seen")).phases[1..]
    }
}

/// Invariant 1, and nesting: a phase inside another one is no longer than that.
fn check_phase(phase: &Phase, request: &Request) {
    if phase.kind == PhaseKind::Queue {
        assert_eq!(phase.accounts.total_ns(), 0);
        return;
    }
    let on_threads_ns = phase.accounts.total_ns();
    assert_eq!(on_threads_ns + phase.suspended_ns, phase.duration_ns, "{phase:?}");
    let Some(parent) = phase.parent else { return };
    let parent =
        request.phases.iter().find(|other| other.id == parent).expect("the parent is of the request");
    assert!(parent.start_ns <= phase.start_ns, "{phase:?} begins inside {parent:?}");
}
