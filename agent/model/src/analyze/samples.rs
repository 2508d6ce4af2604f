//! Requests for tests, written as a sequence of events.
//!
//! Yields [`Request`]s that fulfil all invariants of the type. Nothing is random.

use guestscope_contract::{Account, Source};

use crate::phase::{
    Accounts, Counts, Ending, Helpers, KEPT, Phase, PhaseKind, Request, Thread, ThreadId, TraceIds, Wait,
};

/// Something that happens inside a phase.
#[derive(Clone, Debug)]
pub enum Step {
    /// Time on a thread, ns.
    Spend(Account, u64),
    /// Time on no thread, ns.
    Suspend(u64),
    /// During the last given ns on a CPU a helper could not run, by its index in [`KEPT`].
    Kept(usize, u64),
    /// A nested phase.
    Nest(&'static str, Vec<Step>),
}

/// A wait in this phase, 1 ms after its start; times blocked, out of quota and in the run queue, ns.
pub fn wait(within: &Phase, account: Account, times: [u64; 3]) -> Wait {
    Wait {
        phase: Some(within.id),
        root: Some(within.root),
        thread: within.thread,
        start_ns: within.start_ns + 1_000_000,
        ..wait_outside(account, times)
    }
}

/// The same in no phase, of no thread and at no time.
pub fn wait_outside(account: Account, times: [u64; 3]) -> Wait {
    let [blocked_ns, throttled_ns, runq_ns] = times;
    Wait {
        duration_ns: blocked_ns + throttled_ns + runq_ns,
        account,
        blocked_ns,
        throttled_ns,
        cpu: 1,
        replaced_by_tid: 991,
        ran_before_tid: 992,
        ran_before_tgid: 990,
        ran_before_comm: "stress-ng".into(),
        ..Wait::default()
    }
}

/// A thread of the process with this number, all of it outside phases; the one of the same number is its main
/// thread.
pub fn thread(tid: u32, tgid: u32, comm: &str, spent: &[(Account, u64)]) -> Thread {
    let mut accounts = Accounts::default();
    for &(account, ns) in spent {
        accounts.0[account as usize] += ns;
    }
    Thread {
        id: ThreadId { tid, tgid, born_ns: u64::from(tid) },
        comm: comm.into(),
        end_ns: 1 << 40,
        accounts,
        inside: Accounts::default(),
        counts: Counts::default(),
        phases: 0,
        exited: true,
    }
}

/// A request and its place in time.
#[derive(Clone, Debug)]
pub struct Sample {
    pub name: &'static str,
    pub number: u64,
    pub start_ns: u64,
    /// Before `start_ns`.
    pub queued_ns: u64,
    pub steps: Vec<Step>,
}

impl Sample {
    pub fn new(number: u64, start_ns: u64, steps: Vec<Step>) -> Self {
        Self { name: "request", number, start_ns, queued_ns: 0, steps }
    }

    pub fn build(self) -> Request {
        let mut phases = Vec::new();
        let first_id = self.number * 1000 + 1;
        let root = self.phase(PhaseKind::Request, self.name, first_id);
        self.nest(&mut phases, root, &self.steps);
        if self.queued_ns > 0 {
            let id = first_id + phases.len() as u64;
            let mut queue = self.phase(PhaseKind::Queue, "queue", id);
            queue.parent = Some(first_id);
            queue.start_ns = self.start_ns.saturating_sub(self.queued_ns);
            queue.duration_ns = self.queued_ns;
            phases.insert(1, queue);
        }
        Request { phases }
    }

    fn phase(&self, kind: PhaseKind, name: &str, id: u64) -> Phase {
        Phase {
            id,
            parent: None,
            root: self.number * 1000 + 1,
            kind,
            name: name.into(),
            name_damaged: false,
            source: Source::Marker,
            status: None,
            request: self.number,
            thread: ThreadId { tid: 7, tgid: 7, born_ns: 1 },
            comm: "".into(),
            start_ns: self.start_ns,
            duration_ns: 0,
            suspended_ns: 0,
            accounts: Accounts::default(),
            counts: Counts::default(),
            helpers: Helpers::default(),
            trace: TraceIds { trace_id: trace_id(self.number), ..TraceIds::default() },
            ending: Ending::Ended,
            edges_lost: 0,
            pause_ns: 0,
            holder: None,
        }
    }

