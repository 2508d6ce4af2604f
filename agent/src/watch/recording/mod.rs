//! The flight recorder at work: segments, triggers, and the incidents that they make.
//!
//! It goes along with the folder, on the thread that writes it. What takes time is done by the thread of
//! [`keeper`](super::keeper).

mod pending;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use self::pending::{
    MOST_PENDING, Noticed, Pending, STRETCH_TRIGGER, kept_before, listed, may_be_noticed, refusal,
};
use super::{
    flood::{Bounds, Flood, Kind, Verdict},
    governor::{Decision, Governor, Used},
    keeper::{Job, Keeper},
    rate::Rates,
    shared::{Asked, Listed, Shared},
    tables::Own,
    taking::Taking,
    ticks::{Tick, Ticks},
    trigger::{self, Ended, Pressed, Trigger},
};
use crate::{
    analyze::{Live, TailVerdict, compare::latency_ns, request_split},
    clock::ClockPair,
    folder::{IncidentRecord, Recorder, RunFolder, Sample, rfc3339},
    out,
    phase::{AllUnfinished, Request},
    session::{
        attendant::{Attendant, Stretch},
        kept::Sampler,
    },
    sinks::otlp::Delivered,
};

/// Limits are counted in stretches of this length; the last one of an incident is waited for.
pub(super) const STRETCH: Duration = Duration::from_secs(2);
/// Most stretches kept: those of two hours and a quarter. Most limits take 0.3 KB in each.
const MOST_STRETCHES: usize = 4096;

/// The recorder and what it noticed.
pub(super) struct Recording {
    shared: Arc<Shared>,
    recorder: Recorder,
    keeper: Keeper,
    flood: Flood,
    pressed: Pressed,
    pending: VecDeque<Pending>,
    stretches: VecDeque<Stretch>,
    unfinished: AllUnfinished,
    rates: Rates,
    governor: Governor,
    ticks: Ticks,
    /// Requests by the last tick that were not looked at.
    unseen: u64,
    /// Time so far that it took to judge and count requests.
    looking: Duration,
    /// Triggers of the configuration, and for which one they were taken.
    triggers: Vec<Trigger>,
    /// Whether the list of incidents has changed since it was saved.
    is_changed: bool,
    /// Both clocks at the last tick.
    clock: ClockPair,
    /// Whether spans are taken.
    taking: Taking,
}

impl Recording {
    pub(super) fn new(shared: Arc<Shared>, recorder: Recorder, keeper: Keeper) -> Self {
        let triggers = shared.config().triggers();
        let clock = ClockPair::now();
        // After a crash the hour of the agent before goes on.
        let alike_ns = shared.config().incidents.alike_for.ns();
        let before = |one| kept_before(one, clock, alike_ns);
        let flood = Flood::after(shared.list().incidents.iter().filter_map(before));
        Self {
            shared,
            recorder,
            keeper,
            flood,
            pressed: Pressed::default(),
            pending: VecDeque::new(),
            stretches: VecDeque::new(),
            unfinished: AllUnfinished::default(),
            rates: Rates::default(),
            governor: Governor::default(),
            ticks: Ticks::default(),
            unseen: 0,
            looking: Duration::ZERO,
            triggers,
            is_changed: false,
            clock,
            taking: Taking::new("spans"),
        }
    }

    /// Keeps a stretch of the recorder, wall times, ns. It is asked for by itself, so others alike, and how
    /// many there were in the last hour, do not matter.
    fn stretch_of(&mut self, from_ns: u64, to_ns: u64) {
        let trigger = STRETCH_TRIGGER.to_owned();
        let after = self.shared.config().incidents.after;
        if let Some(why) = refusal(to_ns, self.clock.wall_ns, after, self.pending.len()) {
            return self.refuse(trigger, why);
        }
        let monotonic = |wall_ns: u64| wall_ns.saturating_add_signed(-self.clock.offset_ns());
        let record = IncidentRecord {
            at: rfc3339(self.clock.wall_ns),
            trigger,
            from_ns: monotonic(from_ns),
            to_ns: monotonic(to_ns),
            ..IncidentRecord::default()
        };
        let number = self.shared.list().add(listed(&record, self.clock));
        // Whenever it is asked for, its rows were written at their time.
        self.pending.push_back(Pending::new(number, record, 0));
        self.is_changed = true;
    }

    /// Somebody asks for what cannot be kept.
    fn refuse(&mut self, trigger: String, error: String) {
        let at = rfc3339(self.clock.wall_ns);
        self.shared.list().add(Listed { at, trigger, error, ..Listed::default() });
        self.shared.status().incidents_failed += 1;
        self.is_changed = true;
    }

