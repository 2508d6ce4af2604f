//! Faults of known kind and size, injected by `guestscope-workloads stall` and logged by the injector: the agent must
//! name each one first, with its size. Invariant 4.
//!
//! A row per kind. What is compared: the account of a request that was hit, less that of the median spared one, with the
//! injector's own measure. The machine disturbs single requests, so a row is judged by its median, and again if that was
//! disturbed too: a ledger that is wrong is so every time. Where others keep even the spared requests from their CPU every
//! time, that is the truth, and the agent says so: such a test is skipped.

use std::{
    ffi::OsString,
    io::Write as _,
    sync::{Mutex, Once},
};

use guestscope::{
    analyze::Cause,
    phase::{KEPT, Phase, PhaseKind, Wait},
    run::Folder,
};
use guestscope_ebpf::Account;
use rstest::rstest;
use serde_json::Value;

use crate::{
    folder::only_folder,
    ground::{Ground, skipped, variable},
};

/// Requests, and one in so many is hit: less than a tenth, so that all that are hit lie above the 90th percentile.
const REQUESTS: &str = "72";
const EVERY: &str = "12";
const HITS: usize = 6;
/// Relative error of a size that is allowed: invariant 4.
const SHARE: f64 = 0.1;

/// The cause where somebody else's thread is late.
const HELPER_RUNQ: Cause = Cause::Helper(Account::Runq);
/// How often a row may be disturbed.
pub(crate) const ATTEMPTS: u32 = 8;

/// What the injector measured of one fault.
struct Injection {
    request: u64,
    ns: u64,
    count: u64,
    wall_ns: u64,
    cpu_ns: u64,
}

/// Which of the injector's clocks a fault is to be compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Truth {
    /// Its own.
    Injected,
    /// CPU time of the request meanwhile.
    Cpu,
    /// The rest of the time: what was waited for, and then for a CPU.
    OffCpu,
}

impl Truth {
    fn ns(self, injection: &Injection) -> u64 {
        match self {
            Truth::Injected => injection.ns,
            Truth::Cpu => injection.cpu_ns,
            Truth::OffCpu => injection.wall_ns.saturating_sub(injection.cpu_ns),
        }
    }

    fn seen_ns(self, phase: &Phase, cause: Cause) -> u64 {
        let then_ns = match self {
            Truth::Injected | Truth::Cpu => 0,
            Truth::OffCpu => phase.accounts.get(Account::Runq),
        };
        let seen_ns = match cause {
            Cause::Account(account) => phase.accounts.get(account),
            Cause::Helper(account) => {
                let kept = KEPT.iter().position(|kept| *kept == account).expect("it keeps from running");
                phase.helpers.wait.on_cpu[kept] + phase.helpers.wait.waiting[kept]
            }
            Cause::Steal => phase.counts.steal_ns,
            Cause::Suspended | Cause::Queue => 0,
        };
        seen_ns + then_ns
    }
}

/// A row of the table that is printed when the tests are over.
pub(crate) struct Row {
    what: String,
    cause: Cause,
    named: usize,
    hits: usize,
    /// Truth and what was seen, of the hit with the median error.
    median: (u64, u64),
    worst: f64,
    headline: String,
    /// Neighbours kept the spared requests waiting as well.
    busy: bool,
}

/// How much longer than the fastest a spared request may take, at the third quartile: above it they share their CPU, and no
/// finding is the fault's alone. Wall time, which no account can spoil.
const BUSY: f64 = 1.5;

fn error((truth, seen): (u64, u64)) -> f64 {
    (seen as f64 - truth as f64) / truth.max(1) as f64
}

impl Row {
    pub(crate) fn of(run: &Run, kind: &str, what: String, (cause, truth): (Cause, Truth)) -> Self {
        let (pairs, named) = run.compare(kind, cause, truth);
        let worst = pairs.last().map_or(0.0, |pair| error(*pair));
        let (hits, median) = (pairs.len(), pairs[pairs.len() / 2]);
        let (headline, busy) = (run.headline(), run.is_busy());
        Row { what, cause, named, hits, median, worst, headline, busy }
    }

    pub(crate) fn holds(&self) -> bool {
        // One hit may have met something else of the same size.
        let named = self.named + 1 >= self.hits && self.headline == self.cause.name();
        self.hits == HITS && named && self.is_sized()
    }

    pub(crate) fn is_sized(&self) -> bool {
        error(self.median).abs() <= SHARE
    }

