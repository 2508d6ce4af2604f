//! Run folders of known content: requests with three phases, drawn from a seed, on platforms that differ in a
//! known way.

use std::path::{Path, PathBuf};

use guestscope::{
    folder::{ClockPair, CreateOptions, Manifest, RunFolder},
    phase::{
        Accounts, Counts, Ending, GpuWork, GpuWorkKind, Helpers, Phase, PhaseKind, Request, ThreadId,
        TraceIds, Wait,
    },
};
use guestscope_contract::{Account, Source};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng as _, SeedableRng as _},
};

/// A platform and the kind of its requests.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// Scenario, in the manifest.
    pub(crate) scenario: &'static str,
    /// Name of the run, in the manifest.
    pub(crate) name: &'static str,
    /// Fidelity, in the manifest.
    pub(crate) fidelity: &'static str,
    /// Hypervisor, in the manifest.
    pub(crate) hypervisor: &'static str,
    /// Hash of the work, in the workload; none leaves it out.
    pub(crate) work_hash: Option<&'static str>,
    /// Requests of each run.
    pub(crate) requests: u64,
    /// Time of an inference on a CPU, ns.
    pub(crate) cpu_ns: u64,
    /// Time of an inference in the run queue, ns.
    pub(crate) runq_ns: u64,
    /// Time of an inference in a lock, ns.
    pub(crate) lock_ns: u64,
    /// Time of an inference asleep until a GPU was done, ns.
    pub(crate) gpu_ns: u64,
    /// What a GPU did for an inference, if that was recorded.
    pub(crate) gpu: Option<Work>,
    /// Throttled time of every tenth request, ns.
    pub(crate) throttled_ns: u64,
    /// Whether requests in the first third of a run take half as long again.
    pub(crate) warms_up: bool,
    /// Number of long waits in each request; they are in none of its accounts.
    pub(crate) waits: u64,
    /// Whether the end of the program was seen.
    pub(crate) ends: bool,
    /// Puts limits into the manifest.
    pub(crate) limits: fn(&mut Manifest),
}

/// Work of a GPU for each inference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Time of each of five kernels, ns.
    pub(crate) kernel_ns: u64,
    /// Time of a copy of 77 MB, ns.
    pub(crate) copy_ns: u64,
    /// Requests in the window: the first ones.
    pub(crate) windowed: u64,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            scenario: "VM/2/VNL/CPU",
            name: "ic",
            fidelity: "full",
            hypervisor: "",
            work_hash: Some("56c53051a40df547"),
            requests: 120,
            cpu_ns: 20_000_000,
            runq_ns: 0,
            lock_ns: 0,
            gpu_ns: 0,
            gpu: None,
            throttled_ns: 0,
            warms_up: false,
            waits: 0,
            ends: true,
            limits: |_| (),
        }
    }
}

/// Start of a run, and from one request's start to the next, ns.
const BEGIN_NS: u64 = 5_000_000_000;
const APART_NS: u64 = 100_000_000;
/// The constant that SplitMix64 adds to its state for each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number `number` of the seed's sequence, from 0 to 1.
fn drawn(seed: u64, number: u64) -> f64 {
    let state = seed.wrapping_mul(0x632b_e59b_d9b4_e019).wrapping_add(number.wrapping_mul(STEP));
    SplitMix64::seed_from_u64(state.wrapping_sub(STEP)).next_u64() as f64 / u64::MAX as f64
}

impl Made {
    /// Makes a run folder below `parent`. `turn` decides its start time and its random numbers.
    pub(crate) fn write(&self, parent: &Path, turn: u64) -> PathBuf {
        let start =
            ClockPair { monotonic_ns: BEGIN_NS, wall_ns: 1_795_249_821_000_000_000 + turn * 60_000_000_000 };
        let mut manifest = Manifest::new([turn as u8; 16], self.name, start);
        (self.limits)(&mut manifest);
        self.scenario.clone_into(&mut manifest.scenario);
        self.fidelity.clone_into(&mut manifest.fidelity);
        self.hypervisor.clone_into(&mut manifest.hypervisor);
        manifest.command = vec!["serve".to_owned(), "--seed".to_owned(), "1".to_owned()];
        manifest.workload = self.work_hash.map(|hash| {
            let word = |text: &str| serde_json::Value::String(text.to_owned());
            let entries = [("name", self.name), ("work_hash", hash), ("output_hash", "aa40fe1bc9892815")];
            entries.map(|(key, text)| (key.to_owned(), word(text))).into_iter().collect()
        });
        let options = CreateOptions { parent: parent.to_owned(), owner: None };
        let mut folder = RunFolder::create(&options, manifest).expect("a folder can be made");
        // Runs differ by 1 %, requests by 5 %.
        let level = 0.99 + 0.02 * drawn(7, turn);
        for number in 0..self.requests {
            let cold = if self.warms_up && number < self.requests / 3 { 1.5 } else { 1.0 };
            let jitter = cold * level * (0.95 + 0.1 * drawn(turn + 1, number));
            let request = self.request(number, jitter);
            folder.append_request(&request);
            for wait in self.waits_of(&request) {
                folder.append_wait(&wait);
            }
            for work in self.gpu.iter().flat_map(|work| work.of(&request, jitter)) {
                folder.append_gpu_work(&work);
            }
            if number % 1_000 == 999 {
                folder.flush();
            }
        }
        if let Some(work) = self.gpu {
            folder.append_gpu_work(&work.window());
        }
        // Each process is a phase as well, whether it marked requests or not.
        let mut process = phase(u64::MAX, None, "serve", 4_900_000_000, &[(Account::Cpu, 90_000_000)]);
        process.kind = PhaseKind::Process;
        if self.ends {
            folder.append_request(&Request { phases: vec![process] });
        }
        let closed = folder.close(|_| {}, &mut |_| (None, None), &mut |_, _| {}).expect("it can be closed");
        assert!(closed.errors.is_empty(), "{:?}", closed.errors);
        closed.path
    }