    /// Judges what was noticed, and remembers it if it is to be kept.
    fn notice(&mut self, noticed: Noticed) {
        let config = self.shared.config();
        let incidents = &config.incidents;
        let kind = Kind {
            request: noticed.request.clone(),
            cause: noticed.cause.clone(),
            trigger: noticed.trigger.clone(),
        };
        let bounds = Bounds { per_hour: incidents.per_hour, alike_ns: incidents.alike_for.ns() };
        let now = ClockPair::now();
        let mut list = self.shared.list();
        self.is_changed = true;
        match self.flood.judge(&kind, list.next, now.monotonic_ns, bounds) {
            Verdict::Alike(number) => {
                if let Some(incident) = list.get(number) {
                    incident.alike += 1;
                }
                drop(list);
                self.shared.status().incidents_alike += 1;
            }
            Verdict::Keep if self.pending.len() < MOST_PENDING => {
                let at = rfc3339(now.wall_ns);
                let record = noticed.record(at, (incidents.before, incidents.after));
                let number = list.add(listed(&record, now));
                self.pending.push_back(Pending::new(number, record, now.monotonic_ns));
            }
            verdict @ (Verdict::Keep | Verdict::TooMany) => {
                if verdict == Verdict::Keep {
                    // There is no room for it.
                    self.flood.refused(list.next);
                }
                list.too_many += 1;
                drop(list);
                self.shared.status().incidents_too_many += 1;
            }
        }
    }

    /// Hands incidents whose time has passed to the keeper.
    fn gather(&mut self, folder: &mut RunFolder, now: ClockPair) {
        let counted_ns = self.stretches.back().map_or(0, |stretch| stretch.to_ns);
        let is_due = |pending: &Pending| pending.is_due(now.monotonic_ns, counted_ns);
        if !self.pending.iter().any(is_due) {
            return;
        }
        // The current segment is complete then. Where it cannot be ended, as on a full disk, its rows would
        // be missing: that is tried again each second for a while.
        let is_complete = self.recorder.roll(folder, now);
        let is_over =
            |pending: &Pending| is_due(pending) && (is_complete || pending.is_late(now.monotonic_ns));
        let (over, later): (VecDeque<_>, _) =
            std::mem::take(&mut self.pending).into_iter().partition(is_over);
        self.pending = later;
        self.hand_over(over);
    }

    /// Has the keeper make these.
    fn hand_over(&mut self, over: VecDeque<Pending>) {
        for pending in over {
            // Segments have rows by when they were written; the keeper takes those of the incident's time.
            let (begun_ns, written_ns) = pending.written_ns();
            let Pending { number, record, .. } = pending;
            let (from_ns, to_ns) = (record.from_ns, record.to_ns);
            let is_within = |stretch: &&Stretch| stretch.from_ns <= to_ns && stretch.to_ns >= from_ns;
            let job = Job {
                number,
                segments: self.recorder.segments(begun_ns, written_ns),
                stretches: self.stretches.iter().filter(is_within).cloned().collect(),
                unfinished: self.unfinished.clone(),
                kept: self.ticks.kept_within(from_ns, to_ns),
                record,
            };
            if !self.keeper.keep(job) {
                self.flood.refused(number);
                let mut list = self.shared.list();
                if let Some(incident) = list.get(number) {
                    "too many are being made".clone_into(&mut incident.error);
                }
                drop(list);
                self.shared.status().incidents_failed += 1;
            }
        }
        self.is_changed = true;
    }

    /// Has as many requests looked at and kept as the agent's share of the guest's CPU time allows.
    fn govern(&mut self, sampler: &mut Sampler) {
        let cpu = self.rates.usual_cpu();
        let (rows, requests) = self.ticks.spent();
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        let [all, rows, requests] = [cpu, rows, requests].map(|part| part / cpus * 100.0);
        let config = self.shared.config();
        let Own { cpu_percent: most, see_all } = config.agent;
        match self.governor.look(Used { all, rows, requests }, most, see_all) {
            Decision::Same => {}
            Decision::Another => {
                let (seen, kept) = (self.governor.seen(), self.governor.kept());
                if config.recorder.rows {
                    sampler.set(kept);
                }
                self.shared.seen.want(self.governor.halved());
                let mut status = self.shared.status();
                (status.seen_part, status.kept_part) = (seen, kept);
                drop(status);
                let [seen, kept] = [seen, kept].map(|part| (1.0 / part).round());
                out::say(&format!(
                    "the agent took {all:.2} % of the guest's CPU time, of {most} %: it looks at 1 of {seen} requests, \
                     and keeps 1 of {kept} of these, and those that are noticed\n"
                ));
            }
            Decision::Helpless => out::say(&format!(
                "warning: the agent takes {all:.2} % of the guest's CPU time, of {most} %, and to look at fewer \
                 requests, or to keep fewer, would not help\n"
            )),
        }
    }

    /// Takes note of what was done by now, and counts requests that were not looked at.
    fn note(&mut self, sampler: &mut Sampler) {
        let unseen = self.shared.seen.unseen();
        let new = unseen.saturating_sub(std::mem::replace(&mut self.unseen, unseen));
        sampler.count_unseen(new);
        self.rates.unseen(new);
        let (kept, left_out) = sampler.counts();
        let tick = Tick {
            at_ns: self.clock.monotonic_ns,
            kept,
            left_out,
            rows_ns: u64::try_from(sampler.spent().as_nanos()).unwrap_or(u64::MAX),
            looking_ns: self
                .shared
                .seen
                .pairing_ns()
                .saturating_add(u64::try_from(self.looking.as_nanos()).unwrap_or(u64::MAX)),
        };
        self.ticks.push(tick, self.shared.config().recorder.window.ns());
    }