    pub(crate) fn text(&self) -> String {
        let Row { what, cause, named, hits, median, worst, headline, busy } = self;
        let ms = |ns: u64| ns as f64 / 1e6;
        format!(
            "{what:<34} {:<11} {named} of {hits}  {headline:<11} {:>9.3} ms {:>9.3} ms {:>7.2} % {:>7.2} %{}",
            cause.name(),
            ms(median.0),
            ms(median.1),
            error(*median) * 100.0,
            worst * 100.0,
            if *busy { "  busy" } else { "" },
        )
    }
}

static ROWS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints the table, past libtest's capture.
extern "C" fn print_table() {
    let Ok(rows) = ROWS.lock() else { return };
    let mut out = std::io::stdout().lock();
    let _ = writeln!(
        out,
        "\n{:<34} {:<11} named   {:<11} {:>12} {:>12} {:>9} {:>9}",
        "fault", "cause", "headline", "injected", "seen", "median", "worst"
    );
    rows.iter().for_each(|row| drop(writeln!(out, "{row}")));
}

pub(crate) fn keep(row: String) {
    static PRINTER: Once = Once::new();
    PRINTER.call_once(|| {
        // SAFETY: the function takes nothing, returns nothing and does not unwind.
        unsafe { libc::atexit(print_table) };
    });
    ROWS.lock().expect("nobody panics with the table").push(row);
}

/// What a run under the agent left: the requests with their causes, the log, the summary.
pub(crate) struct Run {
    requests: Vec<(Phase, Option<String>)>,
    log: Vec<(String, Injection)>,
    waits: Vec<Wait>,
    summary: Value,
}

impl Run {
    fn of(test: &str, workloads: &OsString, words: &[&str]) -> Option<Self> {
        Some(Self::on(&Ground::new(test)?, workloads, words))
    }

    pub(crate) fn on(ground: &Ground, workloads: &OsString, words: &[&str]) -> Self {
        let log = ground.path("truth.jsonl");
        let common = ["--requests", REQUESTS, "--every", EVERY, "--warmup", "2", "--work", "5ms", "--json"];
        let start = ground.run().program(workloads).words(&["stall"]).words(words).words(&common);
        let done = start.word("--log").word(&log).finish().expect(0);
        assert_eq!(done.losses(), []);
        let folder = Folder::open(only_folder(&ground.path("runs"))).expect("it is a run folder");
        let rows = folder.phases().expect("phases can be read").map(|row| row.expect("and are whole"));
        let requests = rows.filter(|row| row.phase.kind == PhaseKind::Request && !row.warmup);
        let requests = requests.map(|row| (row.phase, row.cause.map(|cause| cause.to_string())));
        let waits = folder.waits().expect("waits can be read");
        let waits = waits.map(|wait| wait.expect("and are whole")).collect();
        let log = std::fs::read_to_string(log).expect("the log was written");
        let log = log.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            let number = |key: &str| line[key].as_u64().unwrap_or(0);
            let kind = line["kind"].as_str().expect("a fault has a kind").to_owned();
            let [request, ns, count] = ["request", "ns", "count"].map(number);
            let [wall_ns, cpu_ns] = ["wall_ns", "cpu_ns"].map(number);
            (kind, Injection { request, ns, count, wall_ns, cpu_ns })
        });
        Self { requests: requests.collect(), log: log.collect(), waits, summary: done.summary() }
    }

    fn injections(&self, kind: &str) -> impl Iterator<Item = &Injection> {
        self.log.iter().filter(move |line| line.0 == kind).map(|line| &line.1)
    }

    /// The median over the requests that were spared.
    fn spared(&self, value: impl Fn(&Phase) -> u64) -> u64 {
        let values = self.of_spared(value);
        values[values.len() / 2]
    }

    fn is_busy(&self) -> bool {
        let walls = self.of_spared(|phase| phase.duration_ns);
        walls[walls.len() * 3 / 4] as f64 > walls[0] as f64 * BUSY
    }

    /// Of each request that was spared, sorted.
    fn of_spared(&self, value: impl Fn(&Phase) -> u64) -> Vec<u64> {
        let spared = self.requests.iter().filter(|(phase, _)| {
            let hit = |line: &(String, Injection)| line.1.request == phase.request;
            !self.log.iter().any(hit)
        });
        let mut values: Vec<u64> = spared.map(|(phase, _)| value(phase)).collect();
        values.sort_unstable();
        values
    }

    fn request(&self, number: u64) -> &(Phase, Option<String>) {
        let found = self.requests.iter().find(|(phase, _)| phase.request == number);
        found.unwrap_or_else(|| panic!("request {number} was seen"))
    }

    fn headline(&self) -> String {
        self.summary["groups"][0]["headline"]["cause"].as_str().unwrap_or("none").to_owned()
    }

    /// Of all faults of a kind: truth and what was seen, by size of the error, and how many were named.
    fn compare(&self, kind: &str, cause: Cause, truth: Truth) -> (Vec<(u64, u64)>, usize) {
        let usual_ns = self.spared(|phase| truth.seen_ns(phase, cause));
        let mut pairs = Vec::new();
        let mut named = 0;
        for injection in self.injections(kind) {
            let (phase, named_cause) = self.request(injection.request);
            pairs.push((truth.ns(injection), truth.seen_ns(phase, cause).saturating_sub(usual_ns)));
            named += usize::from(named_cause.as_deref() == Some(cause.name()));
        }
        pairs.sort_by(|a, b| error(*a).abs().total_cmp(&error(*b).abs()));
        (pairs, named)
    }
}

