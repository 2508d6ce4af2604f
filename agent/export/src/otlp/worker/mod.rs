//! The export thread: takes from the queue, sends, retries, spills, and never loses a span without counting
//! it.
//!
//! At any time a span is in one place: the queue, the request that is being turned into spans, the batches in
//! hand, or a file. Short outages are waited out with the batch in hand; only when the queue is half full
//! does its older part go to the spill file, so a collector's restart costs the observed machine no disk
//! writes. Live spans and those from the file take turns, the latter in order and at a bounded rate.

mod resend;
mod settle;

#[cfg(test)]
pub(super) use resend::resend_pause;

use std::{
    collections::VecDeque,
    future::{Future, pending},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{collector::trace::v1::ExportTraceServiceRequest, trace::v1::Span};
use tokio::{select, task::yield_now, time::sleep_until};

use super::{
    Limits,
    backoff::Backoff,
    keep::Keep,
    message::{self, span_bytes},
    queue::{Due, Queue},
    service::{PerService, Resources, Service},
    spans::Trace,
    transport::Transport,
};

/// Delay between attempts to write to a file that failed.
const KEEP_AGAIN: Duration = Duration::from_secs(1);

/// Spans that are sent together.
struct Batch {
    request: ExportTraceServiceRequest,
    attempts: u32,
    origin: Origin,
}

/// Where else a batch is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Nowhere.
    Queue,
    /// In the spill file's oldest message, as its last part or an earlier one.
    File { last_part: bool },
}

impl Batch {
    fn len(&self) -> u64 {
        message::count(&self.request)
    }
}

/// What to do after an attempt.
enum Next {
    Send,
    Pause(Duration),
    GiveUp,
}

/// The thread's state.
pub(super) struct Worker {
    queue: Arc<Queue>,
    transport: Arc<Transport>,
    resources: Resources,
    limits: Limits,
    /// Most bytes of a batch's spans: the rest is the resources.
    batch_bytes: usize,
    /// Most spans of a batch: falls when the collector finds batches too large.
    batch_spans: usize,
    hand: VecDeque<Batch>,
    open: Option<Trace>,
    /// A span that did not fit into the last batch.
    left_over: Option<(Service, Span)>,
    keep: Keep,
    /// Batch that the spill file did not take, and when to try again.
    unkept: Option<(Batch, Instant)>,
    file_turn: bool,
    resend_at: Instant,
    backoff: Backoff,
    failures: u32,
}

impl Worker {
    /// A worker that sends over this transport what the queue and the files have.
    pub(super) fn new(
        queue: Arc<Queue>,
        transport: Transport,
        keep: Keep,
        limits: Limits,
        resources: Resources,
    ) -> Self {
        Self {
            queue,
            transport: Arc::new(transport),
            batch_bytes: limits.batch_bytes.saturating_sub(resources.bytes()),
            resources,
            batch_spans: limits.batch_spans.max(1),
            limits,
            hand: VecDeque::new(),
            open: None,
            left_over: None,
            keep,
            unkept: None,
            file_turn: false,
            resend_at: Instant::now(),
            backoff: Backoff::new(limits.first_delay),
            failures: 0,
        }
    }

    /// Runs until the end has come and everything is sent or put away.
    pub(super) async fn run(mut self) {
        while let Some(batch) = self.next().await {
            let transport = Arc::clone(&self.transport);
            let Some(delivery) = self.meanwhile(transport.send(&batch.request)).await else {
                self.hand.push_front(batch);
                break;
            };
            match self.settle(batch, delivery) {
                Next::Send => {}
                Next::Pause(delay) => self.pause(delay).await,
                Next::GiveUp => break,
            }
        }
        self.put_away();
    }