    /// Waits inside a request's inference, one after the other, each half as long as the time to the next:
    /// for the run queue, a lock and a disk in turn, of the thread itself and of a helper.
    fn waits_of(&self, request: &Request) -> Vec<Wait> {
        const ACCOUNTS: [Account; 3] = [Account::Runq, Account::Lock, Account::BlockIo];
        let inference = &request.phases[2];
        let step_ns = inference.duration_ns / self.waits.max(1);
        let wait = |index: u64| {
            let (account, is_helper) = (ACCOUNTS[index as usize % 3], index % 4 == 3);
            let (duration_ns, is_runq) = (step_ns / 2, account == Account::Runq);
            Wait {
                phase: (!is_helper).then_some(inference.id),
                root: Some(inference.root),
                thread: ThreadId { tid: 11 + u32::from(is_helper), tgid: 10, born_ns: 1 },
                start_ns: inference.start_ns + index * step_ns,
                duration_ns,
                account,
                blocked_ns: if is_runq { 0 } else { duration_ns },
                throttled_ns: 0,
                syscall: None,
                left_cpu: 0,
                cpu: u32::from(index.is_multiple_of(5)),
                waker_tid: (!is_runq).then_some(10),
                replaced_by_tid: 0,
                ran_before_tid: if is_runq { 77 } else { 0 },
                ran_before_tgid: if is_runq { 77 } else { 0 },
                ran_before_comm: if is_runq { "neighbour" } else { "" }.into(),
                ..Wait::default()
            }
        };
        (0..self.waits).map(wait).collect()
    }

    fn request(&self, number: u64, jitter: f64) -> Request {
        let id = number * 4 + 1;
        let scaled = |ns: u64| (ns as f64 * jitter) as u64;
        let throttled_ns = if number % 10 == 3 { self.throttled_ns } else { 0 };
        let inference = [
            (Account::Cpu, scaled(self.cpu_ns)),
            (Account::Runq, scaled(self.runq_ns)),
            (Account::Lock, scaled(self.lock_ns)),
            (Account::Gpu, scaled(self.gpu_ns)),
            (Account::Throttled, throttled_ns),
        ];
        let begin_ns = BEGIN_NS + number * APART_NS;
        let mut phases = vec![phase(id, None, "request", begin_ns, &[])];
        let mut at_ns = begin_ns;
        let parts: [(&str, &[(Account, u64)]); 3] = [
            ("preprocess", &[(Account::Cpu, scaled(1_500_000)), (Account::BlockIo, 100_000)]),
            ("inference", &inference),
            ("postprocess", &[(Account::Cpu, 90_000)]),
        ];
        for (index, (name, parts)) in parts.into_iter().enumerate() {
            let mut one = phase(id + 1 + index as u64, Some(id), name, at_ns, parts);
            one.root = id;
            one.counts.throttle =
                u64::from(parts.iter().any(|&(account, ns)| account == Account::Throttled && ns > 0));
            one.counts.switch_involuntary = 2;
            at_ns += one.duration_ns;
            phases[0].accounts.add(&one.accounts);
            phases[0].counts.add(&one.counts);
            phases[0].duration_ns += one.duration_ns;
            phases.push(one);
        }
        phases[0].request = number;
        Request { phases }
    }
}

impl Work {
    /// Work of one request: a copy, then the kernels, one after the other.
    fn of(self, request: &Request, jitter: f64) -> Vec<GpuWork> {
        let inference = &request.phases[2];
        let copy = (GpuWorkKind::Copy, "host to device", 77_000_000, self.copy_ns);
        let kernels = (0..5).map(|_| (GpuWorkKind::Kernel, "gemm", 0, self.kernel_ns));
        let mut at_ns = inference.start_ns;
        let piece = |(kind, name, bytes, ns): (GpuWorkKind, &str, u64, u64)| {
            let start_ns = at_ns;
            at_ns += (ns as f64 * jitter) as u64;
            GpuWork {
                kind,
                name: name.into(),
                process: inference.thread.tgid,
                thread: inference.thread.tid,
                start_ns,
                end_ns: at_ns,
                phase: Some(inference.id),
                root: Some(inference.root),
                bytes,
                ..GpuWork::default()
            }
        };
        std::iter::once(copy).chain(kernels).map(piece).collect()
    }

    fn window(self) -> GpuWork {
        let (start_ns, end_ns) = (BEGIN_NS, BEGIN_NS + self.windowed * APART_NS);
        GpuWork { kind: GpuWorkKind::Window, process: 10, start_ns, end_ns, ..GpuWork::default() }
    }
}

fn phase(id: u64, parent: Option<u64>, name: &str, start_ns: u64, parts: &[(Account, u64)]) -> Phase {
    let mut accounts = Accounts::default();
    for &(account, ns) in parts {
        accounts.0[account as usize] += ns;
    }
    Phase {
        id,
        parent,
        root: id,
        kind: if parent.is_none() { PhaseKind::Request } else { PhaseKind::Phase },
        name: name.into(),
        name_damaged: false,
        source: Source::Marker,
        status: None,
        request: 0,
        thread: ThreadId { tid: 11, tgid: 10, born_ns: 1 },
        comm: "".into(),
        start_ns,
        duration_ns: accounts.0.iter().sum(),
        suspended_ns: 0,
        accounts,
        counts: Counts::default(),
        helpers: Helpers::default(),
        trace: TraceIds::default(),
        ending: Ending::Ended,
        edges_lost: 0,
        pause_ns: 0,
        holder: None,
    }
}