    /// Appends the phase and all nested ones, and returns the phase.
    fn nest(&self, phases: &mut Vec<Phase>, mut phase: Phase, steps: &[Step]) -> Phase {
        let index = phases.len();
        phases.push(phase.clone());
        for step in steps {
            match step {
                Step::Spend(account, ns) => {
                    phase.accounts.0[*account as usize] += ns;
                    phase.duration_ns += ns;
                    phase.counts.switch_voluntary += u64::from(*account != Account::Cpu);
                    phase.counts.fault_minor += 3;
                }
                Step::Suspend(ns) => {
                    phase.suspended_ns += ns;
                    phase.duration_ns += ns;
                }
                Step::Kept(kept, ns) => {
                    phase.helpers.threads = 1;
                    phase.helpers.accounts.0[KEPT[*kept] as usize] += ns;
                    phase.helpers.wait.on_cpu[*kept] += ns;
                }
                Step::Nest(name, inner) => {
                    let mut child = self.phase(PhaseKind::Phase, name, phases[0].id + phases.len() as u64);
                    child.parent = Some(phase.id);
                    child.start_ns = phase.start_ns + phase.duration_ns;
                    let child = self.nest(phases, child, inner);
                    phase.accounts.add(&child.accounts);
                    phase.counts.add(&child.counts);
                    phase.helpers.threads = phase.helpers.threads.max(child.helpers.threads);
                    phase.helpers.accounts.add(&child.helpers.accounts);
                    for (mine, theirs) in phase.helpers.wait.on_cpu.iter_mut().zip(child.helpers.wait.on_cpu)
                    {
                        *mine += theirs;
                    }
                    phase.suspended_ns += child.suspended_ns;
                    phase.duration_ns += child.duration_ns;
                }
            }
        }
        phases[index] = phase.clone();
        phase
    }
}

fn trace_id(number: u64) -> [u8; 16] {
    u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes()
}

/// A process without markers.
pub fn process(id: u64, name: &str, pid: u32, spent: &[(Account, u64)]) -> Request {
    let mut phase = Sample::new(id, 0, Vec::new()).phase(PhaseKind::Process, name, id);
    phase.thread = ThreadId { tid: pid, tgid: pid, born_ns: 1 };
    for &(account, ns) in spent {
        phase.accounts.0[account as usize] += ns;
        phase.duration_ns += ns;
    }
    Request { phases: vec![phase] }
}

/// The design's example: pre-processing, inference, post-processing, one request after the other. Every 20th
/// inference is throttled, every 7th waits in the run queue a little.
pub fn inference(requests: u64) -> Vec<Request> {
    let mut start_ns = 1_000_000_000;
    let one = |number: u64| {
        let jitter = (number * 7_919) % 997 * 1_000;
        let mut inference = vec![Step::Spend(Account::Cpu, 54_000_000 + jitter)];
        if number % 7 == 3 {
            inference.push(Step::Spend(Account::Runq, 1_310_000));
        }
        if number % 20 == 13 {
            inference.push(Step::Spend(Account::Throttled, 46_000_000 + number * 10_000));
        }
        let preprocess = vec![
            Step::Nest(
                "decode",
                vec![Step::Spend(Account::Cpu, 4_000_000), Step::Spend(Account::BlockIo, 150_000)],
            ),
            Step::Spend(Account::Cpu, 1_900_000),
        ];
        let steps = vec![
            Step::Nest("preprocess", preprocess),
            Step::Nest("inference", inference),
            Step::Nest("postprocess", vec![Step::Spend(Account::Cpu, 400_000)]),
            Step::Spend(Account::Cpu, 20_000),
        ];
        let request = Sample::new(number, start_ns, steps).build();
        start_ns += request.root().duration_ns + 1_000_000;
        request
    };
    (0..requests).map(one).collect()
}

/// The request with another name of its outermost phase.
pub fn renamed(mut request: Request, name: &str) -> Request {
    request.phases[0].name = name.into();
    request
}