    /// The next batch: what is in hand first, then the file and the queue in turns. None at the end.
    async fn next(&mut self) -> Option<Batch> {
        loop {
            let deadline = self.queue.deadline();
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return None;
            }
            if let Some(batch) = self.hand.pop_front().or_else(|| self.unkept.take().map(|(batch, _)| batch))
            {
                return Some(batch);
            }
            self.file_turn = !self.file_turn;
            let found = if self.file_turn { self.oldest_in_file() } else { self.due_in_queue() };
            let found =
                found.or_else(|| if self.file_turn { self.due_in_queue() } else { self.oldest_in_file() });
            if found.is_some() {
                return found;
            }
            if deadline.is_some() {
                return None;
            }
            self.idle().await;
        }
    }

    /// Waits until there may be something to send.
    async fn idle(&mut self) {
        let linger = match self.queue.due() {
            Due::Now => return,
            Due::At(at) => Some(at),
            Due::Never => None,
        };
        let resend = (self.keep.waiting() > 0).then_some(self.resend_at);
        select! {
            () = self.queue.changed.notified() => {}
            () = until(linger) => {}
            () = until(resend) => {}
        }
    }

    /// Runs `work` to its end, and meanwhile keeps the queue from overflowing. None when the deadline passes
    /// before.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            let more = self.relieve();
            let deadline = self.queue.deadline();
            select! {
                done = &mut work => return Some(done),
                () = yield_now(), if more => {}
                () = self.queue.changed.notified() => {}
                () = until(deadline) => return None,
            }
        }
    }

    /// Waits, but no longer than until the end comes, which is worth one more attempt at once.
    async fn pause(&mut self, delay: Duration) {
        let over = Instant::now() + delay;
        let was_ending = self.queue.deadline().is_some();
        loop {
            let more = self.relieve();
            let deadline = self.queue.deadline();
            if deadline.is_some() && !was_ending {
                return;
            }
            select! {
                () = until(Some(over)) => return,
                () = yield_now(), if more => {}
                () = self.queue.changed.notified() => {}
                () = until(deadline) => return,
            }
        }
    }

    fn oldest_in_file(&mut self) -> Option<Batch> {
        if self.resend_at > Instant::now() && self.queue.deadline().is_none() {
            return None;
        }
        loop {
            return match self.keep.oldest()? {
                Ok(request) => Some(Batch { request, attempts: 0, origin: Origin::File { last_part: true } }),
                Err((lost, error)) => {
                    self.keep.leave_behind();
                    self.queue.unkept(error);
                    self.queue.book(|books| {
                        books.spilled -= lost;
                        books.dropped += lost;
                    });
                    continue;
                }
            };
        }
    }

    fn due_in_queue(&mut self) -> Option<Batch> {
        let open = self.open.as_ref().is_some_and(|trace| trace.len() > 0);
        let started = open || self.left_over.is_some();
        (started || self.queue.due() == Due::Now).then(|| self.fill(self.batch_spans)).flatten()
    }

    /// The oldest spans that make a batch, or none.
    fn fill(&mut self, most: usize) -> Option<Batch> {
        let spans = self.collect(most);
        let request = self.resources.request(spans);
        let is_some = !request.resource_spans.is_empty();
        is_some.then_some(Batch { request, attempts: 0, origin: Origin::Queue })
    }

    /// Takes up to `most` of the oldest spans, and as many bytes as a batch may have.
    fn collect(&mut self, most: usize) -> PerService<Vec<Span>> {
        let mut spans = PerService::<Vec<Span>>::default();
        let mut bytes = 0;
        for taken in 0..most {
            let Some((service, span)) = self.next_span() else { break };
            bytes += span_bytes(&span);
            if bytes > self.batch_bytes && taken > 0 {
                self.left_over = Some((service, span));
                break;
            }
            spans.get_mut(service).push(span);
        }
        spans
    }

    fn next_span(&mut self) -> Option<(Service, Span)> {
        if let Some(span) = self.left_over.take() {
            return Some(span);
        }
        loop {
            if let Some(span) = self.open.as_mut().and_then(Iterator::next) {
                return Some(span);
            }
            self.open = Some(self.queue.pop()?);
        }
    }

    /// Moves a batch from a queue that is more than half full to the spill file. True if there may be more to
    /// move: one at a time, because sending goes on between them.
    fn relieve(&mut self) -> bool {
        if !self.queue.is_under_pressure() {
            return false;
        }
        let batch = match self.unkept.take() {
            Some((batch, again)) if again > Instant::now() => {
                self.unkept = Some((batch, again));
                return false;
            }
            Some((batch, _)) => Some(batch),
            None => self.fill(self.limits.batch_spans.max(1)),
        };
        match batch.map(|batch| self.spill(batch)) {
            Some(Ok(())) => true,
            Some(Err(batch)) => {
                self.queue.stuck();
                self.unkept = Some((batch, Instant::now() + KEEP_AGAIN));
                false
            }
            None => false,
        }
    }

    /// Writes a batch to the spill file, or gives it back.
    fn spill(&mut self, batch: Batch) -> Result<(), Batch> {
        match self.keep.spill(&batch.request) {
            Ok(()) => {
                self.queue.book(|books| books.spilled += batch.len());
                Ok(())
            }
            Err(error) => {
                self.queue.unkept(error);
                Err(batch)
            }
        }
    }

    /// At the end unsent spans go to the spill file; what it does not take is lost. A message sent in part
    /// stays whole: sending it again does no harm, since receivers know a span by its ids.
    fn put_away(&mut self) {
        let unkept = self.unkept.take().map(|(batch, _)| batch);
        let hand = std::mem::take(&mut self.hand).into_iter().chain(unkept);
        let mut rest: VecDeque<Batch> = hand.filter(|batch| batch.origin == Origin::Queue).collect();
        while let Some(batch) = rest.pop_front().or_else(|| self.fill(self.limits.batch_spans.max(1))) {
            if let Err(batch) = self.spill(batch) {
                self.queue.book(|books| books.dropped += batch.len());
            }
        }
        let (names, outcome) = self.keep.close();
        self.queue.rename(names);
        if let Err(error) = outcome {
            self.queue.unkept(error);
        }
    }
}

/// Waits until `at`; for ever if there is none.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => pending().await,
    }
}
