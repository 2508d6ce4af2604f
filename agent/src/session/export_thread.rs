//! Everything that leaves the agent while the program runs: rows, traces, the progress line, on a thread of
//! its own.
//!
//! The pump hands over what pairing yields and never waits: if a stuck disk holds this thread for so long
//! that the channel is full, requests are counted as lost. Nothing is computed here but running quantiles.
//! This thread alone has the rights to write the folder, so it closes it as well.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Sender, SyncSender, TrySendError, channel, sync_channel},
    },
    thread::JoinHandle,
};

use super::{attendant::Stretch, outputs::Sinks};
use crate::{
    clock::ClockPair,
    folder::{GpuRecord, Sample},
    phase::{AllUnfinished, Restored, Unfinished, pairing::Output},
};

/// Batches between the pump and this thread: at one per 50 ms, 25 s of a stuck disk.
const BATCHES: usize = 512;
/// Most bytes in the channel: some 24,000 phases, 3 s of a stuck disk at 2,000 requests a second of four
/// phases. One message fits whatever its size.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// Message from the pump's thread.
pub(super) enum Message {
    Outputs(Vec<Output>),
    /// Outputs were lost at this point.
    Gap,
    Samples(Vec<Sample>),
    Clock(ClockPair),
    Restored(Restored),
    Gpu(Box<GpuRecord>),
    Unfinished(AllUnfinished),
    Stretch(Box<Stretch>),
}

/// Last work of the thread.
type Last = Box<dyn FnOnce(Sinks) + Send>;

/// The pump's handle of the thread.
pub(crate) struct ExportThread {
    sender: SyncSender<Message>,
    last: Sender<Last>,
    thread: JoinHandle<()>,
    /// Bytes in the channel.
    on_the_way: Arc<AtomicUsize>,
    /// Rows lost because the channel was full.
    pub(crate) rows_lost: u64,
    /// Rows were lost, and the thread has not been informed yet.
    gap: bool,
}

impl Message {
    /// Approximate memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Message::Outputs(outputs) => outputs.iter().map(Output::bytes).sum(),
            Message::Samples(samples) => samples.len() * size_of::<Sample>(),
            Message::Unfinished(all) => size_of::<Self>() + all.requests.len() * size_of::<Unfinished>(),
            Message::Gap
            | Message::Clock(_)
            | Message::Restored(_)
            | Message::Gpu(_)
            | Message::Stretch(_) => size_of::<Self>(),
        }
    }
}

impl ExportThread {
    /// Starts the thread, which settles first.
    ///
    /// # Errors
    /// There can be no thread, or it cannot settle.
    pub(crate) fn start(
        sinks: Sinks,
        settle: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(BATCHES);
        let on_the_way = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&on_the_way);
        let (last, to_do) = channel::<Last>();
        let (settled, has_settled) = channel();
        let body = move || {
            let outcome = settle();
            let goes_on = outcome.is_ok();
            // Fails only if the caller is gone.
            let _ = settled.send(outcome);
            if !goes_on {
                return;
            }
            let sinks = sinks.run(&receiver, &theirs);
            if let Ok(last) = to_do.recv() {
                last(sinks);
            }
        };
        let thread = std::thread::Builder::new().name("export".to_owned()).spawn(body)?;
        has_settled.recv().unwrap_or_else(|_| Err(io::Error::other("it panicked")))?;
        Ok(Self { sender, last, thread, on_the_way, rows_lost: 0, gap: false })
    }

    fn send(&mut self, message: Message) {
        // First of all, or waits of lost requests would be kept for ever.
        if self.gap {
            self.gap = self.try_send(Message::Gap).is_err();
        }
        if let Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) = self.try_send(message)
            && let Message::Outputs(outputs) = message
        {
            self.gap = true;
            let rows = outputs.iter().map(|output| match output {
                Output::Request(request) => request.phases.len() as u64,
                Output::Thread(_)
                | Output::Mark(_)
                | Output::Wait(_)
                | Output::GpuWork(_)
                | Output::Pause(_) => 1,
            });
            self.rows_lost += rows.sum::<u64>();
        }
    }

    fn try_send(&self, message: Message) -> Result<(), TrySendError<Message>> {
        let bytes = message.bytes();
        let before = self.on_the_way.load(Relaxed);
        if before > 0 && before + bytes > MOST_BYTES {
            return Err(TrySendError::Full(message));
        }
        self.on_the_way.fetch_add(bytes, Relaxed);
        let sent = self.sender.try_send(message);
        if sent.is_err() {
            self.on_the_way.fetch_sub(bytes, Relaxed);
        }
        sent
    }

    /// Outputs of pairing.
    pub(crate) fn outputs(&mut self, outputs: Vec<Output>) {
        if !outputs.is_empty() {
            self.send(Message::Outputs(outputs));
        }
    }

    /// Samples of the guest, the agent and graphics processors.
    pub(crate) fn samples(&mut self, samples: Vec<Sample>) {
        if !samples.is_empty() {
            self.send(Message::Samples(samples));
        }
    }

    /// The guest was restored or moved.
    pub(crate) fn restored(&mut self, restored: Restored) {
        self.send(Message::Restored(restored));
    }

    /// The record of graphics processors.
    pub(crate) fn gpu(&mut self, record: GpuRecord) {
        self.send(Message::Gpu(Box::new(record)));
    }

    /// Requests without an end.
    pub(crate) fn unfinished(&mut self, all: AllUnfinished) {
        self.send(Message::Unfinished(all));
    }

    /// What was seen during some seconds.
    pub(crate) fn stretch(&mut self, stretch: Stretch) {
        self.send(Message::Stretch(Box::new(stretch)));
    }

    /// A clock pair.
    pub(crate) fn clock(&mut self, pair: ClockPair) {
        self.send(Message::Clock(pair));
    }

    /// Waits until everything is out, then runs `last` on the thread, which alone may close the folder. None
    /// if that failed.
    pub(crate) fn finish<T: Send + 'static>(
        self,
        last: impl FnOnce(Sinks) -> T + Send + 'static,
    ) -> Option<T> {
        let (done, outcome) = channel();
        let last = move |sinks| {
            // Fails only if the caller is gone.
            let _ = done.send(last(sinks));
        };
        self.last.send(Box::new(last)).ok()?;
        drop(self.sender);
        let outcome = outcome.recv().ok();
        self.thread.join().ok()?;
        outcome
    }
}

#[cfg(test)]
mod tests;
