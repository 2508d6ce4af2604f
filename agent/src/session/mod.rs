//! `guestscope run` and `guestscope attach`: connects probes, pump, pairing, folder, export and summary.
//!
//! One thread reads the rings and pairs; its outputs go through [`export_thread`], so that no disk and no
//! collector can block the pump. A [`Subject`] defines what is observed and when that ends.

mod arguments;
mod aside;
pub(crate) mod attendant;
pub(crate) mod code;
pub(crate) mod cost;
pub(crate) mod ending;
pub(crate) mod error;
mod export_thread;
pub(crate) mod facts;
mod feed;
mod graphics;
mod judged;
pub(crate) mod kept;
mod limits;
mod others;
mod outputs;
mod own_pid;
pub(crate) mod possible;
mod readings;
pub(crate) mod record_source;
pub(crate) mod signals;
pub(crate) mod start;
mod stuck;
pub(crate) mod traced;

use std::{
    os::fd::OwnedFd,
    task::Poll,
    time::{Duration, Instant},
};

use tokio::{
    io::unix::AsyncFd,
    time::{Interval, MissedTickBehavior, interval},
};

pub(crate) use self::feed::Feed;
pub use self::{arguments::Observation, error::SessionError};
use self::{
    attendant::{Counts, Stretches},
    cost::Cost,
    export_thread::ExportThread,
    facts::Identity,
    graphics::Graphics,
    limits::Limits,
    possible::Possible,
    record_source::RecordSource,
    stuck::Stuck,
    traced::Traces,
};
use crate::{
    clock::{self, ClockPair},
    folder, out,
    phase::Restored,
    platform::{Guest, Usage},
    rendezvous::Peer,
    restore::RestoreSources,
    sinks::terminal::Exit,
    sources::Selected,
};

/// Interval between drains of the rings, if neither fills up: 20 wake-ups a second.
const TICK: Duration = Duration::from_millis(50);
/// Most batches per drain, 8,192 edges each: 10 ms of work.
const BATCHES_AT_ONCE: usize = 4;
/// Interval between rows of `samples`.
const SAMPLE: Duration = Duration::from_secs(1);
/// Most restores and moves kept: as many as a manifest holds.
const SIGNS: usize = folder::MOST_RESTORED;
/// Interval between clock pairs: NTP slews at most 0.5 ms per second.
const CLOCKS: Duration = Duration::from_mins(1);

/// A run in progress.
pub(crate) struct Session<F = Feed> {
    pub(crate) feed: F,
    pub(crate) export: ExportThread,
    pub(crate) cost: Cost,
    pub(crate) guest: Guest,
    pub(crate) identity: Identity,
    pub(crate) restore: RestoreSources,
    pub(crate) graphics: Graphics,
    pub(crate) traces: Traces,
    /// Resources that the observed processes were seen to use.
    pub(crate) usage: Usage,
    /// Limits on them, and how often each was hit.
    pub(crate) limits: Limits,
    /// Counts by stretch, if the agent stays.
    pub(crate) stretches: Option<Stretches>,
    /// First restores and moves.
    pub(crate) restored: Vec<Restored>,
    /// Possible sources of phases.
    pub(crate) possible: Possible,
    /// Looks at requests that have been open for long.
    pub(crate) stuck: Stuck,
    /// Processes that outlive the program.
    pub(crate) left: Vec<u32>,
    /// When the program was started, or the target attached.
    pub(crate) started: Instant,
}

/// Something to do for the subject.
pub(crate) enum Event {
    /// A program waits for its probe.
    Peer(Peer),
    /// The subject's processes may have changed.
    Look,
    /// The subject has ended, or observation is to stop.
    Over,
}

/// The observed program or target.
pub(crate) trait Subject<F = Feed> {
    /// The next event. Cancel-safe.
    async fn next(&mut self) -> Event;

    /// Whether the subject seems to have ended, so that a look is due.
    fn seems_over(&self, feed: &F) -> bool;

    /// Known processes of the subject, by their numbers in the agent's PID namespace, and whether they mark
    /// phases.
    fn processes(&self, feed: &F) -> (Vec<u32>, bool);

    /// Handles an event. Returns whether to go on.
    async fn handle(&mut self, event: Event, feed: &mut F) -> Result<bool, SessionError>;
}

