//! A program with faults of known size under the agent: the injector's log and the run folder.

use std::{collections::BTreeMap, ffi::OsString};

use guestscope::{
    analyze::Cause,
    folder::Folder,
    phase::{KEPT, Phase, PhaseKind, Wait},
};
use guestscope_contract::Account;
use serde_json::Value;

use super::table::SHARE;
use crate::{folder::only_folder, ground::Ground, running::Start};

/// Requests. Less than a tenth are hit, so all hits lie above the 90th percentile.
const REQUESTS: &str = "72";
/// Time between two readings of clocks that should show the same, ns.
const READING_NS: u64 = 30_000;
/// Ratio of the third quartile of spared requests to the fastest: above this, requests share their CPU, and
/// no finding is certainly the fault's. Wall time, which does not depend on any account.
const BUSY: f64 = 1.5;

/// What the injector measured of one fault.
pub(super) struct Injection {
    pub(super) request: u64,
    pub(super) ns: u64,
    pub(super) count: u64,
    wall_ns: u64,
    pub(super) cpu_ns: u64,
    run_delay_ns: u64,
}

/// A spared request by the program's own clocks, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Witness {
    wall: u64,
    cpu: u64,
    run_delay: u64,
}

impl Witness {
    /// Its time in an account. The CPU clock excludes stolen time where the kernel knows of it, so stolen
    /// time is the remainder.
    fn ns(self, cause: Cause) -> Option<u64> {
        match cause {
            Cause::Account(Account::Cpu) => Some(self.cpu),
            Cause::Account(Account::Runq) => Some(self.run_delay),
            Cause::Steal => Some(self.wall.saturating_sub(self.cpu + self.run_delay)),
            Cause::Account(_)
            | Cause::Suspended
            | Cause::Queue
            | Cause::Handoff
            | Cause::InDriver
            | Cause::Pause
            | Cause::AddressSpace
            | Cause::Stopped
            | Cause::Helper(_)
            | Cause::Overlay(_) => None,
        }
    }
}

/// The injector's measurement with which a fault is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Truth {
    /// The injected size.
    Injected,
    /// CPU time of the request meanwhile.
    Cpu,
    /// The remaining time, neither on a CPU nor in a run queue. Between a wakeup and the switch the kernel
    /// charges either of these two, so it agrees with the agent only on the rest (KERNELS.md).
    Asleep,
}

/// If another part of a fault's time is at least this share of the wait, it may be named first, or no cause
/// at all, since none is most of the excess.
const RIVAL: f64 = 0.5;

impl Truth {
    fn ns(self, injection: &Injection) -> u64 {
        match self {
            Truth::Injected => injection.ns,
            Truth::Cpu => injection.cpu_ns,
            Truth::Asleep => injection.wall_ns.saturating_sub(injection.cpu_ns + injection.run_delay_ns),
        }
    }

    /// Prefixes of the names of other parts that are about as large by the injector's own measurement: if
    /// each interrupt of a disk costs the CPU that asked, reading takes as much CPU time as waiting, and
    /// either name is right.
    pub(super) fn rivals(self, injection: &Injection) -> Vec<&'static str> {
        let parts = [("cpu", injection.cpu_ns), ("runq", injection.run_delay_ns)];
        let is_much = |ns: u64| ns as f64 >= self.ns(injection) as f64 * RIVAL;
        let rivals = parts.into_iter().filter(|(_, ns)| matches!(self, Truth::Asleep) && is_much(*ns));
        rivals.map(|(begin, _)| begin).collect()
    }

    /// Whether this name is right for the injected fault.
    fn allows(self, injection: &Injection, cause: Cause, named: Option<&str>) -> bool {
        let rivals = self.rivals(injection);
        named.map_or(!rivals.is_empty(), |named| {
            named == cause.name() || rivals.iter().any(|begin| named.starts_with(begin))
        })
    }

    /// The found time, corrected for what both sides define differently: time stolen from a running thread is
    /// not in the CPU clock but in `cpu`, and until a wakeup has reached another CPU the kernel counts the
    /// thread as asleep, and the agent as in the run queue.
    fn settled(self, injection: &Injection, phase: &Phase, seen_ns: u64) -> u64 {
        match self {
            Truth::Injected | Truth::Cpu => seen_ns,
            Truth::Asleep => {
                let seen_ns = seen_ns + phase.counts.wakeup_delay_ns;
                self.ns(injection).clamp(seen_ns, seen_ns + phase.counts.steal_ns)
            }
        }
    }

    fn seen_ns(phase: &Phase, cause: Cause) -> u64 {
        match cause {
            Cause::Account(account) => phase.accounts.get(account),
            Cause::Helper(account) => {
                let kept = KEPT.iter().position(|kept| *kept == account).expect("it keeps from running");
                phase.helpers.wait.on_cpu[kept] + phase.helpers.wait.waiting[kept]
            }
            Cause::Steal => phase.counts.steal_ns,
            Cause::InDriver => phase.counts.cpu_gpu_ns,
            Cause::Pause => phase.pause_ns,
            Cause::AddressSpace => phase.counts.address_space_ns,
            Cause::Stopped => phase.counts.stopped_ns,
            // The overlay's name is an estimate; the size of the account is exact.
            Cause::Overlay(_) => phase.accounts.get(Account::Cpu),
            Cause::Suspended | Cause::Queue | Cause::Handoff => 0,
        }
    }
}