pub(crate) fn workloads(test: &str) -> Option<OsString> {
    let found = variable("GUESTSCOPE_WORKLOADS_BIN");
    if found.is_none() {
        skipped(test, "GUESTSCOPE_WORKLOADS_BIN is not set");
    }
    found
}

#[rstest]
#[case::neighbour(&["spin-neighbour", "--size", "20ms"], Cause::Account(Account::Runq), Truth::Injected)]
#[case::quota(&["quota", "--size", "30ms"], Cause::Account(Account::Throttled), Truth::Injected)]
#[case::lock(&["lock", "--size", "20ms"], Cause::Account(Account::Lock), Truth::Injected)]
#[case::socket(&["slow-peer", "--size", "20ms"], Cause::Account(Account::Net), Truth::Injected)]
#[case::pipe(&["slow-peer", "--peer", "pipe", "--size", "20ms"], Cause::Account(Account::Other), Truth::Injected)]
#[case::sleep(&["sleep", "--size", "20ms"], Cause::Account(Account::Sleep), Truth::Injected)]
#[case::disk(&["disk", "--size", "30ms"], Cause::Account(Account::BlockIo), Truth::OffCpu)]
#[case::touch(&["touch", "--size", "8192"], Cause::Account(Account::Cpu), Truth::Injected)]
#[case::syscalls(&["syscalls", "--size", "20ms"], Cause::Account(Account::Cpu), Truth::Injected)]
#[case::spin(&["spin", "--size", "20ms"], Cause::Account(Account::Cpu), Truth::Cpu)]
#[case::sleeping_for_a_late_helper(&["helper-late", "--wait", "sleep", "--size", "20ms"], HELPER_RUNQ, Truth::Injected)]
#[case::spinning_for_a_late_helper(&["helper-late", "--wait", "spin", "--size", "20ms"], HELPER_RUNQ, Truth::Injected)]
fn a_fault_is_named_first_with_its_size(#[case] words: &[&str], #[case] cause: Cause, #[case] truth: Truth) {
    let test = "truth::a_fault_is_named_first_with_its_size";
    let Some(workloads) = workloads(test) else { return };
    let mut is_busy = true;
    for attempt in 1..=ATTEMPTS {
        let seed = attempt.to_string();
        let words: Vec<&str> = words.iter().copied().chain(["--seed", &seed]).collect();
        let Some(run) = Run::of(test, &workloads, &words) else { return };
        let what = words[..words.len() - 2].join(" ");
        let row = Row::of(&run, words[0], what, (cause, truth));
        let holds = row.holds();
        keep(row.text());
        if holds {
            return;
        }
        is_busy &= row.busy;
        if attempt == ATTEMPTS && is_busy {
            return skipped(test, "others use this machine's CPUs");
        }
        assert!(attempt < ATTEMPTS, "every time, the last: {}", row.text());
    }
}

#[test]
fn a_wait_for_a_late_helper_is_explained_by_what_that_one_went_through() {
    let test = "truth::a_wait_for_a_late_helper";
    let Some(workloads) = workloads(test) else { return };
    for attempt in 1..=ATTEMPTS {
        let words = ["helper-late", "--wait", "sleep", "--size", "20ms", "--seed", &attempt.to_string()];
        let Some(run) = Run::of(test, &workloads, &words) else { return };
        let explained = run.injections("helper-late").filter(|injection| {
            let root = run.request(injection.request).0.id;
            let blames =
                run.waits.iter().filter(|wait| wait.root == Some(root)).filter_map(|wait| wait.blame);
            let of_runq = blames.filter(|blame| blame.account == Account::Runq && blame.depth == 1);
            of_runq.map(|blame| error((injection.ns, blame.ns)).abs()).any(|error| error <= SHARE)
        });
        let explained = explained.count();
        if explained + 1 >= HITS {
            return;
        }
        assert!(attempt < ATTEMPTS, "every time: {explained} of {HITS} were explained");
    }
}

