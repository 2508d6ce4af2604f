//! `guestscope watch`: an agent that stays. It observes what its configuration selects, keeps the last
//! minutes, and turns the seconds around something noticed into a run folder.
//!
//! Data flows as in every session; what is different is what goes along with the folder ([`recording`]). The
//! threads share [`shared`].

mod arguments;
mod config;
pub(crate) mod control;
mod error;
mod flood;
mod gather;
mod governor;
mod keeper;
mod notify;
mod numbers;
mod place;
mod rate;
mod recording;
mod seen;
mod selection;
pub(crate) mod shared;
mod tables;
mod taking;
mod ticks;
mod trigger;
mod unseen;
mod values;
pub(crate) mod window;

pub use self::{arguments::WatchArguments, config::ConfigError, error::WatchError};

use std::{
    net::TcpListener,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use guestscope_kernel::attach::Target;
use tokio::time::Interval;

use self::{
    keeper::Keeper,
    notify::Notify,
    place::Place,
    recording::{Recording, STRETCH},
    selection::Selection,
    shared::{Asked, Shared},
    tables::Config,
    taking::Taking,
    unseen::Unseen,
};
use crate::{
    attach::adoption::Adoption,
    child,
    clock::ClockPair,
    folder::{Recorder, RecorderOptions, rfc3339},
    health::{AgentCost, losses},
    out,
    platform::Guest,
    privileges,
    session::{
        Event, Feed, Session, SessionError, Subject,
        attendant::Resident,
        cost::Cost,
        error::During as _,
        every,
        facts::{self, Identity},
        observe,
        record_source::RecordSource as _,
        signals::{Haste, Requested, Signals},
        start::{self, Begun, Extras, Known},
    },
    sinks::{
        metrics,
        otlp::{MetricsConfig, MetricsExporter},
        terminal::units::counted,
    },
};

/// Most bytes of a recorder without rows: some threads and samples are left.
const WITHOUT_ROWS: u64 = 1 << 20;
/// Interval between looks for processes that start, join or end.
const LOOK: Duration = Duration::from_secs(1);

/// The selected programs.
struct Watching {
    adoption: Adoption,
    signals: Signals,
    looks: Interval,
    unseen: Unseen,
    /// What the kernel side was told: it hands over one of 2 to the power of this.
    halved: u32,
    shared: Arc<Shared>,
    notify: Notify,
    path: PathBuf,
    is_once: bool,
    /// Pushes a last time when it is dropped.
    pushed: Option<MetricsExporter>,
    /// Whether they are taken.
    taking: Taking,
}

/// Watches until a signal ends it. Returns the exit code.
///
/// # Errors
/// The configuration is refused, or observing is not possible.
pub fn run(arguments: &WatchArguments) -> Result<i32, WatchError> {
    let config = Config::read_first(&arguments.config)?;
    if arguments.check {
        out::answer(&config.told())?;
        return Ok(0);
    }
    let mut cost = Cost::start();
    privileges::hide_memory().during("hiding the agent's memory")?;
    // A checked configuration stands for options.
    let Some(observation) = config.observed() else { return Ok(2) };
    start::check(&observation)?;
    let place = Place::make(config)?;
    child::block_forwarded().during("blocking signals")?;
    let haste = Haste::default();
    let signals = Signals::read_as_resident(haste.clone()).during("reading signals")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(SessionError::from)?;
    runtime.block_on(async {
        let extras = Extras { visits: true, stays: true, ..Extras::default() };
        let loaded = start::load(&observation, extras).map_err(SessionError::from)?;
        loaded.can_visit().map_err(SessionError::from)?;
        let selection = Box::new(Selection::new(Arc::clone(&place.shared)));
        let words = vec!["watch".to_owned()];
        let name = place.shared.config().name.clone();
        let target = Target::chosen(name, words, selection).map_err(SessionError::from)?;
        let identity = Identity::of_target(&observation, &target, None).map_err(SessionError::from)?;
        let known = Known { guest: Guest::here(), identity, cost, fidelity: loaded.fidelity };
        let mut begun = Begun::new(&observation, None, known, None)?;
        let mut feed = begun.feed(loaded, &observation).map_err(SessionError::from)?;
        let started = Instant::now();
        let mut adoption = Adoption::new(target);
        adoption.begin(&mut feed)?;
        cost.attached();
        begun.cost = cost;
        let Place { shared, listener, scraped, notify, _lock } = place;
        attend(&mut begun, &shared)?;
        control::serve(listener, Arc::clone(&shared)).during("starting the thread of the control socket")?;
        give_out(scraped, &shared)?;
        let pushed = push(&begun, &shared)?;
        let mut session = begun.start(&observation, feed, started, None, haste)?;
        if let Some(nvml) = session.graphics.pid() {
            adoption.leave_out(nvml);
        }
        out::say(&format!("watching: {}; SIGTERM ends it\n", adoption.summary()));
        notify.tell("READY=1");
        let (path, is_once) = (arguments.config.clone(), arguments.once);
        let mut watching = Watching {
            adoption,
            signals,
            looks: every(LOOK),
            unseen: Unseen::default(),
            halved: 0,
            shared,
            notify,
            path,
            is_once,
            pushed,
            taking: Taking::new("metrics"),
        };
        observe(&mut session, &mut watching, None).await?;
        watching.finish(session)
    })
}

/// Answers scrapes of metrics, if there is an address for them.
fn give_out(scraped: Option<TcpListener>, shared: &Arc<Shared>) -> Result<(), SessionError> {
    let Some(scraped) = scraped else { return Ok(()) };
    let theirs = Arc::clone(shared);
    let text = move || {
        let (metrics, numbers) = numbers::now(&theirs);
        metrics::text(&metrics, &numbers)
    };
    metrics::serve(scraped, text).during("starting the thread of the metrics")
}

/// Pushes metrics, if that is asked for.
fn push(begun: &Begun, shared: &Arc<Shared>) -> Result<Option<MetricsExporter>, SessionError> {
    let config = shared.config();
    let Some(endpoint) = config.metrics.otlp.clone() else { return Ok(None) };
    let config = MetricsConfig {
        endpoint: Some(endpoint),
        service_name: config.name.clone(),
        resource: facts::resource(&begun.identity, &begun.guest, begun.fidelity),
    };
    let theirs = Arc::clone(shared);
    let source = move || numbers::now(&theirs);
    Ok(Some(MetricsExporter::start(config, Box::new(source))?))
}

/// Has the recorder go along with the folder.
fn attend(begun: &mut Begun, shared: &Arc<Shared>) -> Result<(), SessionError> {
    let config = shared.config();
    let now = ClockPair::now();
    let options = RecorderOptions {
        parent: config.directory.join("recorder"),
        length: config.recorder.segment.0,
        keep: config.recorder.window.0,
        most_bytes: if config.recorder.rows { config.recorder.keep.0 } else { WITHOUT_ROWS },
    };
    let recorder = Recorder::new(options, &begun.folder, now);
    let keeper = Keeper::start(Arc::clone(shared)).during("starting the thread that keeps incidents")?;
    let recording = Recording::new(Arc::clone(shared), recorder, keeper);
    let directory = config.directory.clone();
    begun.resident = Some(Resident { attendant: Box::new(recording), stretch: STRETCH, directory });
    let mut status = shared.status();
    status.since = rfc3339(now.wall_ns);
    status.scenario = begun.guest.scenario();
    begun.fidelity.name().clone_into(&mut status.fidelity);
    Ok(())
}

impl Watching {
    /// Reads the configuration again, and takes over what can be without a restart.
    fn reload(&self) {
        let before = self.shared.config();
        match Config::read(&self.path) {
            Ok(new) if before.needs_restart(&new) => match before.with(new, &self.path) {
                Ok(kept) => {
                    self.shared.take_over(kept);
                    out::say(
                        "configuration read: programs, triggers, incidents and agent are taken over; name, \
                         directory, socket, observe, recorder and metrics change at the next start\n",
                    );
                }
                Err(error) => out::say(&format!(
                    "warning: the configuration stays as it was until the next start, since name, directory, \
                     socket, observe, recorder and metrics change only then: {error}\n"
                )),
            },
            Ok(new) => {
                self.shared.take_over(new);
                out::say("configuration read and taken over\n");
            }
            Err(error) => out::say(&format!("warning: the configuration stays as it was: {error}\n")),
        }
    }

    /// What was lost behind the agent: pushes of metrics that failed, and spans.
    fn lost_behind(&mut self) -> impl Iterator<Item = (String, u64)> + use<> {
        let pushes = self.pushed.as_ref().map(MetricsExporter::so_far);
        let failed = pushes.map_or(0, |(_, failed, error)| {
            self.taking.tell(error.as_deref(), &mut self.shared.status().last_error);
            failed
        });
        let spans = self.shared.status().spans_lost;
        let lost = [("metric_pushes_failed", failed), ("spans_lost", spans)];
        lost.into_iter().filter(|(_, count)| *count > 0).map(|(what, count)| (what.to_owned(), count))
    }

    /// Has as many requests handed over as the governor wants, and tells it what came of that.
    fn thin(&mut self, feed: &mut Feed) -> Result<(), SessionError> {
        let wanted = self.shared.seen.wanted();
        if wanted != self.halved {
            feed.loaded.thin(wanted)?;
            self.halved = wanted;
        }
        self.shared.seen.tell(feed.loaded.requests_unseen()?, feed.spent);
        Ok(())
    }

    fn finish(self, mut session: Session) -> Result<i32, WatchError> {
        self.notify.tell("STOPPING=1");
        session.export.clock(ClockPair::now());
        self.signals.closing();
        session.last_records(false);
        let lost = session.export.rows_lost;
        let ended = session.export.finish(|sinks| {
            let exported = sinks.exporter.as_ref().map(|exporter| {
                exporter.finish(crate::sinks::otlp::FINISH);
                exporter.delivered()
            });
            drop(sinks);
            exported
        });
        let spans = ended.ok_or(SessionError::Thread)?.unwrap_or_default();
        drop(self.pushed);
        if lost > 0 {
            out::say(&format!("warning: {lost} rows found no room on their way to the recorder\n"));
        }
        if spans.lost + spans.waiting > 0 {
            let lost = counted(spans.lost + spans.waiting, "span", "spans");
            out::say(&format!("warning: {lost} never reached the collector\n"));
        }
        Ok(0)
    }
}

impl Subject for Watching {
    async fn next(&mut self) -> Event {
        loop {
            tokio::select! {
                _ = self.looks.tick() => return Event::Look,
                () = self.signals.stopped() => return Event::Over,
                Requested { reload, incident } = self.signals.asked() => {
                    if reload {
                        self.reload();
                    }
                    if incident {
                        self.shared.ask(Asked::Now);
                    }
                }
                () = self.shared.kept.notified(), if self.is_once => return Event::Over,
            }
        }
    }

    fn seems_over(&self, _: &Feed) -> bool {
        false
    }

    fn processes(&self, _: &Feed) -> (Vec<u32>, bool) {
        (self.adoption.processes(), true)
    }

    async fn handle(&mut self, event: Event, feed: &mut Feed) -> Result<bool, SessionError> {
        match event {
            Event::Look => {
                self.adoption.look(feed)?;
                self.thin(feed)?;
                let mut health = feed.health(AgentCost::default());
                health.pairing = feed.pairing.losses;
                health.kernel.tasks_missed += self.adoption.threads_missed();
                let on_the_way = losses::loss("rows_without_room", feed.rows_lost, ["row", "rows"], "");
                let lost = losses::of_observation(&health).chain([on_the_way]);
                let lost: Vec<_> = lost.filter(|loss| loss.count > 0).collect();
                feed.lost = lost.iter().map(|loss| (loss.stored_key(), loss.count)).collect();
                let lost = lost.iter().map(|loss| (loss.key.to_owned(), loss.count));
                self.unseen.look(&mut feed.loaded, &self.shared.config().programs);
                let lost = lost.chain(self.unseen.counts()).chain(self.lost_behind()).collect();
                let mut status = self.shared.status();
                status.processes = self.adoption.processes().len() as u64;
                status.losses = lost;
                drop(status);
                self.notify.tell("WATCHDOG=1");
                Ok(true)
            }
            Event::Over => Ok(false),
            // No program has a socket of an agent that stays.
            Event::Peer(_) => Ok(true),
        }
    }
}
