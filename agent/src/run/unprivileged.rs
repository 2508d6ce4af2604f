//! `guestscope run` where BPF is refused: the program's threads report what procfs gives them (fidelity
//! `procfs`).
//!
//! Decides whether BPF is used, prints the decision with its reason, and replaces
//! [`Feed`](crate::session::Feed). Later stages are the same for both.

use std::{
    collections::HashSet,
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use guestscope_contract::ledger::Ledger;
use tokio::io::unix::AsyncFd;

use super::arguments::RunArguments;
use crate::{
    clock,
    health::{AgentCost, ExportHealth, Fidelity, Health, Outcome, Verdict},
    loader::Loaded,
    out,
    phase::{Limits, PairingLosses, pairing::Pairing},
    procfs::{self, Procfs, Refusal},
    record::Record,
    rendezvous::Peer,
    session::{
        SessionError,
        record_source::RecordSource,
        start::{self, Extras},
    },
    sources::Kind,
};

/// How a run is observed.
pub(super) enum Choice {
    Kernel(Loaded),
    Threads(Refusal),
}

/// The requested fidelity, else the BPF programs if they can be loaded.
pub(super) fn choose(arguments: &RunArguments) -> Result<Choice, SessionError> {
    if arguments.fidelity == Some(Fidelity::Procfs) {
        return Ok(Choice::Threads(Refusal::Unwanted));
    }
    let extras = Extras { arrivals: wants_arrivals(arguments), ..Extras::default() };
    match start::load(&arguments.observation, extras) {
        Ok(loaded) => Ok(Choice::Kernel(loaded)),
        Err(error) if arguments.fidelity.is_none() && procfs::is_refused(&error) => {
            Ok(Choice::Threads(Refusal::Refused(error)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether a source may mark requests of a server.
fn wants_arrivals(arguments: &RunArguments) -> bool {
    let sources = arguments.wishes().sources;
    sources.is_none_or(|all| all.iter().any(|wish| wish.kind == Kind::Python))
}

/// The ring and the pairing of its records.
pub(super) struct ProcfsSource {
    procfs: Procfs,
    pairing: Pairing,
    verdicts: Vec<Verdict>,
    /// Number of programs that were given the ring.
    handed: u64,
    /// Records between ring and pairing.
    batch: Vec<Record>,
    /// Known programs that are alive.
    met: HashSet<u32>,
}

impl ProcfsSource {
    pub(super) fn new(
        run_id: [u8; 16],
        limits: Limits,
        threads: u32,
        refusal: &Refusal,
    ) -> Result<Self, SessionError> {
        Ok(Self {
            procfs: Procfs::new(procfs::SLOTS, threads)?,
            pairing: Pairing::within(limits, run_id),
            verdicts: procfs::verdicts(refusal),
            handed: 0,
            batch: Vec::new(),
            met: HashSet::new(),
        })
    }

    /// Pairs what is in the batch.
    fn pair(&mut self) {
        self.batch.drain(..).for_each(|record| self.pairing.record(&record));
        self.pairing.losses.unknown_edges += std::mem::take(&mut self.procfs.undecodable);
    }
}

/// Whether the program died between its greeting and the answer.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET))
}

/// Prints what is missing and how to get it.
pub(super) fn explain(refusal: &Refusal) {
    if let Refusal::Refused(error) = refusal {
        out::say_lines(&procfs::explanation(error));
    }
}

impl RecordSource for ProcfsSource {
    const LAST_DRAINS: u32 = 1;

    fn take_in(&mut self) -> bool {
        let has_more = self.procfs.read(&mut self.batch);
        self.pair();
        has_more
    }

    fn pairing(&mut self) -> &mut Pairing {
        &mut self.pairing
    }

    fn edges_read(&self) -> u64 {
        self.procfs.edges_read
    }

    /// Waking the agent at each edge would show in the thread's own numbers: the ring is polled 20 times a
    /// second.
    fn watched(&self) -> Result<Vec<AsyncFd<OwnedFd>>, SessionError> {
        Ok(Vec::new())
    }

    fn adopt(&self) -> Result<Option<BorrowedFd<'_>>, SessionError> {
        Ok(None)
    }

    fn started(&mut self, pid: u32, at_ns: u64) {
        self.procfs.started(pid, at_ns, &mut self.batch);
        self.pair();
    }

    fn ended(&mut self) {
        self.procfs.ended(clock::now_ns());
    }

    async fn welcome(&mut self, peer: Peer) {
        self.procfs.met(peer.pid());
        self.met.insert(peer.pid());
        match peer.hand_over(self.procfs.descriptor()).await {
            Err(error) if !is_gone(&error) => {
                self.marker_failed(&format!("handing the ring to a program: {error}"));
            }
            Err(_) => {}
            Ok(()) => self.handed += 1,
        }
    }

    fn look(&mut self) {
        self.met.retain(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    fn processes(&self) -> Vec<u32> {
        self.met.iter().copied().collect()
    }

    fn marker_failed(&mut self, why: &str) {
        for verdict in self.verdicts.iter_mut().filter(|verdict| verdict.hook == procfs::RING) {
            verdict.outcome = Outcome::Broken;
            verdict.consequence = format!("phases are missing: {why}");
        }
    }

    fn last_ledgers(&mut self) -> Vec<Ledger> {
        let ledgers = self.procfs.stop(&mut self.batch);
        self.pair();
        // An older library, or one that was refused the memory, does not report it.
        if let missing @ 1.. = self.handed.saturating_sub(self.procfs.taken()) {
            self.marker_failed(&format!("programs that did not take the ring: {missing}"));
        }
        ledgers
    }

    fn health(&self, cost: AgentCost) -> Health {
        Health {
            fidelity: Fidelity::Procfs,
            hooks: self.verdicts.clone(),
            kernel: self.procfs.losses(),
            pairing: PairingLosses::default(),
            cost,
            export: ExportHealth::default(),
            folder_error: None,
            rows_lost: 0,
            not_let_in: 0,
            sources: Vec::new(),
            programs_unanswered: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::unix::net::UnixStream};

    use super::*;
    use crate::rendezvous::Rendezvous;

    /// The ring's outcome if `meanwhile` happens between a program's greeting and the answer, and the number
    /// of unanswered programs.
    fn outcome(meanwhile: impl FnOnce(UnixStream) -> Option<UnixStream>) -> (Outcome, u64) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("there is room");
        runtime.block_on(async {
            let mut rendezvous = Rendezvous::open(None, &[]).expect("a folder can be made");
            rendezvous.expect(std::process::id());
            let environment = rendezvous.environment();
            let (_, socket) =
                environment.iter().find(|(name, _)| *name == "GUESTSCOPE_NOTIFY").expect("it is told");
            let mut program = UnixStream::connect(socket).expect("the agent listens");
            program.write_all(b"marker 1\n").expect("the agent listens");
            let mut source = ProcfsSource::new([1; 16], Limits::default(), 8, &Refusal::Unwanted)
                .expect("memory can be had");
            let peer = rendezvous.next().await.expect("it has greeted");
            let _program = meanwhile(program);
            source.welcome(peer).await;
            source.last_ledgers();
            let ring = source.verdicts.iter().find(|verdict| verdict.hook == procfs::RING);
            (ring.expect("it is there").outcome, rendezvous.unanswered())
        })
    }

    #[test]
    fn a_program_that_died_before_the_answer_breaks_nothing() {
        assert_eq!(outcome(|_| None), (Outcome::Ok, 1));
    }

    /// An older library does not know the ring.
    #[test]
    fn a_program_that_does_not_take_the_ring_is_told_of() {
        assert_eq!(outcome(Some), (Outcome::Broken, 0));
    }
}