#[test]
fn moves_are_counted_to_the_last() {
    let test = "truth::moves_are_counted_to_the_last";
    let Some(workloads) = workloads(test) else { return };
    let Some(run) = Run::of(test, &workloads, &["bounce", "--size", "16"]) else { return };
    let moves = |phase: &Phase| {
        let counts = phase.counts;
        counts.migrate_smt + counts.migrate_llc + counts.migrate_node + counts.migrate_remote
    };
    assert_eq!(run.spared(moves), 0, "the others stay where they are");
    assert_eq!(run.injections("bounce").count(), HITS);
    for injection in run.injections("bounce") {
        assert_eq!(moves(&run.request(injection.request).0), injection.count);
    }
}

/// Shares of samples, over all that were hit: 6 times 25 ms are 150 samples, so one of them has an error of 4 points. New
/// memory is mapped and unmapped by system calls, so both belong to its faults.
#[rstest]
#[case::page_faults(
    &["touch", "--size", "8192"],
    |phase: &Phase| phase.counts.sample_fault + phase.counts.sample_syscall
)]
#[case::system_calls(&["syscalls", "--size", "20ms"], |phase: &Phase| phase.counts.sample_syscall)]
fn samples_tell_what_lies_inside_cpu(#[case] words: &[&str], #[case] samples: fn(&Phase) -> u64) {
    const POINTS: f64 = 15.0;
    let test = "truth::samples_tell_what_lies_inside_cpu";
    let Some(workloads) = workloads(test) else { return };
    for attempt in 1..=ATTEMPTS {
        let Some(run) = Run::of(test, &workloads, words) else { return };
        let (mut injected_ns, mut cpu_ns, mut of_kind, mut all) = (0, 0, 0, 0);
        for injection in run.injections(words[0]) {
            let phase = &run.request(injection.request).0;
            let counts = &phase.counts;
            injected_ns += injection.cpu_ns;
            cpu_ns += phase.accounts.get(Account::Cpu);
            of_kind += samples(phase);
            all += counts.sample_user + counts.sample_fault + counts.sample_syscall;
        }
        let (truth, seen) = (injected_ns as f64 / cpu_ns as f64, of_kind as f64 / all.max(1) as f64);
        let text = format!("{} of {all} samples are {seen:.3}, injected {truth:.3}", words.join(" "));
        keep(text.clone());
        if all >= 50 && (truth - seen).abs() * 100.0 <= POINTS {
            return;
        }
        assert!(attempt < ATTEMPTS, "every time: {text}");
    }
}

#[test]
fn of_two_faults_the_larger_comes_first() {
    let test = "truth::of_two_faults_the_larger_comes_first";
    let Some(workloads) = workloads(test) else { return };
    let mut is_busy = true;
    for attempt in 1..=ATTEMPTS {
        let seed = attempt.to_string();
        let words = ["lock", "--size", "24ms", "--and", "sleep:12ms", "--seed", &seed];
        let Some(run) = Run::of(test, &workloads, &words) else { return };
        let [lock, sleep] = [Account::Lock, Account::Sleep].map(Cause::Account);
        let (_, named) = run.compare("lock", lock, Truth::Injected);
        is_busy &= run.is_busy();
        let mut holds = run.headline() == "lock" && named + 1 >= HITS;
        for (kind, cause) in [("lock", lock), ("sleep", sleep)] {
            let row = Row::of(&run, kind, "lock 24ms and sleep 12ms".to_owned(), (cause, Truth::Injected));
            keep(row.text());
            holds &= row.is_sized();
        }
        // In the slowest request both stand, in the order of their sizes.
        let parts = &run.summary["groups"][0]["slowest"][0]["parts"];
        let causes: Vec<_> = (0..2).map(|index| parts[index]["cause"].as_str().unwrap_or_default()).collect();
        if holds && causes == ["lock", "sleep"] {
            return;
        }
        if attempt == ATTEMPTS && is_busy {
            return skipped(test, "others use this machine's CPUs");
        }
        assert!(attempt < ATTEMPTS, "every time: {causes:?} {parts}");
    }
}
