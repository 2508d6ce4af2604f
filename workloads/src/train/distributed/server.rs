//! The parameter server: hands out parameters and takes gradients until all workers have left. Yields a
//! report, or the reason why the job ended early, which it also tells each worker still there.
//!
//! Its work for a worker's step is requests in the trace of that step: `pull` (phases `wait`, for the others'
//! gradients, `copy`, and `send`, until the connection has all of it) and `push` (`receive`, `optimizer`).

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use guestscope_marker::{in_phase, in_request};
use tokio::{
    net::TcpListener,
    runtime::Builder,
    sync::{mpsc, oneshot, watch},
    task::block_in_place,
    time::timeout,
};
use tonic::{
    Request, Response, Status, Streaming,
    codegen::{
        Bytes, Pin,
        tokio_stream::{Stream, wrappers::ReceiverStream},
    },
    metadata::MetadataMap,
    transport::{self, server::TcpIncoming},
};

use super::{
    Server,
    error::{DistributedError, Failure},
    members::{self, Members},
    messages::{Chunk, Presence, Row, Taken, Wanted, Welcome, Word, chunks, to_bytes},
    parameters::Parameters,
    report::{self, Served},
    sending::Sending,
    service::Service,
    trace,
    turns::Turns,
};
use crate::{
    error::Error,
    libtorch,
    memory::NoRoom,
    train::{Settings, learner, models::Network},
};

/// A row on its way to a worker.
pub type Chunks = Pin<Box<dyn Stream<Item = Result<Chunk, Status>> + Send>>;

/// Bytes in flight to one peer without an acknowledgement: enough for 1 Gb/s over 30 ms.
pub(super) const WINDOW_BYTES: u32 = 4 << 20;
/// Time between two checks for late workers.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Time that peers have to disconnect after the end.
const PARTING: Duration = Duration::from_secs(1);
/// Concurrent streams of each worker: two rows, one attendance, and room.
const STREAMS: u32 = 16;

/// State shared by all calls.
#[derive(Clone)]
pub struct Shared(Arc<Inner>);

