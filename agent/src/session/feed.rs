//! The kernel side of a run, and the pairing of its records.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use guestscope_contract::ledger::Ledger;
use tokio::io::unix::AsyncFd;

use super::{
    code::{Code, KernelSide},
    error::SessionError,
    record_source::{BEAT, BEATS_AWAITED, RecordSource, empty, tell},
};
use crate::{
    analyze::spinners,
    clock,
    health::{AgentCost, ExportHealth, Health},
    loader::Loaded,
    phase::{
        AllUnfinished, PairingLosses, Pauses,
        pairing::{Output, Pairing},
    },
    pump::Pump,
    rendezvous::Peer,
    sources::{driver::Drivers, function::Functions},
};

/// The kernel side and the pairing of its records.
pub(crate) struct Feed {
    pub(crate) loaded: Loaded,
    pub(crate) pump: Pump,
    pub(crate) pairing: Pairing,
    pub(crate) pauses: Pauses,
    /// Mapped code of known processes.
    pub(crate) code: Code,
    /// Functions whose calls are phases.
    pub(crate) functions: Option<Arc<Functions>>,
    /// Drivers of graphics processors, whose calls are waited for.
    pub(crate) drivers: Option<Arc<Drivers>>,
    /// Time that reading and pairing took.
    pub(crate) spent: Duration,
    /// Rows that found no room on their way to the folder.
    pub(crate) rows_lost: u64,
    /// What was lost by the last look of a subject that stays, by its key in a run folder.
    pub(crate) lost: BTreeMap<String, u64>,
}

impl Feed {
    /// What a look at processes needs.
    pub(crate) fn kernel_side(&mut self) -> KernelSide<'_> {
        self.split().1
    }

    fn split(&mut self) -> (&mut Code, KernelSide<'_>) {
        let Self { loaded, pump, pairing, code, functions, drivers, .. } = self;
        let (functions, drivers) = (functions.as_ref(), drivers.as_ref());
        (code, KernelSide { loaded, pump, pairing, functions, drivers })
    }

    /// Looks after the probes of functions.
    pub(crate) fn look_at_functions(&self) {
        if let Some(functions) = &self.functions {
            tell(&functions.look());
        }
    }
}

impl RecordSource for Feed {
    const LAST_DRAINS: u32 = 20;

    fn take_in(&mut self) -> bool {
        let begin = Instant::now();
        let has_more = !empty(&mut self.pump, &mut self.pairing);
        self.spent += begin.elapsed();
        has_more
    }

    /// Beats are read after the edges: an edge that ends a phase after a pause follows the late beat of its
    /// CPU.
    fn take_out(&mut self) -> Vec<Output> {
        while let Some(gap) = self.loaded.next_gap() {
            self.pauses.gap(&gap);
        }
        self.pauses.pass(self.pairing.take(), clock::now_ns())
    }

    fn take_last(&mut self) -> Vec<Output> {
        let mut outputs = self.take_out();
        for _ in 0..BEATS_AWAITED {
            if !self.pauses.is_undecided() {
                break;
            }
            std::thread::sleep(BEAT);
            outputs.extend(self.take_out());
        }
        outputs.extend(self.pauses.last());
        outputs
    }

    fn pairing(&mut self) -> &mut Pairing {
        &mut self.pairing
    }

    fn edges_read(&self) -> u64 {
        self.pump.edges_read
    }

    /// The rings' descriptors, to wait for; the pump keeps the rings.
    fn watched(&self) -> Result<Vec<AsyncFd<OwnedFd>>, SessionError> {
        let watch = |fd: RawFd| -> Result<AsyncFd<OwnedFd>, SessionError> {
            // SAFETY: the descriptor is open, the pump owns it.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            let fd = fd.try_clone_to_owned()?;
            // SAFETY: the value owns its descriptor, which stays open and the same as long as it is watched.
            let watched = unsafe { AsyncFd::register_with_interest(fd, tokio::io::Interest::READABLE) };
            Ok(watched.map_err(io::Error::from)?)
        };
        self.pump.rings().into_iter().map(|ring| watch(ring.as_raw_fd())).collect()
    }

    fn adopt(&self) -> Result<Option<BorrowedFd<'_>>, SessionError> {
        Ok(Some(self.loaded.adopt_program()?))
    }

    fn starts(&mut self, program: &Path) {
        if let Some(functions) = &self.functions {
            tell(&functions.put_ahead(program));
        }
        if let Some(drivers) = &self.drivers {
            drivers.put_ahead();
        }
    }

    fn started(&mut self, pid: u32, _at_ns: u64) {
        if self.functions.is_some() || self.drivers.is_some() {
            self.code.follow(pid);
        }
    }

    fn tell_sources(&mut self) {
        for (kind, text) in self.functions.iter().flat_map(|functions| functions.told()) {
            self.pairing.sources.tell(kind, text);
        }
    }

    fn ended(&mut self) {}

    async fn welcome(&mut self, peer: Peer) {
        let (code, mut kernel) = self.split();
        let problems = code.meet(peer.pid(), &mut kernel);
        peer.let_go().await;
        tell(&problems);
    }

    fn look(&mut self) {
        self.loaded.keep_clocks();
        let (code, mut kernel) = self.split();
        let problems = code.look_again(&mut kernel);
        tell(&problems);
        self.look_at_functions();
    }

    fn processes(&self) -> Vec<u32> {
        self.code.processes()
    }

    fn marker_failed(&mut self, why: &str) {
        self.loaded.marker_failed(why);
    }

    fn unfinished(&mut self, now_ns: u64, least_ns: u64) -> AllUnfinished {
        let Self { loaded, pairing, .. } = self;
        pairing.look(now_ns, least_ns, &|_, slot| loaded.ledger(slot))
    }

    fn last_look(&mut self, now_ns: u64) {
        let Self { loaded, pairing, .. } = self;
        pairing.last_look(now_ns, &|_, slot| loaded.ledger(slot));
    }

    fn last_ledgers(&mut self) -> Vec<Ledger> {
        let slots: Vec<u16> = self.pairing.live_threads().map(|(_, slot)| slot).collect();
        slots.into_iter().filter_map(|slot| self.loaded.ledger(slot)).collect()
    }

    fn spun(&self) -> BTreeMap<String, u64> {
        let known = spinners::names().map(str::to_owned).zip(self.loaded.spun());
        known.filter(|(_, samples)| *samples > 0).collect()
    }

    fn called(&self) -> BTreeMap<u32, u64> {
        (0..).zip(self.loaded.called()).filter(|(_, samples)| *samples > 0).collect()
    }

    fn lost(&self) -> BTreeMap<String, u64> {
        self.lost.clone()
    }

    fn lost_on_the_way(&mut self, rows: u64) {
        self.rows_lost = rows;
    }

    fn health(&self, cost: AgentCost) -> Health {
        Health {
            fidelity: self.loaded.fidelity,
            hooks: self.loaded.verdicts.clone(),
            kernel: self.loaded.losses().unwrap_or_default(),
            pairing: PairingLosses::default(),
            cost,
            export: ExportHealth::default(),
            folder_error: None,
            rows_lost: self.rows_lost,
            not_let_in: 0,
            sources: Vec::new(),
            programs_unanswered: 0,
        }
    }
}
