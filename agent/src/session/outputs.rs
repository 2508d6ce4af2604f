//! The outputs of a session, on the thread that writes its folder: rows, traces, the progress line.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use super::{
    aside::Aside,
    attendant::Attendant,
    export_thread::{MOST_BYTES, Message},
    kept::{Bounded, Sampler},
    signals::Haste,
};
use crate::{
    analyze::{Live, TailVerdict},
    folder::{Manifest, RunFolder, Sample},
    phase::{PhaseKind, Request, Wait, pairing::Output},
    platform::{Devices, Groups, Root},
    sinks::{
        otlp::{Exporter, LiveVerdict, WallClock},
        terminal::Progress,
    },
};

/// Interval between flushes: a crash loses at most this much, but for [`SAMPLED_FLUSH`].
const FLUSH: Duration = Duration::from_secs(1);
/// The same where a small part of the requests is kept. A batch of rows has a header of some 8 kB: where one
/// request is kept a second, headers would take 40 times what the rows take, 1.3 GB a day.
const SAMPLED_FLUSH: Duration = Duration::from_secs(30);
/// Such a part. Of more, batches fill up by themselves.
const SMALL_PART: f64 = 0.1;
/// Work of GPUs is told at most so long after the end of its request, where it is recorded.
const LATE: Duration = Duration::from_secs(1);
/// Most phases of requests that wait for it: 0.7 KB each.
const MOST_LATE: usize = 8192;
/// Most processes kept for the export until it is known whether the program marks phases.
const PROCESSES: usize = 1000;

/// Outputs of the thread, given back at the end.
pub(crate) struct Sinks {
    pub(crate) folder: RunFolder,
    pub(crate) exporter: Option<Exporter>,
    pub(crate) wall: WallClock,
    pub(crate) progress: Progress,
    live: Live,
    /// What goes along with the folder, if the agent stays.
    pub(crate) attendant: Option<Box<dyn Attendant>>,
    /// Chooses the requests whose rows and traces are kept.
    pub(crate) sampler: Sampler,
    /// Waits of requests that were not chosen, until they end.
    aside: Aside,
    /// The folder that the segments belong to, if there is a budget.
    pub(crate) bounded: Option<Bounded>,
    /// The program marks phases, so its processes are no traces of their own.
    marked: bool,
    processes: VecDeque<Arc<Request>>,
    /// Work of GPUs is recorded: requests wait for it before they are exported.
    is_traced: bool,
    waiting: VecDeque<(Instant, Arc<Request>, LiveVerdict)>,
    /// Phases of those.
    waiting_phases: usize,
    /// When it was last looked whether something is to be written, and when it last was.
    ticked: Instant,
    flushed: Instant,
    devices: Devices,
    groups: Groups,
    haste: Haste,
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
            attendant: None,
            sampler: Sampler::new(1.0),
            aside: Aside::default(),
            bounded: None,
            marked: false,
            processes: VecDeque::new(),
            is_traced: false,
            waiting: VecDeque::new(),
            waiting_phases: 0,
            ticked: Instant::now(),
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
            Message::Stretch(stretch) => {
                if let Some(attendant) = &mut self.attendant {
                    attendant.stretch(*stretch);
                }
            }
            Message::Unfinished(all) => {
                let change = |manifest: &mut Manifest| manifest.unfinished = (&all).into();
                match &mut self.attendant {
                    // Such a message comes every second while a request is open for long, and each update
                    // waits for the disk twice.
                    Some(attendant) => {
                        attendant.unfinished(&all);
                        self.folder.change_manifest(change);
                    }
                    None => self.folder.update_manifest(change),
                }
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
        if let Some(attendant) = &mut self.attendant {
            attendant.sample(sample);
        }
        self.folder.append_sample(sample);
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Request(request) => self.request(Arc::new(request)),
            Output::Thread(thread) => self.folder.append_thread(&thread),
            Output::Mark(mark) => self.folder.append_mark(&mark),
            Output::GpuWork(work) if !self.sampler.keeps(work.root.unwrap_or(work.start_ns)) => {}
            Output::GpuWork(work) => {
                self.folder.append_gpu_work(&work);
                if let Some(exporter) = &self.exporter {
                    exporter.gpu_work(*work);
                }
            }
            Output::Pause(pause) => self.exporter.iter().for_each(|exporter| exporter.pause(pause)),
            // A wait in no request stands for itself.
            Output::Wait(wait) => match wait.root {
                Some(root) if !self.sampler.keeps(root) => self.aside.hold(root, *wait),
                None if !self.sampler.keeps(wait.start_ns) => {}
                Some(_) | None => self.wait(*wait),
            },
        }
    }

    fn wait(&mut self, mut wait: Wait) {
        let begun = Instant::now();
        if let Some(io) = &mut wait.io
            && let Some(name) = self.devices.name(&io.device)
        {
            io.name = name;
        }
        wait.cgroup = wait.cgroup_number.and_then(|number| self.groups.path(number));
        self.folder.append_wait(&wait);
        self.sampler.spend(begun.elapsed());
        if let Some(exporter) = &self.exporter {
            exporter.wait(wait);
        }
    }

    fn request(&mut self, request: Arc<Request>) {
        if request.root().kind == PhaseKind::Process {
            self.folder.append_request(&request);
            if !self.marked && self.processes.len() < PROCESSES {
                self.processes.push_back(request);
            }
            return;
        }
        self.marked = true;
        self.processes.clear();
        let verdict = self.live.observe(&request);
        let attendant = self.attendant.as_mut();
        let is_noticed =
            attendant.is_some_and(|attendant| attendant.request(&request, &self.live, verdict.as_ref()));
        let root = request.root().id;
        let held = self.aside.take(root);
        let is_kept = is_noticed || self.sampler.keeps(root);
        self.sampler.count(is_kept);
        if is_kept {
            for wait in held {
                self.wait(wait);
            }
            let begun = Instant::now();
            self.folder.append_request(&request);
            self.sampler.spend(begun.elapsed());
        }
        if is_kept && self.exporter.is_some() {
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
        if self.ticked.elapsed() >= FLUSH {
            self.ticked = Instant::now();
            // A recorder keeps a part only while the agent takes too much, and then writes whole batches.
            let is_sampled = self.attendant.is_none() && self.sampler.part() <= SMALL_PART;
            // A write that failed is tried again at once.
            let is_failing = self.folder.health().is_failing;
            if !is_sampled || is_failing || self.flushed.elapsed() >= SAMPLED_FLUSH {
                self.flushed = Instant::now();
                self.folder.flush();
            }
            self.devices.forget();
            self.groups.look_again();
            if let Some(attendant) = &mut self.attendant {
                self.exporter.iter().for_each(|exporter| attendant.delivered(exporter.delivered()));
                attendant.tick(&mut self.folder, &mut self.sampler);
            }
            if let Some(bounded) = &mut self.bounded {
                bounded.tick(&mut self.folder);
            }
        }
        let lost = self.folder.health().rows_lost;
        self.progress.update(&self.live.progress(), lost.phases + lost.threads);
    }

    pub(super) fn run(mut self, messages: &Receiver<Message>, on_the_way: &AtomicUsize) -> Self {
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
        if let Some(attendant) = &mut self.attendant {
            attendant.end(&mut self.folder);
        }
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
