//! Everything that leaves the agent while the program runs: rows, traces, the progress line, on a thread of
//! its own.
//!
//! The pump hands over what pairing yields and never waits: if a stuck disk holds this thread for so long
//! that the channel is full, requests are counted as lost. Nothing is computed here but running quantiles.
//! This thread alone has the rights to write the folder, so it closes it as well.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::signals::Haste;
use crate::{
    analyze::{Live, TailVerdict},
    clock::ClockPair,
    folder::{GpuRecord, RunFolder, Sample},
    phase::{AllUnfinished, PhaseKind, Request, Restored, Unfinished, pairing::Output},
    platform::{Devices, Groups, Root},
    sinks::{
        otlp::{Exporter, LiveVerdict, WallClock},
        terminal::Progress,
    },
};

/// Batches between the pump and this thread: at one per 50 ms, 25 s of a stuck disk.
const BATCHES: usize = 512;
/// Most bytes in the channel: some 24,000 phases, 3 s of a stuck disk at 2,000 requests a second of four
/// phases. One message fits whatever its size.
const MOST_BYTES: usize = 16 << 20;
/// Interval between flushes: a crash loses at most this much.
const FLUSH: Duration = Duration::from_secs(1);
/// Work of GPUs is told at most so long after the end of its request, where it is recorded.
const LATE: Duration = Duration::from_secs(1);
/// Most phases of requests that wait for it: 0.7 KB each.
const MOST_LATE: usize = 8192;
/// Most processes kept for the export until it is known whether the program marks phases.
const PROCESSES: usize = 1000;

/// Message from the pump's thread.
enum Message {
    Outputs(Vec<Output>),
    /// Outputs were lost at this point.
    Gap,
    Samples(Vec<Sample>),
    Clock(ClockPair),
    Restored(Restored),
    Gpu(Box<GpuRecord>),
    Unfinished(AllUnfinished),
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

/// Outputs of the thread, given back at the end.
pub(crate) struct Sinks {
    pub(crate) folder: RunFolder,
    pub(crate) exporter: Option<Exporter>,
    pub(crate) wall: WallClock,
    pub(crate) progress: Progress,
    live: Live,
    /// The program marks phases, so its processes are no traces of their own.
    marked: bool,
    processes: VecDeque<Arc<Request>>,
    /// Work of GPUs is recorded: requests wait for it before they are exported.
    is_traced: bool,
    waiting: VecDeque<(Instant, Arc<Request>, LiveVerdict)>,
    /// Phases of those.
    waiting_phases: usize,
    flushed: Instant,
    devices: Devices,
    groups: Groups,
    haste: Haste,
}

impl Message {
    /// Approximate memory, bytes.
    fn bytes(&self) -> usize {
        match self {
            Message::Outputs(outputs) => outputs.iter().map(Output::bytes).sum(),
            Message::Samples(samples) => samples.len() * size_of::<Sample>(),
            Message::Unfinished(all) => size_of::<Self>() + all.requests.len() * size_of::<Unfinished>(),
            Message::Gap | Message::Clock(_) | Message::Restored(_) | Message::Gpu(_) => size_of::<Self>(),
        }
    }
}

impl Sinks {
    pub(crate) fn new(
        folder: RunFolder,
        exporter: Option<Exporter>,
        wall: WallClock,
        progress: Progress,
        haste: Haste,
    ) -> Self {
        Self {
            folder,
            exporter,
            wall,
            progress,
            live: Live::new(),
            marked: false,
            processes: VecDeque::new(),
            is_traced: false,
            waiting: VecDeque::new(),
            waiting_phases: 0,
            flushed: Instant::now(),
            devices: Devices::below(Root::system()),
            groups: Groups::below(Root::system()),
            haste,
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Outputs(outputs) => outputs.into_iter().for_each(|output| self.output(output)),
            Message::Gap => self.exporter.iter().for_each(Exporter::forget_waits),
            Message::Samples(samples) => samples.iter().for_each(|sample| self.sample(sample)),
            Message::Gpu(record) => {
                self.is_traced |= record.trace.as_ref().is_some_and(|trace| trace.programs > 0);
                self.folder.update_manifest(|manifest| manifest.gpu = *record);
            }
            Message::Unfinished(all) => {
                self.folder.update_manifest(|manifest| manifest.unfinished = (&all).into());
            }
            Message::Restored(restored) => {
                self.exporter.iter().for_each(|exporter| exporter.restored(restored));
                self.folder.update_manifest(|manifest| manifest.add_restored(restored));
            }
            Message::Clock(pair) => {
                self.wall.add(pair);
                self.folder.update_manifest(|manifest| manifest.add_clock(super::facts::pair(pair)));
            }
        }
    }