    /// Counts and judges a request that has ended. Returns whether it is noticed.
    fn ended(&mut self, request: &Request, live: &Live, verdict: Option<&TailVerdict>) -> bool {
        self.rates.ended();
        self.shared.metrics().observe(request, verdict, self.clock.offset_ns());
        let root = request.root();
        let duration_ns = latency_ns(request);
        let end_ns = root.start_ns.saturating_add(root.duration_ns);
        let split = request_split(request);
        self.shared.window().ended(&root.name, (end_ns, duration_ns), &split, verdict);
        if !may_be_noticed(request) {
            return false;
        }
        let ended = Ended { name: &root.name, duration_ns, typical_ns: live.typical_ns(request), verdict };
        let Some(trigger) = trigger::of_request(&self.triggers, &ended) else { return false };
        let noticed = Noticed {
            trigger: trigger.to_string(),
            request: root.name.stored().to_owned(),
            duration_ns,
            typical_ns: ended.typical_ns,
            cause: verdict.and_then(|one| one.cause).map_or_else(String::new, |one| one.name().to_owned()),
            span_ns: (end_ns.saturating_sub(duration_ns), end_ns),
        };
        self.notice(noticed);
        true
    }

    fn tell_status(&mut self, folder: &RunFolder) {
        let lost = self.recorder.rows_lost(folder);
        let mut status = self.shared.status();
        (status.segments, status.recorder_bytes) = (self.recorder.count() as u64, self.recorder.bytes());
        status.rows_lost =
            lost.phases + lost.threads + lost.samples + lost.marks + lost.waits + lost.gpu_work;
        (status.open, status.requests_unseen) = (self.unfinished.open, self.unseen);
        (status.requests, status.requests_per_s) = self.rates.requests();
        (status.cpu_ns, status.cpu, status.rss_bytes) = self.rates.cost();
        if let Some(error) = self.recorder.last_error() {
            error.clone_into(&mut status.last_error);
        }
    }
}

impl Attendant for Recording {
    fn request(&mut self, request: &Request, live: &Live, verdict: Option<&TailVerdict>) -> bool {
        let begun = Instant::now();
        let is_noticed = self.ended(request, live, verdict);
        self.looking += begun.elapsed();
        is_noticed
    }

    fn sample(&mut self, sample: &Sample) {
        self.rates.sample(sample);
        let trigger = self.pressed.take(sample, &self.triggers).map(ToString::to_string);
        if let Some(trigger) = trigger {
            self.notice(Noticed::at(trigger, sample.time_ns));
        }
    }

    fn stretch(&mut self, stretch: Stretch) {
        let keep_ns = self.shared.config().recorder.window.ns();
        let is_old = |one: &Stretch| one.to_ns.saturating_add(keep_ns) < stretch.to_ns;
        while self.stretches.front().is_some_and(is_old) || self.stretches.len() >= MOST_STRETCHES {
            self.stretches.pop_front();
        }
        self.stretches.push_back(stretch);
    }

    fn unfinished(&mut self, all: &AllUnfinished) {
        self.unfinished = all.clone();
    }

    fn delivered(&mut self, spans: Delivered) {
        let Delivered { sent, waiting, lost, away, refused } = spans;
        let mut status = self.shared.status();
        (status.spans_sent, status.spans_waiting, status.spans_lost) = (sent, waiting, lost);
        self.taking.tell(away.as_deref(), &mut status.last_error);
        self.taking.tell_lost(lost, refused.as_deref(), &mut status.last_error);
    }

    fn tick(&mut self, folder: &mut RunFolder, sampler: &mut Sampler) {
        self.triggers = self.shared.config().triggers();
        let now = ClockPair::now();
        self.clock = now;
        for number in self.keeper.failed() {
            self.flood.failed(number);
        }
        let keeps_rows = self.shared.config().recorder.rows;
        for asked in self.shared.asked() {
            match asked {
                _ if !keeps_rows => {
                    let error = "recorder.rows is false: nothing is kept".to_owned();
                    self.refuse("asked for".to_owned(), error);
                }
                Asked::Now => self.notice(Noticed::at("asked for".to_owned(), now.monotonic_ns)),
                Asked::Stretch(from_ns, to_ns) => self.stretch_of(from_ns, to_ns),
            }
        }
        self.note(sampler);
        self.govern(sampler);
        self.recorder.tick(folder, now);
        self.gather(folder, now);
        self.tell_status(folder);
        if std::mem::take(&mut self.is_changed) {
            self.keeper.save();
        }
    }

    /// What waits for its end is kept as far as it came.
    fn end(&mut self, folder: &mut RunFolder) {
        let mut waiting = std::mem::take(&mut self.pending);
        if !waiting.is_empty() {
            let now = ClockPair::now();
            for pending in &mut waiting {
                pending.end_by(now.monotonic_ns);
            }
            self.recorder.roll(folder, now);
            self.hand_over(waiting);
        }
    }
}