/// Relative error of the seen time.
pub(super) fn error((truth, seen): (u64, u64)) -> f64 {
    (seen as f64 - truth as f64) / truth.max(1) as f64
}

/// What a run under the agent left: the requests with their causes, the log, the summary.
pub(crate) struct Run {
    requests: Vec<(Phase, Option<String>)>,
    log: Vec<(String, Injection)>,
    /// By request, if the program was asked to log spared requests.
    witnesses: BTreeMap<u64, Witness>,
    pub(super) waits: Vec<Wait>,
    pub(super) summary: Value,
}

impl Run {
    pub(super) fn of(test: &str, workloads: &OsString, words: &[&str]) -> Option<Self> {
        Some(Self::on(&Ground::new(test)?, workloads, words))
    }

    pub(crate) fn on(ground: &Ground, workloads: &OsString, words: &[&str]) -> Self {
        Self::of_start(ground, ground.run(), workloads, words)
    }

    /// A run with further options of the agent, which `start` has.
    pub(crate) fn of_start(ground: &Ground, start: Start, workloads: &OsString, words: &[&str]) -> Self {
        let log = ground.path("truth.jsonl");
        let common = ["--requests", REQUESTS, "--warmup", "2", "--work", "5ms", "--json"];
        // Without this, libgomp's threads soon sleep.
        let start = start.environment("OMP_WAIT_POLICY", "active");
        let start = start.program(workloads).words(&["stall"]).words(words).words(&common);
        let done = start.word("--log").word(&log).finish().expect(0);
        assert_eq!(done.losses(), []);
        let folder = Folder::open(only_folder(&ground.path("runs"))).expect("it is a run folder");
        let rows = folder.phases().expect("phases can be read").map(|row| row.expect("and are whole"));
        let requests = rows.filter(|row| row.phase.kind == PhaseKind::Request && !row.warmup);
        let requests = requests.map(|row| (row.phase, row.cause.map(|cause| cause.to_string())));
        let waits = folder.waits().expect("waits can be read");
        let waits = waits.map(|wait| wait.expect("and are whole")).collect();
        let mut run = Self {
            requests: requests.collect(),
            log: Vec::new(),
            witnesses: BTreeMap::new(),
            waits,
            summary: done.summary(),
        };
        for line in std::fs::read_to_string(log).expect("the log was written").lines() {
            run.read(&serde_json::from_str(line).expect("a line is JSON"));
        }
        run
    }

    fn read(&mut self, line: &Value) {
        let number = |key: &str| line[key].as_u64().unwrap_or(0);
        let kind = line["kind"].as_str().expect("a fault has a kind").to_owned();
        let [request, ns, count] = ["request", "ns", "count"].map(number);
        let [wall_ns, cpu_ns, run_delay_ns] = ["wall_ns", "cpu_ns", "run_delay_ns"].map(number);
        if kind == "spared" {
            self.witnesses.insert(request, Witness { wall: wall_ns, cpu: cpu_ns, run_delay: run_delay_ns });
        } else {
            self.log.push((kind, Injection { request, ns, count, wall_ns, cpu_ns, run_delay_ns }));
        }
    }

    /// Whether the program's own clocks confirm the named cause: in each slow request with that cause both
    /// show the same excess over the median request.
    pub(crate) fn is_confirmed(&self, named: &str) -> bool {
        let Some(cause) = Cause::all().find(|cause| cause.name() == named) else { return false };
        let median = |mut values: Vec<u64>| {
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or(0)
        };
        let of = |request: u64| self.witnesses.get(&request).and_then(|witness| witness.ns(cause));
        let seen = |phase: &Phase| {
            let steal_ns = if cause == Cause::Account(Account::Cpu) { phase.counts.steal_ns } else { 0 };
            Truth::seen_ns(phase, cause).saturating_sub(steal_ns)
        };
        let usual_ns = median(self.requests.iter().filter_map(|(phase, _)| of(phase.request)).collect());
        let usual_seen_ns = median(self.requests.iter().map(|(phase, _)| seen(phase)).collect());
        let long_ns = self.spared(|phase| phase.duration_ns) * 11 / 10;
        let slow = self.requests.iter().filter(|(phase, _)| phase.duration_ns >= long_ns);
        let agrees = slow.filter(|(_, of)| of.as_deref() == Some(named)).map(|(phase, _)| {
            let told = of(phase.request).map(|ns| ns.saturating_sub(usual_ns));
            let seen_ns = seen(phase).saturating_sub(usual_seen_ns);
            // The clocks are read some microseconds apart.
            told.is_some_and(|told| {
                error((told, seen_ns)).abs() <= SHARE || told.abs_diff(seen_ns) <= READING_NS
            })
        });
        let agrees: Vec<bool> = agrees.collect();
        !agrees.is_empty() && agrees.into_iter().all(|agrees| agrees)
    }

