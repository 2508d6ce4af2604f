//! Export as OpenTelemetry spans: a request is a trace, a phase is a span, a long wait is a span of the
//! kernel below it, over gRPC or HTTP, to any OTLP receiver.
//!
//! [`Exporter::offer`] never fails and waits for nothing but the disk, and not for long; everything else
//! happens on a thread of its own. Spans that the collector does not take go to the run folder; what does not
//! fit there is counted. `offered = sent + spilled + dropped` holds at the end, always ([`ExportHealth`]). It
//! decides no causes and samples nothing.

mod answered;
mod backoff;
mod bounded;
mod breakdown;
mod error;
mod frames;
mod gpus;
mod grpc;
mod hidden;
mod http;
mod keep;
pub mod keys;
mod limits;
mod lines;
mod message;
mod metrics;
mod patience;
mod pauses;
mod protocol;
mod queue;
mod restored;
mod service;
mod settings;
mod spans;
mod spill;
mod timeline;
mod tls;
mod transport;
mod url;
mod verdict;
mod wait_spans;
mod waits;
mod work;
mod worker;

#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::{Builder, Runtime};

/// A value of an attribute.
pub use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, any_value::Value};

pub use self::{
    error::ExportError,
    keep::{REFUSED_FILE, SPILL_FILE},
    limits::Limits,
    lines::{Lines, Written},
    metrics::{MetricsConfig, MetricsExporter},
    protocol::{Protocol, SCHEMA_URL},
    verdict::LiveVerdict,
};
use self::{
    keep::Keep, queue::Queue, service::Resources, settings::Settings, transport::Transport, waits::Keeper,
    worker::Worker,
};
use crate::{
    clock::{self, ClockPair},
    guarded::{Directory, Owner},
    health::ExportHealth,
    phase::{GpuReading, GpuWork, Pause, Request, Restored, Wait},
    privileges,
};

/// TLS client configuration with the system's authorities, for HTTPS requests without a named certificate.
///
/// # Errors
/// There is no usable configuration.
pub fn system_tls() -> Result<rustls::ClientConfig, ExportError> {
    tls::for_http(&settings::TlsFiles::default())
}

/// How long [`Exporter::finish`] waits by default.
pub const FINISH: Duration = Duration::from_secs(5);

/// Time beyond the deadline for the thread to write unsent spans to the run folder.
const PUT_AWAY: Duration = Duration::from_secs(5);

/// Maps CLOCK_MONOTONIC to the wall clock. Clones share the pairs, and the session adds new ones. All spans
/// of a request use the pair in force when it began, live and when its folder is exported.
#[derive(Clone, Debug, Default)]
pub struct WallClock(Arc<Mutex<Vec<ClockPair>>>);

impl WallClock {
    /// A clock with its first pair.
    pub fn new(pair: ClockPair) -> Self {
        Self(Arc::new(Mutex::new(vec![pair])))
    }

    /// The newest pair, for requests that begin from then on.
    pub fn add(&self, pair: ClockPair) {
        clock::add(&mut self.pairs(), pair);
    }

    fn offset_ns(&self, start_ns: u64) -> i64 {
        clock::in_force(&self.pairs(), start_ns, |&pair| pair).offset_ns()
    }

    fn pairs(&self) -> MutexGuard<'_, Vec<ClockPair>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settings of an export.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Endpoint of the command line; none: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT.
    pub endpoint: Option<String>,
    /// Overrides the protocol by port and environment.
    pub protocol: Option<Protocol>,
    /// `service.name`.
    pub service_name: String,
    /// The other resource attributes: `guestscope.*`, `host.*`, `os.*`, `process.*`, `service.namespace`.
    pub resource: Vec<(Cow<'static, str>, Value)>,
    /// Clock of the spans.
    pub clock: WallClock,
    /// The run folder, for spans that cannot be sent.
    pub folder: Option<Directory>,
    /// Owner with whose rights the folder is written; none: the user of this process.
    pub owner: Option<Owner>,
    /// Bounds.
    pub limits: Limits,
}

/// What became of spans that were offered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Taken by the collector.
    pub sent: u64,
    /// Kept until they can be sent.
    pub waiting: u64,
    /// Found no room while the collector was away, or it rejected them.
    pub lost: u64,
    /// Why it cannot be reached now, for people, without credentials.
    pub away: Option<String>,
    /// Why spans were last lost although it can be reached, as when it refuses them; as above.
    pub refused: Option<String>,
}

