//! Runs a case of the test program under the BPF programs and returns everything that was seen of it.
//!
//! Each run loads, attaches and detaches by itself. A file lock on this test's own executable allows one run
//! at a time, also across processes, and leaves nothing behind. Meanwhile the harness reads ledgers, which
//! must add up at any time; `seen` checks the rest.

use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::Write as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
    path::PathBuf,
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use guestscope::{
    child, clock,
    health::{Fidelity, KernelLosses, Outcome, Verdict},
    loader::{self, Knowledge, LoadError, Loaded},
    mapped,
    phase::{
        ThreadId,
        pairing::{Output, Pairing},
    },
    pump::Pump,
    rendezvous::Rendezvous,
    sources::driver::Drivers,
};
use guestscope_contract::ledger::{EMPTY, Ledger};
use tempfile::TempDir;
use tokio::io::unix::AsyncFd;

pub(crate) use crate::case::{Case, Until};
use crate::{
    book::Book,
    machine::{Alone, Others, may_be_missing},
    seen::Seen,
};

/// Limit of a case; a longer one hangs.
const LIMIT: Duration = Duration::from_mins(1);
/// Time for the last records after the end of the program.
const SETTLING: Duration = Duration::from_secs(5);
/// The timer beside the rings' own wake-ups.
const TICK: Duration = Duration::from_millis(5);

impl Case {
    /// Runs the case. None, with a note on stdout, if this machine cannot.
    pub(crate) fn run(self) -> Option<Seen> {
        let _alone = Alone::lock();
        let loaded = match loader::load(&self.options) {
            Ok(loaded) => loaded,
            Err(error @ (LoadError::Permission(_) | LoadError::Btf(_) | LoadError::Formats(_))) => {
                skipped(self.name, &error.to_string());
                return None;
            }
            Err(error) => panic!("the programs load: {error}"),
        };
        let expected = match self.options.knowledge {
            Knowledge::Own => Fidelity::Full,
            Knowledge::File(_) => Fidelity::Raw,
            Knowledge::Formats => Fidelity::Tracepoint,
        };
        assert_eq!(loaded.fidelity, expected);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let others = Others::begin();
        let seen = runtime.block_on(async { Run::start(self, loaded).follow().await });
        others.end();
        Some(seen)
    }
}

/// Reports a skipped test in the form that the project's test verb counts, written past libtest's capture.
pub(crate) fn skipped(name: &str, reason: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {name}: {reason}");
}

/// Examples are built beside this test's folder.
pub(crate) fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let profile = test.parent().and_then(std::path::Path::parent).expect("target/PROFILE/deps/TEST");
    let program = profile.join("examples/kernel_subject");
    assert!(program.exists(), "build it with `--example kernel_subject`: {}", program.display());
    program
}

/// The program, killed at the end of its test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail if the program has been waited for already, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run in progress.
struct Run {
    case: Case,
    loaded: Loaded,
    rendezvous: Rendezvous,
    pump: Pump,
    pairing: Pairing,
    child: Program,
    folder: TempDir,
    /// The probes of the case's driver.
    _drivers: Option<Drivers>,
    outputs: Vec<Output>,
    lines_read: usize,
    ledgers: HashMap<ThreadId, Ledger>,
    ledgers_read: usize,
}

impl Run {
    fn start(case: Case, mut loaded: Loaded) -> Self {
        let rings = loaded.take_rings().expect("the rings are there once");
        let drivers = case.driver.as_ref().map(|library| {
            let drivers = Drivers::new(*loaded.driver.take().expect("the programs are loaded"));
            let mut to_look = OpenOptions::new();
            let file = to_look.read(true).custom_flags(libc::O_PATH).open(library);
            assert_eq!(drivers.attach(&file.expect("the stub is there"), library), None);
            drivers
        });
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let rendezvous = Rendezvous::open(None, &[]).expect("a socket can be made");
        rendezvous.trust(loaded.take_tracked());
        let mut command =
            vec![program().into_os_string(), case.name.into(), folder.path().join("book").into()];
        command.extend(case.arguments.iter().cloned());
        case.clocks.start(&mut loaded);
        if let Some(halved) = case.halved {
            loaded.thin(halved).expect("the map can be written");
        }
        let adopt = loaded.adopt_program().expect("the program is loaded");
        let child = child::spawn(&command, &rendezvous.environment(), Some(adopt.as_fd()), None);
        let child = child.expect("the test program starts");
        rendezvous.expect(child.id());
        Run {
            case,
            loaded,
            rendezvous,
            pump: Pump::new(rings),
            pairing: Pairing::new([7; 16]),
            child: Program(child),
            folder,
            _drivers: drivers,
            outputs: Vec::new(),
            lines_read: 0,
            ledgers: HashMap::new(),
            ledgers_read: 0,
        }
    }