struct Inner {
    parameters: Mutex<Parameters>,
    /// The newest version that was asked for, as bytes.
    copy: Mutex<Option<(u64, Bytes)>>,
    members: watch::Sender<Members>,
    turns: Mutex<Turns>,
    worker_limit: Duration,
    welcome: Welcome,
    limit: Duration,
    length: usize,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

pub(super) fn run(settings: &Settings, server: &Server) -> Result<Served, Error> {
    let start = Instant::now();
    libtorch::set_threads(settings.threads);
    let Settings { model, seed, learning_rate, .. } = *settings;
    let Server { workers, asynchronous, limit, worker_limit, .. } = *server;
    let values = learner::parameters(&Network::seeded(model, seed)?.store)?;
    let served = members::Served { model: model.name, seed };
    let shared = Shared(Arc::new(Inner {
        length: values.len(),
        parameters: Mutex::new(Parameters::new(values, learning_rate, workers, asynchronous)),
        copy: Mutex::new(None),
        members: watch::Sender::new(Members::new(served, workers)),
        turns: Mutex::new(Turns::new(workers, worker_limit)),
        worker_limit,
        welcome: Welcome { workers, asynchronous, learning_rate },
        limit,
        received_bytes: AtomicU64::new(0),
        sent_bytes: AtomicU64::new(0),
    }));
    // One for each worker's call and one for heartbeats; at least two, since arithmetic occupies one.
    let threads = (workers as usize + 1).clamp(2, 16);
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(DistributedError::Runtime)?;
    let result = runtime.block_on(shared.clone().serve(&server.listen));
    runtime.shutdown_timeout(PARTING);
    result?;
    Ok(shared.report(settings, server, start))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A call that panicked has changed all or nothing of what the lock protects.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    async fn serve(self, address: &str) -> Result<(), DistributedError> {
        let unable = |source| DistributedError::Listen { address: address.to_owned(), source };
        let listener = TcpListener::bind(address).await.map_err(unable)?;
        let own = listener.local_addr().map_err(unable)?;
        crate::output::say(format_args!("listening on {own}"));
        let (stop, stopped) = oneshot::channel::<()>();
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let serving = transport::Server::builder()
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_concurrent_streams(STREAMS)
            .serve_with_incoming_shutdown(Service(self.clone()), incoming, async {
                let _ = stopped.await;
            });
        let serving = tokio::spawn(serving);
        let failure = self.until_over().await;
        let _ = stop.send(());
        // The workers' connections end when the workers do; one that hangs would never.
        let ended = timeout(PARTING, serving).await;
        match (failure, ended) {
            (Some(failure), _) => Err(failure.into()),
            (None, Ok(Ok(Err(error)))) => Err(DistributedError::Serve(error.to_string())),
            (None, _) => Ok(()),
        }
    }

    /// Waits until all workers came and left, or one of them fails to.
    async fn until_over(&self) -> Option<Failure> {
        let mut members = self.0.members.subscribe();
        let complete = members.wait_for(|members| members.is_complete() || members.failure.is_some());
        let is_late = timeout(self.0.limit, complete).await.is_err();
        if is_late {
            self.0.members.send_modify(|members| {
                let (came, workers) = (members.came(), self.0.welcome.workers);
                members.fail(Failure::Missing { came, workers, seconds: self.0.limit.as_secs() });
            });
        }
        loop {
            let over = members.wait_for(|members| members.is_over() || members.failure.is_some());
            match timeout(LOOK_EVERY, over).await {
                Ok(over) => return over.ok().and_then(|members| members.failure.clone()),
                Err(_) => self.look_for_the_late(),
            }
        }
    }

    fn look_for_the_late(&self) {
        let late = lock(&self.0.turns).late(Instant::now());
        if let Some(rank) = late {
            let seconds = self.0.worker_limit.as_secs();
            self.0.members.send_modify(|members| members.fail(Failure::WorkerLate { rank, seconds }));
        }
    }

    /// The worker has what it needs for its next gradient.
    fn begin_turn(&self, rank: u32) {
        lock(&self.0.turns).begin(rank, Instant::now());
    }

    fn end_turn(&self, rank: u32) {
        lock(&self.0.turns).end(rank);
    }

    fn is_here(&self, rank: u32) -> Result<(), Status> {
        let is_here = self.0.members.borrow().is_here(rank);
        is_here
            .then_some(())
            .ok_or_else(|| Status::failed_precondition(format!("rank {rank} has not joined")))
    }

    /// A worker joins, and is a member as long as its heartbeats come.
    pub(super) async fn attend(
        &self,
        words: Request<Streaming<Word>>,
    ) -> Result<Response<ReceiverStream<Result<Presence, Status>>>, Status> {
        let mut words = words.into_inner();
        let silent = |_| Status::deadline_exceeded("nothing was said");
        let first = timeout(self.0.limit, words.message()).await.map_err(silent)??;
        let Some(join) = first.and_then(|word| word.join) else {
            return Err(Status::invalid_argument("the first word is not to join"));
        };
        let mut joined = Ok(());
        self.0.members.send_modify(|members| joined = members.join(&join));
        joined.map_err(Status::failed_precondition)?;
        self.begin_turn(join.rank);
        crate::output::say(format_args!("worker {} joined", join.rank));
        let (answers, stream) = mpsc::channel(8);
        let welcome = Some(self.0.welcome);
        // The channel is empty, so there is room.
        let _ = answers.try_send(Ok(Presence { welcome }));
        tokio::spawn(self.clone().listen(join.rank, words, answers));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    /// Answers each word until the last one, or until the stream ends.
    async fn listen(
        self,
        rank: u32,
        mut words: Streaming<Word>,
        answers: mpsc::Sender<Result<Presence, Status>>,
    ) {
        let mut members = self.0.members.subscribe();
        loop {
            let word = tokio::select! {
                word = timeout(self.0.limit, words.message()) => word,
                failed = members.wait_for(|members| members.failure.is_some()) => {
                    let reason = failed.ok().and_then(|members| members.failure.clone());
                    let reason = reason.map_or_else(String::new, |failure| failure.to_string());
                    let _ = answers.try_send(Err(Status::aborted(reason)));
                    return;
                }
            };
            let failure = match word {
                Ok(Ok(Some(Word { leave: Some(leave), .. }))) => match leave.error {
                    None => {
                        self.end_turn(rank);
                        return self.0.members.send_modify(|members| members.leave(rank));
                    }
                    Some(reason) => Failure::WorkerFailed { rank, reason },
                },
                Ok(Ok(Some(_))) => {
                    // A worker that reads no answers does not need another one.
                    let _ = answers.try_send(Ok(Presence { welcome: None }));
                    continue;
                }
                Ok(Ok(None)) => Failure::WorkerGone { rank, reason: "it hung up".to_owned() },
                Ok(Err(status)) => Failure::WorkerGone { rank, reason: status.message().to_owned() },
                Err(_) => {
                    let reason = format!("it has said nothing for {} s", self.0.limit.as_secs());
                    Failure::WorkerGone { rank, reason }
                }
            };
            self.0.members.send_modify(|members| members.fail(failure));
        }
    }

    /// Waits for parameters of the wanted version or a newer one.
    pub(super) fn pull(&self, wanted: Request<Wanted>) -> Result<Response<Chunks>, Status> {
        let (metadata, _, Wanted { rank, version }) = wanted.into_parts();
        self.is_here(rank)?;
        self.end_turn(rank);
        let shared = self.clone();
        let answer = |chunks: mpsc::Sender<Result<Chunk, Status>>| {
            in_request("pull", version, async move {
                if let Err(status) = shared.hand_out(rank, version, &metadata, &chunks).await {
                    // There is room: nothing was sent before it failed.
                    let _ = chunks.send(Err(status)).await;
                }
            })
        };
        Ok(Response::new(Box::pin(Sending::new(answer)) as Chunks))
    }

    async fn hand_out(
        &self,
        rank: u32,
        version: u64,
        metadata: &MetadataMap,
        answer: &mpsc::Sender<Result<Chunk, Status>>,
    ) -> Result<(), Status> {
        let there = in_phase("wait", async {
            join_trace(metadata);
            let mut members = self.0.members.subscribe();
            let there = members.wait_for(|members| members.failure.is_some() || members.version >= version);
            there.await.map(|members| members.failure.clone())
        });
        if let Ok(Some(failure)) = there.await {
            return Err(Status::aborted(failure.to_string()));
        }
        let copy = in_phase("copy", async { block_in_place(|| self.copy()) }).await;
        let (version, row) = copy.map_err(no_room)?;
        self.0.sent_bytes.fetch_add(row.len() as u64, Ordering::Relaxed);
        self.begin_turn(rank);
        in_phase("send", async {
            for chunk in chunks(row, rank, version) {
                // Only the reader of the answer polls this future, so the receiver exists.
                let _ = answer.send(Ok(chunk)).await;
            }
            // Room again means that the last chunk was taken too.
            let _ = answer.reserve().await;
        })
        .await;
        Ok(())
    }

    /// The newest version as bytes, made once for all workers.
    fn copy(&self) -> Result<(u64, Bytes), NoRoom> {
        let mut copy = lock(&self.0.copy);
        let parameters = lock(&self.0.parameters);
        Ok(match &*copy {
            Some((version, row)) if *version == parameters.version() => (*version, row.clone()),
            _ => copy.insert((parameters.version(), to_bytes(parameters.values())?)).clone(),
        })
    }

    /// Takes a gradient.
    pub(super) async fn push(&self, row: Request<Streaming<Chunk>>) -> Result<Response<Taken>, Status> {
        let (metadata, _, mut stream) = row.into_parts();
        let first =
            stream.message().await?.ok_or_else(|| Status::invalid_argument("a gradient of no chunks"))?;
        let (rank, version) = (first.rank, first.version);
        self.is_here(rank)?;
        let refuse = |refusal: super::parameters::Refusal| Status::invalid_argument(refusal.to_string());
        lock(&self.0.parameters).check(rank, version).map_err(refuse)?;
        in_request("push", version, async {
            let receive = async {
                join_trace(&metadata);
                self.receive(first, stream).await
            };
            let gradient = in_phase("receive", receive).await?;
            let version = in_phase("optimizer", async {
                let version = block_in_place(|| {
                    let mut parameters = lock(&self.0.parameters);
                    parameters.push(rank, version, gradient).map_err(refuse)?;
                    Ok::<_, Status>(parameters.version())
                })?;
                self.begin_turn(rank);
                // Waking the waiting workers takes 15 to 450 us of a push's milliseconds: in a phase.
                self.0.members.send_modify(|members| members.version = members.version.max(version));
                Ok::<_, Status>(version)
            })
            .await?;
            Ok(Response::new(Taken { version }))
        })
        .await
    }

    async fn receive(&self, first: Chunk, mut stream: Streaming<Chunk>) -> Result<Vec<f32>, Status> {
        let length = self.0.length;
        let mut row = Row::new(length).map_err(no_room)?;
        let mut next = Some(first);
        while let Some(chunk) = next {
            self.0.received_bytes.fetch_add(chunk.values.len() as u64, Ordering::Relaxed);
            if !row.add(&chunk.values) {
                let found = row.len() + chunk.values.len() / 4;
                return Err(Status::out_of_range(format!("{found} numbers or more instead of {length}")));
            }
            next = stream.message().await?;
        }
        let found = row.len();
        row.whole().ok_or_else(|| Status::out_of_range(format!("{found} numbers instead of {length}")))
    }

    fn report(&self, settings: &Settings, server: &Server, start: Instant) -> Served {
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        let parameters = lock(&self.0.parameters);
        let parameters_hash = learner::hash(parameters.values());
        // All workers have come, or this would be an error instead.
        let (steps, batch) = self.0.members.borrow().work().unwrap_or_default();
        Served {
            name: format!("train {} --role ps", settings.model.name),
            model: settings.model.what,
            parameters: parameters.values().len() as u64,
            batch,
            steps,
            workers: server.workers,
            asynchronous: server.asynchronous,
            seed: settings.seed,
            learning_rate: settings.learning_rate,
            updates: parameters.version(),
            gradients: parameters.staleness().gradients,
            staleness_sum: parameters.staleness().sum,
            staleness_most: parameters.staleness().most,
            received_bytes: self.0.received_bytes.load(Ordering::Relaxed),
            sent_bytes: self.0.sent_bytes.load(Ordering::Relaxed),
            elapsed_ns,
            parameters_hash,
            work_hash: report::work_hash(settings, server, steps, batch),
            output_hash: (!server.asynchronous).then_some(parameters_hash),
        }
    }
}

fn no_room(error: NoRoom) -> Status {
    Status::resource_exhausted(error.to_string())
}

/// Puts the open request into the caller's trace, if any. In a phase: it takes as long as an edge.
fn join_trace(metadata: &MetadataMap) {
    let header = metadata.get(trace::KEY).and_then(|header| header.to_str().ok());
    if let Some(parent) = header.and_then(trace::parse) {
        guestscope_marker::context(parent.trace, parent.span);
    }
}