/// The export of one service. Shareable: all methods take `&self`.
pub struct Exporter {
    queue: Arc<Queue>,
    /// Waits whose requests have not come yet. Only offering threads take this lock.
    waits: Mutex<Keeper>,
    clock: WallClock,
    origin: String,
    /// Closed when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

/// Whether the caller or the environment names a collector.
pub fn is_configured(endpoint: Option<&str>) -> bool {
    settings::is_configured(endpoint, &|name| std::env::var(name).ok())
}

/// Refuses now what [`Exporter::start`] would refuse later, when the program runs already. Makes and unmakes
/// an event loop: not for async callers.
///
/// # Errors
/// The settings are wrong.
pub fn check(endpoint: Option<&str>) -> Result<(), ExportError> {
    let settings = Settings::resolve(endpoint, None, &|name| std::env::var(name).ok())?;
    event_loop(settings).map(drop)
}

impl Exporter {
    /// Starts the export thread. The collector need not be there yet.
    ///
    /// # Errors
    /// The settings are wrong, or there can be no thread.
    pub fn start(config: Config) -> Result<Self, ExportError> {
        Self::start_in(config, &|name| std::env::var(name).ok())
    }

    fn start_in(config: Config, environment: settings::Environment<'_>) -> Result<Self, ExportError> {
        let Config { endpoint, protocol, service_name, resource, clock, folder, owner, limits } = config;
        let settings = Settings::resolve(endpoint.as_deref(), protocol, environment)?;
        let origin = settings.origin.clone();
        let resources = Resources::new(&service_name, resource);
        let queue = Arc::new(Queue::new(limits));
        let keep = Keep::new(folder, limits.spill_bytes);
        let (started, start) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let body = {
            let queue = Arc::clone(&queue);
            // The event loop is made and unmade on its own thread: an async caller may do neither on its own.
            move || {
                // Files named by the settings may be readable by this process's user alone; later only the
                // folder is used.
                let ready = event_loop(settings).and_then(|ready| settle(owner.as_ref()).map(|()| ready));
                let (outcome, ready) = ready.map_or_else(|error| (Err(error), None), |it| (Ok(()), Some(it)));
                // Fails only if the caller is gone.
                let _ = started.send(outcome);
                let Some((runtime, transport)) = ready else { return };
                runtime.block_on(Worker::new(queue, transport, keep, limits, resources).run());
                drop(end);
                // A name server that does not answer would hold a thread of the runtime for too long.
                runtime.shutdown_background();
            }
        };
        thread::Builder::new().name("otlp-export".to_owned()).spawn(body).map_err(ExportError::Thread)?;
        let outcome = start.recv();
        outcome.unwrap_or_else(|_| Err(ExportError::Thread(io::Error::other("it panicked"))))?;
        Ok(Self { queue, waits: Mutex::default(), clock, origin, ended: Mutex::new(ended) })
    }

    /// Keeps a wait for the trace of its request, which is still to be offered. A wait outside all phases is
    /// in no trace; waits beyond the room are counted.
    pub fn wait(&self, wait: Wait) {
        self.waits().add(wait);
    }

    /// Keeps a pause of the guest, for the traces of the requests that it lies in.
    pub fn pause(&self, pause: Pause) {
        self.waits().stopped(pause);
    }

    /// Keeps that the guest was restored or moved, for the traces of the requests that are open.
    pub fn restored(&self, restored: Restored) {
        self.waits().restored(restored);
    }

    /// Keeps what a graphics processor was doing, for the traces of the slow requests that it lies in.
    pub fn gpu(&self, reading: GpuReading) {
        self.waits().gpu(reading);
    }

    /// Keeps work of a GPU for the trace of its request, which is still to be offered.
    pub fn gpu_work(&self, work: GpuWork) {
        self.waits().gpu_work(work);
    }

