//! Attaching to running threads: each is tracked once, in the state that it is in, whatever it does
//! meanwhile.
//!
//! The program is started without the agent. It is compared with its process's CPU clock and /proc.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::PathBuf,
    process::{Child, Command},
    time::{Duration, Instant},
};

use guestscope::{
    clock,
    health::KernelLosses,
    loader::{self, LoadError, LoadOptions, Loaded},
    phase::pairing::{Output, Pairing},
    pump::Pump,
};
use guestscope_contract::{
    Account,
    ledger::{BLOCKED, Ledger, RUNNING},
    visit::Found,
};
use tempfile::TempDir;

use crate::{
    agreement::{count, in_initial_namespace, time, up_to_three_times},
    book::Book,
    harness::{program, skipped},
    machine::{Alone, steal_ns},
};

const LIMIT: Duration = Duration::from_mins(1);
/// Limit of walks until one finds no untracked thread. A walk takes a millisecond; starting a thread takes
/// microseconds.
const WALKS: usize = 100;

/// Walks during a storm of threads in which none may be left to adopt.
const FURTHER_WALKS: usize = 300;

/// The BPF programs, and the pairing of their records.
struct Observer {
    loaded: Loaded,
    pump: Pump,
    pairing: Pairing,
    outputs: Vec<Output>,
    _alone: Alone,
}