    fn missing(&self) -> Vec<&Verdict> {
        // Hooks that a kernel without BTF cannot have are known.
        let is_whole = self.loaded.fidelity == Fidelity::Full;
        let is_missing = |verdict: &&Verdict| match verdict.outcome {
            Outcome::Ok | Outcome::Off => false,
            Outcome::Unsupported => is_whole,
            Outcome::Fallback | Outcome::Broken => true,
        };
        self.loaded.verdicts.iter().filter(is_missing).collect()
    }

    /// Names without the prefix of the hook's type, which depends on the fidelity.
    fn attached(&self) -> Vec<String> {
        let verdicts = self.loaded.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Ok);
        verdicts.filter_map(|verdict| verdict.hook.rsplit('/').next().map(str::to_owned)).collect()
    }

    fn book_file(&self) -> PathBuf {
        self.folder.path().join("book")
    }

    fn lines(&self) -> usize {
        std::fs::read_to_string(self.book_file()).map_or(0, |text| text.lines().count())
    }

    /// Reads the records, unless the case wants the rings to fill; then writes to `book.read` how many lines
    /// the program had written before.
    fn pump(&mut self) {
        let lines = self.lines();
        if lines < self.case.idle_until_lines {
            return;
        }
        self.case.idle_until_lines = 0;
        self.pump.drain(&mut self.pairing);
        self.outputs.append(&mut self.pairing.take());
        self.case.clocks.hand_over(&mut self.loaded, self.pump.edges_read);
        if lines != self.lines_read {
            self.lines_read = lines;
            std::fs::write(self.folder.path().join("book.read"), lines.to_string())
                .expect("the folder is ours");
        }
        self.look_at_ledgers();
    }

    /// Each ledger adds up at any time, and none of its counters decreases.
    fn look_at_ledgers(&mut self) {
        let live: Vec<(ThreadId, u16)> = self.pairing.live_threads().take(64).collect();
        for (thread, slot) in live {
            let Some(now) = self.loaded.ledger(slot) else { continue };
            // The thread may have ended, and another one may have its slot.
            if (now.tid, now.born_ns) != (thread.tid, thread.born_ns) || now.state == EMPTY {
                continue;
            }
            self.ledgers_read += 1;
            let sum_ns: u64 = now.accounts.iter().sum();
            assert_eq!(
                sum_ns,
                now.since_ns - now.born_ns,
                "the accounts of {thread:?} are its life: {now:?}"
            );
            if let Some(before) = self.ledgers.insert(thread, now) {
                let grew = |now: u32, before: u32| now.wrapping_sub(before) < u32::MAX / 2;
                assert!(
                    now.accounts.iter().zip(before.accounts).all(|(now, before)| *now >= before),
                    "{now:?}"
                );
                assert!(grew(now.voluntary, before.voluntary) && grew(now.involuntary, before.involuntary));
                assert!(grew(now.wakeups, before.wakeups) && grew(now.throttles, before.throttles));
                let mut moves = now.migrations.into_iter().zip(before.migrations);
                assert!(moves.all(|(now, before)| grew(now, before)), "{now:?}");
                assert!(grew(now.missed, before.missed) && grew(now.sequence, before.sequence));
            }
        }
    }

    async fn follow(mut self) -> Seen {
        let rings = self.pump.rings().map(|ring| ring.as_fd().try_clone_to_owned());
        let [edges, events, waits] = rings.map(|ring| {
            let ring: OwnedFd = ring.expect("descriptors are left");
            // SAFETY: an OwnedFd names the same open descriptor for as long as it lives.
            unsafe { AsyncFd::register(ring) }.expect("a ring can be waited for")
        });
        let start = Instant::now();
        let mut tick = tokio::time::interval(TICK);
        let status = loop {
            tokio::select! {
                Some(peer) = self.rendezvous.next() => {
                    let looked = mapped::look(peer.pid().cast_signed(), &self.loaded.marks, None, None);
                    let looked = looked.expect("its maps can be read");
                    self.loaded.set_spin_code(peer.pid(), &looked.spin);
                    assert_eq!(looked.problems, []);
                    peer.let_go().await;
                    let unexpected = |verdict: &&&Verdict| !may_be_missing(&verdict.hook);
                    assert_eq!(self.missing().iter().find(unexpected), None, "everything can be attached");
                }
                ready = edges.readable() => { ready.expect("the ring is open").clear_ready(); self.pump(); }
                ready = events.readable() => { ready.expect("the ring is open").clear_ready(); self.pump(); }
                ready = waits.readable() => { ready.expect("the ring is open").clear_ready(); self.pump(); }
                _ = tick.tick() => self.pump(),
            }
            if let Some(status) = self.child.0.try_wait().expect("the program is ours") {
                break status;
            }
            let enough = matches!(self.case.until, Until::Lines(lines) if self.lines() >= lines);
            if enough || start.elapsed() > LIMIT {
                break self.stop(start.elapsed() > LIMIT).await;
            }
        };
        self.settle().await;
        self.finish(status)
    }

    /// Stops observing, then kills the program.
    async fn stop(&mut self, hangs: bool) -> ExitStatus {
        if !hangs {
            // Threads must show what they do inside their last phases.
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.pump();
            let ledgers: Vec<Ledger> =
                self.pairing.live_threads().filter_map(|(_, slot)| self.loaded.ledger(slot)).collect();
            self.pairing.stop(clock::now_ns(), &ledgers);
            self.outputs.append(&mut self.pairing.take());
        }
        self.child.0.kill().expect("the program is ours");
        let status = self.child.0.wait().expect("the program is ours");
        assert!(!hangs, "`{}` ends within {LIMIT:?}", self.case.name);
        status
    }

    /// Waits until the last thread's end was seen: a process can be waited for before its threads have left
    /// their CPUs.
    async fn settle(&mut self) {
        if self.case.until != Until::Ended {
            return;
        }
        let start = Instant::now();
        loop {
            self.pump();
            if self.pairing.live_threads().next().is_none() || start.elapsed() > SETTLING {
                return;
            }
            tokio::time::sleep(TICK).await;
        }
    }

    fn finish(self, status: ExitStatus) -> Seen {
        let slots = u16::try_from(self.case.options.slots).expect("slots have 16 bits");
        let slots_held =
            (1..=slots).filter(|&slot| self.loaded.ledger(slot).is_some_and(|ledger| ledger.task != 0));
        let losses = self.loaded.losses().expect("the counters can be read");
        let mut seen = Seen {
            status,
            book: Book::read(&self.book_file()),
            requests: Vec::new(),
            processes: Vec::new(),
            threads: Vec::new(),
            marks: Vec::new(),
            waits: Vec::new(),
            runs_left_out: losses.runs_left_out,
            // The kernel may skip a probe because of other programs, most often from 7.0 on: this says
            // nothing about the observed program.
            kernel: KernelLosses { runs_left_out: 0, ..losses },
            pairing: self.pairing.losses,
            undecodable: self.pump.undecodable,
            edges_read: self.pump.edges_read,
            requests_unseen: self.loaded.requests_unseen().expect("the counters can be read"),
            slots_held: slots_held.count(),
            ledgers_read: self.ledgers_read,
            attached: self.attached(),
        };
        seen.sort(self.outputs);
        seen
    }
}