/// How and when the subject ended.
pub(crate) struct End {
    pub(crate) exit: Exit,
    /// Time since its start.
    pub(crate) wall: Duration,
    pub(crate) clock: ClockPair,
    /// The workload's description of itself.
    pub(crate) workload: Option<serde_json::Value>,
    /// Threads that found no free slot on attaching.
    pub(crate) threads_missed: u64,
    /// Programs that went on before they were answered.
    pub(crate) unanswered: u64,
    /// Connections to the agent's socket that were closed.
    pub(crate) not_let_in: u64,
    /// Sources of phases that were on.
    pub(crate) sources: Selected,
}

/// The kernel side's messages, as lines on standard error.
pub(crate) struct KernelLog;

impl log::Log for KernelLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        out::say(&format!("kernel side: {}: {}\n", record.level().as_str().to_lowercase(), record.args()));
    }

    fn flush(&self) {}
}

/// Runs until the subject has ended. The rings still have to be drained then.
pub(crate) async fn observe<F: RecordSource>(
    session: &mut Session<F>,
    subject: &mut impl Subject<F>,
    mut kernel_log: Option<aya_log::EbpfLogger<KernelLog>>,
) -> Result<(), SessionError> {
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
            _ = clocks.tick() => session.export.clock(ClockPair::now()),
            next = subject.next() => event = Some(next),
            restored = session.restore.next() => session.restored(restored),
            news = session.graphics.next() => session.gpu(news),
            traced = session.traces.next() => session.traced(traced),
        }
        if let Some(restored) = session.restore.look() {
            session.restored(restored);
        }
        session.drain();
        session.settle_gpu_work(false);
        if !session.feed.pairing().sources.has_requests {
            session.possible.look(|| subject.processes(&session.feed).0);
        }
        if event.is_none() && subject.seems_over(&session.feed) {
            event = Some(Event::Look);
        }
        if let Some(log) = &mut kernel_log {
            log.flush();
        }
        let event = match event {
            Some(Event::Peer(peer)) if peer.traces_gpus() => {
                session.traces.admit(peer);
                continue;
            }
            Some(event) => event,
            None => continue,
        };
        let is_met = matches!(event, Event::Peer(_));
        let goes_on = subject.handle(event, &mut session.feed).await?;
        // Not after a greeting: other programs wait, and this one has just begun. An ending process still has
        // its main thread now.
        if !is_met {
            let (processes, are_met) = subject.processes(&session.feed);
            if goes_on {
                session.usage.look_now_and_then(&processes, are_met);
            } else {
                session.usage.look(&processes, are_met);
            }
            session.graphics.observe(&processes);
            session.limits.observe(processes);
        }
        if !goes_on {
            return Ok(());
        }
    }
}

impl Session {
    /// The kernel side's own messages, if they are wanted.
    pub(crate) fn kernel_log(
        &mut self,
        is_wanted: bool,
    ) -> Result<Option<aya_log::EbpfLogger<KernelLog>>, SessionError> {
        Ok(is_wanted.then(|| self.feed.loaded.logger(KernelLog)).transpose()?)
    }
}

impl<F: RecordSource> Session<F> {
    /// Samples the guest and the agent.
    fn sample(&mut self) {
        let sample = cost::sample(self.feed.edges_read(), self.graphics.cpu());
        self.graphics.looked(&sample);
        self.export.samples(vec![sample]);
        let found = self.stuck.found();
        self.feed.pairing().looked(found);
        let unfinished = self.feed.unfinished(clock::now_ns(), stuck::AGE_NS);
        if self.stuck.look(&unfinished) {
            self.export.unfinished(unfinished);
        }
        if let Some(stretches) = &mut self.stretches {
            for limits in self.limits.stretches() {
                let counts =
                    Counts { spun: self.feed.spun(), called: self.feed.called(), lost: self.feed.lost() };
                self.export.stretch(stretches.end(limits, counts));
            }
        }
    }

    /// The guest was restored or moved. Goes out before the requests that were open then.
    fn restored(&mut self, restored: Restored) {
        if self.restored.len() < SIGNS {
            self.restored.push(restored);
        }
        self.export.restored(restored);
    }

    /// Drains the rings, but no more than a few batches: signals and new programs wait as well.
    fn drain(&mut self) {
        for _ in 0..BATCHES_AT_ONCE {
            let has_more = self.feed.take_in();
            let outputs = self.feed.take_out();
            self.traces.ended(&outputs);
            self.export.outputs(outputs);
            if !has_more {
                break;
            }
        }
        self.feed.lost_on_the_way(self.export.rows_lost);
    }
}

/// Waits until one of the rings has records.
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

pub(crate) fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
