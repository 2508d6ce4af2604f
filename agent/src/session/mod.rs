//! `guestscope run` and `guestscope attach`: the one place that wires probes, pump, pairing, folder, export and summary
//! together.
//!
//! One thread reads the rings and pairs; what leaves goes through [`outlet`], so that no disk and no collector can
//! hold the pump. What is observed, and when that ends, is a [`Subject`]'s to say.

mod attached;
mod code;
mod cost;
mod ending;
mod facts;
mod launched;
mod outlet;
mod start;

use std::{
    os::fd::{AsRawFd as _, OwnedFd, RawFd},
    time::{Duration, Instant},
};

use tokio::{
    io::unix::AsyncFd,
    time::{Interval, MissedTickBehavior, interval},
};

pub use self::{attached::attach, launched::run};
use self::{cost::Cost, facts::Identity, outlet::Outlet};
use crate::{
    clock::ClockPair,
    failure,
    health::{AgentCost, ExportHealth, Health},
    loader::Loaded,
    phase::{PairingLosses, pairing::Pairing},
    platform::Guest,
    pump::Pump,
    rendezvous::Peer,
    sinks::terminal::Exit,
};

/// Between two drains of the rings, if neither fills up: 20 wake-ups a second.
const TICK: Duration = Duration::from_millis(50);
/// Of 8,192 edges each: 10 ms of work.
const BATCHES_AT_ONCE: usize = 4;
/// Between two rows of `samples`.
const SAMPLE: Duration = Duration::from_secs(1);
/// Between two pairs of clocks: NTP slews at most 0.5 ms per second.
const CLOCKS: Duration = Duration::from_mins(1);

/// The kernel side, and what is made of its records.
struct Feed {
    loaded: Loaded,
    pump: Pump,
    pairing: Pairing,
}

impl Feed {
    /// Pairs a batch of what waits in the rings. Whether there is more.
    fn take_in(&mut self) -> bool {
        let emptied = self.pump.feed(&mut self.pairing);
        self.pairing.losses.unknown_edges += std::mem::take(&mut self.pump.undecodable);
        !emptied
    }
}

/// A run in progress.
struct Session {
    feed: Feed,
    outlet: Outlet,
    cost: Cost,
    guest: Guest,
    identity: Identity,
    /// When the program was, or when it was attached to.
    started: Instant,
}

/// Something to be done for what is observed.
enum Event {
    /// A program waits for its probe.
    Peer(Peer),
    /// Who belongs to it may have changed.
    Look,
    /// It has ended, or somebody has seen enough.
    Over,
}

/// What is observed.
trait Subject {
    /// The next event. A call that is given up loses none.
    async fn next(&mut self) -> Event;

    /// Whether it seems to have ended, so that a look is due.
    fn seems_over(&self, feed: &Feed) -> bool;

    /// Does what an event asks for. Whether to go on.
    async fn handle(&mut self, event: Event, feed: &mut Feed) -> anyhow::Result<bool>;
}

/// How and when it ended.
struct End {
    exit: Exit,
    /// From its start.
    wall: Duration,
    clock: ClockPair,
    /// What the workload said about itself.
    workload: Option<serde_json::Value>,
    /// Threads that found no free slot when they were attached to.
    threads_missed: u64,
}

/// The kernel side's messages, as lines on standard error.
struct KernelLog;

impl log::Log for KernelLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        failure::say(&format!(
            "kernel side: {}: {}\n",
            record.level().as_str().to_lowercase(),
            record.args()
        ));
    }

    fn flush(&self) {}
}

/// Until the subject has ended. What is in the rings then is still to be drained.
async fn observe(
    session: &mut Session,
    subject: &mut impl Subject,
    shows_kernel_log: bool,
) -> anyhow::Result<()> {
    let rings = ring_watchers(&session.feed.pump)?;
    let mut ticks = every(TICK);
    let mut samples = every(SAMPLE);
    let mut clocks = every(CLOCKS);
    let mut kernel_log = shows_kernel_log.then(|| session.feed.loaded.logger(KernelLog)).transpose()?;
    loop {
        let mut event = None;
        tokio::select! {
            _ = ticks.tick() => {}
            Ok(mut ready) = rings[0].readable() => ready.clear_ready(),
            Ok(mut ready) = rings[1].readable() => ready.clear_ready(),
            Ok(mut ready) = rings[2].readable() => ready.clear_ready(),
            _ = samples.tick() => session.outlet.sample(cost::sample(session.feed.pump.edges_read)),
            _ = clocks.tick() => session.outlet.clock(ClockPair::now()),
            next = subject.next() => event = Some(next),
        }
        session.drain();
        if event.is_none() && subject.seems_over(&session.feed) {
            event = Some(Event::Look);
        }
        if let Some(event) = event
            && !subject.handle(event, &mut session.feed).await?
        {
            return Ok(());
        }
        if let Some(log) = &mut kernel_log {
            log.flush();
        }
    }
}

/// What the agent says about itself before anything was seen.
fn health_at_start(loaded: &Loaded, cost: AgentCost) -> Health {
    Health {
        fidelity: loaded.fidelity,
        hooks: loaded.verdicts.clone(),
        kernel: loaded.losses().unwrap_or_default(),
        pairing: PairingLosses::default(),
        cost,
        export: ExportHealth::default(),
        folder_error: None,
        rows_lost: 0,
    }
}

impl Session {
    /// Takes what waits in the rings, but no more than a few batches: signals and new programs wait as well.
    fn drain(&mut self) {
        for _ in 0..BATCHES_AT_ONCE {
            let has_more = self.feed.take_in();
            self.outlet.outputs(self.feed.pairing.take());
            if !has_more {
                break;
            }
        }
    }
}

/// The rings' descriptors, to wait for; the pump keeps the rings.
fn ring_watchers(pump: &Pump) -> anyhow::Result<[AsyncFd<OwnedFd>; 3]> {
    let [edges, events, waits] = pump.rings();
    let watch = |fd: RawFd| -> anyhow::Result<AsyncFd<OwnedFd>> {
        // SAFETY: the descriptor is open, the pump owns it.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        let fd = fd.try_clone_to_owned()?;
        // SAFETY: the value owns its descriptor, which stays open and the same as long as it is watched.
        Ok(unsafe { AsyncFd::register_with_interest(fd, tokio::io::Interest::READABLE) }?)
    };
    Ok([watch(edges.as_raw_fd())?, watch(events.as_raw_fd())?, watch(waits.as_raw_fd())?])
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