    /// Drops kept waits after requests were lost: theirs would stay for ever.
    pub fn forget_waits(&self) {
        self.waits().forget();
    }

    /// Takes a finished request. If the queue is full it waits for the disk to take the oldest, for a bounded
    /// part of the time; without room after that the request is counted as dropped.
    pub fn offer(&self, request: Arc<Request>, verdict: LiveVerdict) {
        let offset_ns = request.phases.first().map_or(0, |root| self.clock.offset_ns(root.start_ns));
        self.offer_at(request, verdict, offset_ns);
    }

    /// Takes a finished request whose wall times are shifted by `wall_offset_ns`.
    pub fn offer_at(&self, request: Arc<Request>, verdict: LiveVerdict, wall_offset_ns: i64) {
        let waits = self.waits().take_of(&request, verdict.tail.as_deref());
        self.queue.offer(request, waits, verdict, wall_offset_ns);
    }

    /// Sets whether offering skips waiting for room in the queue.
    pub fn hurry(&self, hurried: bool) {
        self.queue.hurry(hurried);
    }

    /// Spans offered and not yet sent, kept or dropped.
    pub fn pending(&self) -> u64 {
        self.queue.read().0.pending()
    }

    fn waits(&self) -> MutexGuard<'_, Keeper> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is left, within `deadline`, and puts the rest into the run folder. Blocks; a second call
    /// only reads the counters. Requests offered afterwards are dropped.
    pub fn finish(&self, deadline: Duration) -> ExportHealth {
        let by = Instant::now() + deadline;
        self.queue.finish_by(by);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = ended.recv_timeout(by.saturating_duration_since(Instant::now()) + PUT_AWAY);
        if outcome == Err(RecvTimeoutError::Timeout) {
            self.queue.unkept(
                "the export thread did not come to its end: the disk or the network is stuck".to_owned(),
            );
        }
        self.queue.close();
        self.health()
    }

    /// Counters so far. Spans still in the queue are in none of them.
    pub fn health(&self) -> ExportHealth {
        let ((books, error), names) = (self.queue.read(), self.queue.names());
        let kept = |spans: u64, file| (spans > 0).then(|| format!("{spans} spans are kept in {file}"));
        let waiting = kept(books.spilled.saturating_sub(books.refused), names.waiting);
        let notes = [error, waiting, kept(books.refused, names.refused)];
        ExportHealth {
            endpoint: Some(self.origin.clone()),
            spans_sent: books.sent,
            traces_sent: books.traces_sent,
            spans_spilled: books.spilled,
            spans_dropped: books.dropped,
            spans_rejected: books.rejected,
            waits_left_out: self.waits().no_room,
            last_error: notes.into_iter().flatten().reduce(|notes, note| format!("{notes}; {note}")),
        }
    }

    /// What became of the spans so far.
    pub fn delivered(&self) -> Delivered {
        let (books, away, refused) = self.queue.reached();
        let (lost, waiting) = (books.dropped + books.rejected, books.pending() + books.spilled);
        Delivered { sent: books.sent - books.rejected, waiting, lost, away, refused }
    }

    /// Why spans did not arrive, for people, where no folder was meant to keep them.
    pub fn why_not_sent(&self) -> Option<String> {
        let error = self.health().last_error?;
        let notes = error.split("; ").filter(|note| *note != spill::NO_FOLDER).collect::<Vec<_>>();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

impl Drop for Exporter {
    /// Without [`Exporter::finish`] nothing more is sent: the rest goes to the run folder.
    fn drop(&mut self) {
        if self.queue.deadline().is_none() {
            self.finish(Duration::ZERO);
        }
    }
}

/// Assumes the rights that the folder needs, and drops all others.
fn settle(owner: Option<&Owner>) -> Result<(), ExportError> {
    let assumed = owner.map_or(Ok(()), Owner::assume_for_good);
    assumed.and_then(|()| privileges::drop_all()).map_err(ExportError::Thread)
}

/// The runtime and transport of the thread.
fn event_loop(settings: Settings) -> Result<(Runtime, Transport), ExportError> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(ExportError::Thread)?;
    let transport = {
        let _context = runtime.enter();
        Transport::new(settings)?
    };
    Ok((runtime, transport))
}