    fn sample(&mut self, sample: &Sample) {
        if let (Some(exporter), Some(reading)) = (&self.exporter, sample.gpu) {
            exporter.gpu(reading);
        }
        self.folder.append_sample(sample);
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Request(request) => self.request(Arc::new(request)),
            Output::Thread(thread) => self.folder.append_thread(&thread),
            Output::Mark(mark) => self.folder.append_mark(&mark),
            Output::GpuWork(work) => {
                self.folder.append_gpu_work(&work);
                if let Some(exporter) = &self.exporter {
                    exporter.gpu_work(*work);
                }
            }
            Output::Pause(pause) => self.exporter.iter().for_each(|exporter| exporter.pause(pause)),
            Output::Wait(mut wait) => {
                if let Some(io) = &mut wait.io
                    && let Some(name) = self.devices.name(&io.device)
                {
                    io.name = name;
                }
                wait.cgroup = wait.cgroup_number.and_then(|number| self.groups.path(number));
                self.folder.append_wait(&wait);
                if let Some(exporter) = &self.exporter {
                    exporter.wait(*wait);
                }
            }
        }
    }

    fn request(&mut self, request: Arc<Request>) {
        self.folder.append_request(&request);
        if request.root().kind == PhaseKind::Process {
            if !self.marked && self.processes.len() < PROCESSES {
                self.processes.push_back(request);
            }
            return;
        }
        self.marked = true;
        self.processes.clear();
        let verdict = self.live.observe(&request);
        if self.exporter.is_some() {
            self.waiting_phases += request.phases.len();
            self.waiting.push_back((Instant::now(), request, live_verdict(verdict)));
            self.offer(if self.is_traced { LATE } else { Duration::ZERO });
        }
    }

    /// Exports requests that have waited for so long.
    fn offer(&mut self, least: Duration) {
        let Some(exporter) = &self.exporter else { return };
        while let Some((since, ..)) = self.waiting.front()
            && (since.elapsed() >= least || self.waiting_phases > MOST_LATE)
            && let Some((_, request, verdict)) = self.waiting.pop_front()
        {
            self.waiting_phases -= request.phases.len();
            exporter.offer(request, verdict);
        }
    }

    fn tick(&mut self) {
        self.offer(LATE);
        if self.flushed.elapsed() >= FLUSH {
            self.flushed = Instant::now();
            self.folder.flush();
            self.devices.forget();
            self.groups.look_again();
        }
        let lost = self.folder.health().rows_lost;
        self.progress.update(&self.live.progress(), lost.phases + lost.threads);
    }

    fn run(mut self, messages: &Receiver<Message>, on_the_way: &AtomicUsize) -> Self {
        loop {
            match messages.recv_timeout(FLUSH) {
                Ok(message) => {
                    let bytes = message.bytes();
                    // If this thread waited for the export, rows of the folder would be lost.
                    let hurried = on_the_way.load(Relaxed) > MOST_BYTES / 2;
                    self.exporter.iter().for_each(|exporter| exporter.hurry(hurried));
                    self.take(message);
                    on_the_way.fetch_sub(bytes, Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.tick();
        }
        // A hurried end waits for no more than this.
        self.folder.flush();
        self.haste.written();
        self.offer(Duration::ZERO);
        // A program without any mark still gets one span per process.
        if let Some(exporter) = &self.exporter {
            for process in std::mem::take(&mut self.processes) {
                exporter.offer(process, LiveVerdict::default());
            }
        }
        self.folder.end();
        self.progress.finish();
        self
    }
}

fn live_verdict(verdict: Option<TailVerdict>) -> LiveVerdict {
    let verdict = verdict.unwrap_or_default();
    LiveVerdict {
        cause: verdict.cause.map(|cause| cause.name().into()),
        tail: verdict.tail.map(|band| band.name().into()),
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