    /// The causes of a request's excess, the largest first; empty if it is not among the slowest.
    pub(super) fn ranked(&self, request: u64) -> Vec<&str> {
        let slowest = self.summary["groups"][0]["slowest"].as_array().map_or(&[][..], Vec::as_slice);
        let found = slowest.iter().find(|slow| slow["request"].as_u64() == Some(request));
        let parts = found.and_then(|slow| slow["parts"].as_array()).map_or(&[][..], Vec::as_slice);
        parts.iter().filter_map(|part| part["cause"].as_str()).collect()
    }

    pub(super) fn injections(&self, kind: &str) -> impl Iterator<Item = &Injection> {
        self.log.iter().filter(move |line| line.0 == kind).map(|line| &line.1)
    }

    /// The median over the requests that were spared.
    pub(super) fn spared(&self, value: impl Fn(&Phase) -> u64) -> u64 {
        let values = self.of_spared(value);
        values[values.len() / 2]
    }

    pub(super) fn is_busy(&self) -> bool {
        let walls = self.of_spared(|phase| phase.duration_ns);
        walls[walls.len() * 3 / 4] as f64 > walls[0] as f64 * BUSY
    }

    /// Values of the spared requests, sorted.
    fn of_spared(&self, value: impl Fn(&Phase) -> u64) -> Vec<u64> {
        let spared = self.requests.iter().filter(|(phase, _)| {
            let hit = |line: &(String, Injection)| line.1.request == phase.request;
            !self.log.iter().any(hit)
        });
        let mut values: Vec<u64> = spared.map(|(phase, _)| value(phase)).collect();
        values.sort_unstable();
        values
    }

    pub(super) fn request(&self, number: u64) -> &(Phase, Option<String>) {
        let found = self.requests.iter().find(|(phase, _)| phase.request == number);
        found.unwrap_or_else(|| panic!("request {number} was seen"))
    }

    pub(crate) fn headline(&self) -> String {
        self.summary["groups"][0]["headline"]["cause"].as_str().unwrap_or("none").to_owned()
    }

    /// The headline's text for people.
    pub(crate) fn headline_text(&self) -> &str {
        self.summary["groups"][0]["headline"]["text"].as_str().unwrap_or_default()
    }

    /// All faults of a kind, in order: the injection, the injected and the found size.
    pub(super) fn sizes(&self, kind: &str, cause: Cause, truth: Truth) -> Vec<(&Injection, (u64, u64))> {
        let usual_ns = self.spared(|phase| Truth::seen_ns(phase, cause));
        let of = |injection: &Injection| {
            let seen_ns = Truth::seen_ns(&self.request(injection.request).0, cause);
            self.settled(injection, truth, seen_ns.saturating_sub(usual_ns))
        };
        self.injections(kind).map(|injection| (injection, (truth.ns(injection), of(injection)))).collect()
    }

    /// The found size of a fault, to be compared with the injected one.
    pub(super) fn settled(&self, injection: &Injection, truth: Truth, seen_ns: u64) -> u64 {
        truth.settled(injection, &self.request(injection.request).0, seen_ns)
    }

    /// All faults of a kind, by relative error: injected and found size, and whether the fault was named.
    pub(super) fn compare(&self, kind: &str, cause: Cause, truth: Truth) -> Vec<((u64, u64), bool)> {
        let is_named = |injection: &Injection| {
            truth.allows(injection, cause, self.request(injection.request).1.as_deref())
        };
        let sizes = self.sizes(kind, cause, truth).into_iter();
        let mut pairs: Vec<_> = sizes.map(|(injection, pair)| (pair, is_named(injection))).collect();
        pairs.sort_by(|(a, _), (b, _)| error(*a).abs().total_cmp(&error(*b).abs()));
        pairs
    }

    /// Whether most faults of a kind have another part that is about as large as the one to be named.
    pub(super) fn is_rivalled(&self, kind: &str, truth: Truth) -> bool {
        let rivalled = self.injections(kind).filter(|injection| !truth.rivals(injection).is_empty());
        rivalled.count() * 2 > self.injections(kind).count()
    }

    /// Whether this headline is right for most faults of a kind.
    pub(super) fn allows(&self, kind: &str, (cause, truth): (Cause, Truth), headline: &str) -> bool {
        let headline = Some(headline).filter(|headline| *headline != "none");
        let allowed = self.injections(kind).filter(|injection| truth.allows(injection, cause, headline));
        allowed.count() * 2 > self.injections(kind).count()
    }
}