/// A program that was started without the agent.
struct Stranger {
    child: Child,
    folder: TempDir,
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // Both fail if the program has been waited for already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stranger {
    fn start(case: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let child = Command::new(program()).arg(case).arg(folder.path().join("book")).spawn();
        Self { child: child.expect("the test program starts"), folder }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn book(&self) -> Book {
        Book::read(&self.folder.path().join("book"))
    }

    /// Waits until it has written this many facts.
    fn wait_for_facts(&self, facts: usize) {
        eventually("the program is ready", || self.book().facts.len() >= facts);
    }

    fn threads(&self) -> BTreeSet<u32> {
        let entries = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it lives");
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// A thread's state letter.
    fn state(&self, tid: u64) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/task/{tid}/stat", self.pid())).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    /// A thread's switches: voluntary and involuntary.
    fn switches(&self, tid: u64) -> [u64; 2] {
        let status = fs::read_to_string(format!("/proc/{}/task/{tid}/status", self.pid()));
        let status = status.expect("the thread lives");
        ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|key| {
            let value = status.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel counts it");
            value.trim().parse().expect("a number")
        })
    }

    /// CPU time of all its threads, ns.
    fn cpu_ns(&self) -> u64 {
        let mut clock = 0;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: both live across the calls.
        let read = unsafe {
            libc::clock_getcpuclockid(self.pid() as libc::pid_t, &raw mut clock);
            libc::clock_gettime(clock, &raw mut time)
        };
        assert_eq!(read, 0, "the process lives");
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    fn stop_file(&self) -> PathBuf {
        self.folder.path().join("book.stop")
    }

    /// Tells it to end, and waits for its end.
    fn end(&mut self) {
        fs::write(self.stop_file(), "").expect("the folder is ours");
        eventually("the program ends", || self.child.try_wait().expect("it is ours").is_some());
        let status = self.child.wait().expect("it is ours");
        assert!(status.success(), "{status}");
    }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "never came: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Observer {
    /// Loads the programs; none, with a note on stdout, if this machine cannot.
    fn new(test: &str) -> Option<Self> {
        let alone = Alone::lock();
        if !in_initial_namespace() {
            skipped(test, "threads have other numbers in the initial PID namespace");
            return None;
        }
        let mut loaded = match loader::load(&LoadOptions::default()) {
            Ok(loaded) => loaded,
            Err(error @ (LoadError::Permission(_) | LoadError::Btf(_))) => {
                skipped(test, &error.to_string());
                return None;
            }
            Err(error) => panic!("the programs load: {error}"),
        };
        if let Err(error) = loaded.can_visit() {
            skipped(test, &error.to_string());
            return None;
        }
        let rings = loaded.take_rings().expect("the rings are there once");
        let (pump, pairing) = (Pump::new(rings), Pairing::new([7; 16]));
        Some(Self { loaded, pump, pairing, outputs: Vec::new(), _alone: alone })
    }

    fn take_in(&mut self) {
        self.pump.drain(&mut self.pairing);
        self.outputs.append(&mut self.pairing.take());
    }

    /// The tasks that one walk through all tasks found.
    fn walk(&mut self) -> Vec<(u32, Found)> {
        let mut met = Vec::new();
        let mut visits = self.loaded.visit().expect("the iterator is there");
        while let Some(portion) = visits.portion().expect("it can be read") {
            for visit in portion {
                met.push((visit.process, Found::from_number(visit.found).expect("a known word")));
            }
            self.take_in();
        }
        met
    }

    /// Adopts a process; returns how many threads were adopted.
    fn adopt(&mut self, pid: u32) -> usize {
        assert!(self.loaded.ask_for(pid).expect("the map takes it"));
        let mut adopted = 0;
        for _ in 0..WALKS {
            let met = self.walk();
            let of = |found: Found| met.iter().filter(|each| each.1 == found).count();
            assert!(met.iter().all(|each| each.0 == pid), "{met:?}");
            assert_eq!(of(Found::Missed), 0);
            adopted += of(Found::Adopted);
            if of(Found::Adopted) + of(Found::Unborn) == 0 {
                return adopted;
            }
            // A thread that is starting another one may wait for this CPU, and all walks fit into one time
            // slice.
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("after {WALKS} walks there are threads that are not tracked");
    }

    /// All ledgers in use, by thread number, one for each thread.
    fn ledgers(&self) -> HashMap<u32, Ledger> {
        let mut found = HashMap::new();
        for slot in 1..4096 {
            if let Some(ledger) = self.loaded.ledger(slot) {
                let before = found.insert(ledger.tid, ledger);
                assert_eq!(before, None, "two ledgers of one thread: {ledger:?}");
            }
        }
        found
    }

    /// Waits until every thread has given its ledger back.
    fn settle(&mut self) {
        eventually("every ledger is given back", || {
            self.take_in();
            self.ledgers().is_empty()
        });
        self.take_in();
        assert_eq!(self.pairing.live_threads().count(), 0);
        let losses = self.loaded.losses().expect("the counters can be read");
        let KernelLosses { waits, ios, runs_left_out, .. } = losses;
        assert_eq!(losses, KernelLosses { waits, ios, runs_left_out, ..KernelLosses::default() });
    }
}

#[test]
fn threads_are_adopted_in_the_state_that_they_are_in() {
    up_to_three_times(|| {
        let test = "attach::threads_are_adopted_in_the_state_that_they_are_in";
        let Some(mut observer) = Observer::new(test) else { return };
        let mut stranger = Stranger::start("states");
        stranger.wait_for_facts(4);
        let book = stranger.book();
        let tids = ["spin", "sleep", "lock", "pipe"].map(|name| book.fact(name));
        for &tid in &tids[1..] {
            eventually("the thread waits", || stranger.state(tid) == Some('S'));
        }
        let books = |stranger: &Stranger| (stranger.cpu_ns(), tids.map(|tid| stranger.switches(tid)));

        let stolen_before_ns = steal_ns();
        let before = books(&stranger);
        assert_eq!(observer.adopt(stranger.pid()), 5);
        let begun = books(&stranger);
        let ledgers = observer.ledgers();
        assert_eq!(ledgers.keys().copied().collect::<BTreeSet<_>>(), stranger.threads());
        let accounts = [Account::Sleep, Account::Lock, Account::Other];
        for (tid, account) in tids[1..].iter().zip(accounts) {
            let ledger = ledgers[&(*tid as u32)];
            assert_eq!((ledger.state, ledger.account), (BLOCKED, account as u8), "{ledger:?}");
        }
        assert_ne!(ledgers[&(tids[0] as u32)].state, BLOCKED);

        std::thread::sleep(Duration::from_secs(1));
        let ending = books(&stranger);
        let (now_ns, ledgers) = (clock::now_ns(), observer.ledgers());
        let after = books(&stranger);
        let mut cpu_ns = 0;
        for ledger in ledgers.values() {
            assert!(ledger.is_whole(), "{ledger:?}");
            let accounts = ledger.accounts_at(now_ns);
            assert_eq!(accounts.iter().sum::<u64>(), now_ns.max(ledger.since_ns) - ledger.born_ns);
            cpu_ns += accounts[Account::Cpu as usize];
        }
        // The waiting threads have all their time in the account that they wait for.
        for (tid, account) in tids[1..].iter().zip(accounts) {
            let ledger = ledgers[&(*tid as u32)];
            assert_eq!(ledger.accounts_at(now_ns)[account as usize], now_ns - ledger.born_ns, "{ledger:?}");
        }
        // Our sum includes stolen time, the kernel's does not; stolen time is counted in ticks, of which one
        // may be missing.
        let stolen_ns = steal_ns() - stolen_before_ns + 10_000_000;
        time("attach", "cpu", cpu_ns, (ending.0 - begun.0, after.0 - before.0), stolen_ns);
        for (at, tid) in tids.into_iter().enumerate() {
            let ledger = ledgers[&(tid as u32)];
            let bounds = |of: usize| (ending.1[at][of] - begun.1[at][of], after.1[at][of] - before.1[at][of]);
            // Unseen switches are known by number, not by kind.
            let missed = u64::from(ledger.missed);
            let [voluntary, involuntary] =
                [0, 1].map(bounds).map(|(low, high)| (low.saturating_sub(missed), high));
            count("attach", "voluntary", u64::from(ledger.voluntary), voluntary);
            count("attach", "involuntary", u64::from(ledger.involuntary), involuntary);
        }
        stranger.end();
        observer.settle();
    });
}

/// Threads start and end all the time while the iterator walks: afterwards each living thread is tracked
/// once. Ten programs, so that walks do meet such threads.
#[test]
fn a_storm_of_threads_has_no_gap() {
    let Some(mut observer) = Observer::new("attach::a_storm_of_threads_has_no_gap") else { return };
    let (mut adopted, mut alive) = (0, 0);
    for _ in 0..10 {
        let mut stranger = Stranger::start("storm");
        stranger.wait_for_facts(1);
        adopted += observer.adopt(stranger.pid());
        // From here on the parent of every new thread is tracked.
        for _ in 0..FURTHER_WALKS {
            let found: BTreeSet<u32> = observer.walk().into_iter().map(|met| met.1 as u32).collect();
            assert!(!found.contains(&(Found::Adopted as u32)), "a thread was born untracked");
        }
        let stopped = nix::unistd::Pid::from_raw(stranger.pid() as i32);
        nix::sys::signal::kill(stopped, nix::sys::signal::Signal::SIGSTOP).expect("it is ours");
        let are_stopped =
            |threads: &BTreeSet<u32>| threads.iter().all(|&tid| stranger.state(u64::from(tid)) == Some('T'));
        eventually("all threads are stopped", || are_stopped(&stranger.threads()));
        let threads = stranger.threads();
        alive += threads.len();
        // Threads that have ended except for their last switch still reach it.
        eventually("each thread has its ledger, and nobody else", || {
            observer.take_in();
            observer.ledgers().into_keys().collect::<BTreeSet<_>>() == threads
        });
        // The last threads may have ended between the two readings.
        observer.take_in();
        let ledgers = observer.ledgers();
        assert!(ledgers.values().all(|ledger| ledger.state != RUNNING && ledger.is_whole()), "{ledgers:?}");
        let known: BTreeSet<u32> = observer.pairing.live_threads().map(|(thread, _)| thread.tid).collect();
        let lost = observer.loaded.losses().expect("the counters can be read").task_events;
        if lost > 0 {
            // Starts and ends came faster than they could be read, on an emulated CPU (1,401 lost on 6.12) or
            // under other load: at most as many are unknown.
            let unlike = known.symmetric_difference(&threads).count() as u64;
            assert!(unlike <= lost, "{unlike} of {lost} lost: {known:?} {threads:?}");
            return skipped("storm", &format!("{lost} births and ends were lost, and counted"));
        }
        assert_eq!(known, threads, "and pairing knows the same");
        // No thread is left to adopt.
        assert!(observer.walk().iter().all(|met| met.1 == Found::Tracked));
        nix::sys::signal::kill(stopped, nix::sys::signal::Signal::SIGCONT).expect("it is ours");
        let pid = stranger.pid();
        stranger.end();
        assert!(stranger.book().fact("made") > 0);
        observer.settle();
        observer.loaded.ask_no_more(pid).expect("the map can be written");
    }
    assert!(adopted >= 40 && alive >= 40, "{adopted} adopted, {alive} alive in the end");
}

/// No other thread gets a ledger; a process that has ended is found by no walk.
#[test]
fn strangers_stay_strangers() {
    let Some(mut observer) = Observer::new("attach::strangers_stay_strangers") else { return };
    let (mut wanted, mut other) = (Stranger::start("states"), Stranger::start("states"));
    wanted.wait_for_facts(4);
    other.wait_for_facts(4);
    assert_eq!(observer.walk(), []);
    observer.adopt(wanted.pid());
    assert_eq!(observer.ledgers().into_keys().collect::<BTreeSet<_>>(), wanted.threads());
    wanted.end();
    observer.settle();
    assert_eq!(observer.walk(), []);
    other.end();
}
