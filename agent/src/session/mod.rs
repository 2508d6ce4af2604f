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
mod graphics;
mod judged;
mod launched;
mod outlet;
mod possible;
mod sight;
mod signals;
mod start;
mod unprivileged;

use std::{
    os::fd::OwnedFd,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use tokio::{
    io::unix::AsyncFd,
    time::{Interval, MissedTickBehavior, interval},
};

pub use self::{attached::attach, launched::run};
use self::{
    code::Code, cost::Cost, facts::Identity, graphics::Graphics, outlet::Outlet, possible::Possible,
    sight::Sight,
};
use crate::{
    clock::ClockPair,
    failure,
    loader::Loaded,
    phase::{Pauses, Restored, pairing::Pairing},
    platform::{Guest, Usage},
    pump::Pump,
    rendezvous::Peer,
    run,
    signs::Signs,
    sinks::terminal::Exit,
    sources::{Selected, function::Functions},
};

/// Between two drains of the rings, if neither fills up: 20 wake-ups a second.
const TICK: Duration = Duration::from_millis(50);
/// Of 8,192 edges each: 10 ms of work.
const BATCHES_AT_ONCE: usize = 4;
/// Between two rows of `samples`.
const SAMPLE: Duration = Duration::from_secs(1);
/// Signs of having been restored that are kept: as many as a manifest holds.
const SIGNS: usize = run::MOST_RESTORED;
/// Between two pairs of clocks: NTP slews at most 0.5 ms per second.
const CLOCKS: Duration = Duration::from_mins(1);

/// The kernel side, and what is made of its records.
struct Feed {
    loaded: Loaded,
    pump: Pump,
    pairing: Pairing,
    pauses: Pauses,
    /// What the programs that were met have mapped.
    code: Code,
    /// Functions whose calls are phases.
    functions: Option<Arc<Functions>>,
}

/// A run in progress.
struct Session<F = Feed> {
    feed: F,
    outlet: Outlet,
    cost: Cost,
    guest: Guest,
    identity: Identity,
    signs: Signs,
    graphics: Graphics,
    /// What runs was seen to use.
    usage: Usage,
    /// What they told, the first of it.
    restored: Vec<Restored>,
    /// What phases could come from.
    possible: Possible,
    /// Processes that go on where the program has ended.
    left: Vec<u32>,
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
trait Subject<F = Feed> {
    /// The next event. A call that is given up loses none.
    async fn next(&mut self) -> Event;

    /// Whether it seems to have ended, so that a look is due.
    fn seems_over(&self, feed: &F) -> bool;

    /// Those of its processes that are known, as they are numbered here, and whether they mark phases.
    fn processes(&self, feed: &F) -> (Vec<u32>, bool);

    /// Does what an event asks for. Whether to go on.
    async fn handle(&mut self, event: Event, feed: &mut F) -> anyhow::Result<bool>;
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
    /// Programs that went on before they were answered.
    unanswered: u64,
    /// Connections to the agent's socket that were closed.
    not_let_in: u64,
    /// Where phases could come from.
    sources: Selected,
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
async fn observe<F: Sight>(
    session: &mut Session<F>,
    subject: &mut impl Subject<F>,
    mut kernel_log: Option<aya_log::EbpfLogger<KernelLog>>,
) -> anyhow::Result<()> {
    let rings = session.feed.watched()?;
    let mut ticks = every(TICK);
    let mut samples = every(SAMPLE);
    let mut clocks = every(CLOCKS);
    loop {
        let mut event = None;
        tokio::select! {
            _ = ticks.tick() => session.gpu_rows(),
            () = any_readable(&rings) => {}
            _ = samples.tick() => session.sample(),
            _ = clocks.tick() => session.outlet.clock(ClockPair::now()),
            next = subject.next() => event = Some(next),
            restored = session.signs.next() => session.restored(restored),
            news = session.graphics.next() => session.gpu(news),
        }
        if let Some(restored) = session.signs.look() {
            session.restored(restored);
        }
        session.drain();
        if !session.feed.pairing().sources.has_requests {
            session.possible.look(|| subject.processes(&session.feed).0);
        }
        if event.is_none() && subject.seems_over(&session.feed) {
            event = Some(Event::Look);
        }
        if let Some(log) = &mut kernel_log {
            log.flush();
        }
        let Some(event) = event else { continue };
        let is_met = matches!(event, Event::Peer(_));
        let goes_on = subject.handle(event, &mut session.feed).await?;
        // Others wait to be met, and one that was met has just begun. What ends still has its main thread now.
        if !is_met {
            let (processes, are_met) = subject.processes(&session.feed);
            session.usage.look(&processes, are_met);
        }
        if !goes_on {
            return Ok(());
        }
    }
}

impl Session {
    /// The kernel side's own messages, if they are wanted.
    fn kernel_log(&mut self, is_wanted: bool) -> anyhow::Result<Option<aya_log::EbpfLogger<KernelLog>>> {
        Ok(is_wanted.then(|| self.feed.loaded.logger(KernelLog)).transpose()?)
    }
}

impl<F: Sight> Session<F> {
    /// Looks at the guest and the agent.
    fn sample(&mut self) {
        let sample = cost::sample(self.feed.edges_read(), self.graphics.cpu());
        self.graphics.looked(sample);
        self.outlet.samples(vec![sample]);
    }

    /// The guest was restored or moved. What was open then has not come out yet: this goes before it.
    fn restored(&mut self, restored: Restored) {
        if self.restored.len() < SIGNS {
            self.restored.push(restored);
        }
        self.outlet.restored(restored);
    }

    /// Takes what waits in the rings, but no more than a few batches: signals and new programs wait as well.
    fn drain(&mut self) {
        for _ in 0..BATCHES_AT_ONCE {
            let has_more = self.feed.take_in();
            self.outlet.outputs(self.feed.take_out());
            if !has_more {
                break;
            }
        }
    }
}

/// Until there is something in one of the rings.
async fn any_readable(rings: &[AsyncFd<OwnedFd>]) {
    std::future::poll_fn(|context| {
        for ring in rings {
            if let Poll::Ready(Ok(mut ready)) = ring.poll_read_ready(context) {
                ready.clear_ready();
                return Poll::Ready(());
            }
        }
        Poll::Pending
    })
    .await;
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
