//! The requests of a stall run, one after the other: the same work in each, the faults in those that the
//! schedule names. Yields latencies of both sorts and what was injected. It does not know what a fault does.
//!
//! A request has three phases, `prepare`, `work` and `finish`, with 1, 6 and 1 eighths of the work; faults
//! come in the middle of `work`, so an observer must name the phase as well.

use std::path::PathBuf;

use super::{
    Fault, Injected, Kind, Peer, Setup, Wait,
    error::StallError,
    log::{Injection, Log, Spared},
    machine::{
        clock, cpus, interrupt,
        work::{Amount, Work},
    },
    schedule::Schedule,
    size::{Size, Unit},
};
use crate::{
    beside::{self, WARMUP},
    progress, started,
};

/// Phases of a request, in order; faults come in the middle of the second one.
pub const PHASES: &[&str] = &["prepare", "work", "finish"];

/// Settings from the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The faults of a hit request, in order, each with its size if one was given.
    pub faults: Vec<(&'static Kind, Option<Size>)>,
    pub schedule: Schedule,
    pub requests: u64,
    pub warmup: u64,
    pub work: Amount,
    pub log: Option<PathBuf>,
    /// Whether spared requests are logged as well.
    pub log_spared: bool,
    pub folder: PathBuf,
    pub wait: Wait,
    pub peer: Peer,
    /// Whether a terminal sees a bar.
    pub progress: bool,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Nanoseconds of each request, in order: those that were hit, and the others.
    pub hit_ns: Vec<u64>,
    pub spared_ns: Vec<u64>,
    pub injections: Vec<Injection>,
    /// Rounds of arithmetic in each request.
    pub rounds: u64,
}

struct Part {
    kind: &'static Kind,
    /// The middle of its sizes, in its unit.
    asked: u64,
    fault: Box<dyn Fault>,
}

struct Run {
    parts: Vec<Part>,
    schedule: Schedule,
    work: Work,
}

/// Runs the requests as `settings` say.
pub fn run(settings: &Settings) -> Result<Outcome, StallError> {
    let asked = sizes(settings)?;
    interrupt::listen()?;
    let mut log = Log::create(settings.log.as_deref())?;
    let mut run = Run::new(settings, &asked)?;
    let bar = settings.progress.then(|| progress::bar(settings.warmup + settings.requests, "requests"));
    let advance = || {
        if let Some(bar) = &bar {
            bar.inc(1);
        }
    };
    started::tell();
    let mut outcome = Outcome { rounds: run.work.rounds, ..Outcome::default() };
    for number in 0..settings.warmup {
        run.one(WARMUP, number, &[], &mut Vec::new())?;
        advance();
    }
    for number in 0..settings.requests {
        if interrupt::stopped() {
            return Err(StallError::Interrupted { requests: number });
        }
        let sizes = run.sizes(number);
        for (part, size) in run.parts.iter_mut().zip(&sizes) {
            part.fault.arm(*size)?;
        }
        let (begun, is_spared) = (outcome.injections.len(), sizes.is_empty());
        let ns = if is_spared && settings.log_spared {
            let spared = run.spare(number)?;
            log.write(std::slice::from_ref(&spared))?;
            spared.wall_ns
        } else {
            run.one("stall", number, &sizes, &mut outcome.injections)?
        };
        if is_spared { &mut outcome.spared_ns } else { &mut outcome.hit_ns }.push(ns);
        log.write(&outcome.injections[begun..])?;
        advance();
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(outcome)
}

/// The middle of each fault's sizes; an error if the schedule could leave the kind's bounds, or if a kind
/// comes twice: request and kind identify one line of the log.
pub fn sizes(settings: &Settings) -> Result<Vec<u64>, StallError> {
    let faults = &settings.faults;
    let twice =
        (1..faults.len()).find(|at| faults[..*at].iter().any(|(kind, _)| kind.name == faults[*at].0.name));
    if let Some(at) = twice {
        return Err(StallError::Twice { kind: faults[at].0.name });
    }
    let checked = faults.iter().map(|(kind, size)| {
        let asked = size.map_or(Ok(kind.default), |size| kind.unit.number(kind.name, size))?;
        let (least, most) = settings.schedule.bounds(asked);
        let outside = [least, most].into_iter().find(|size| !kind.range.contains(size));
        match outside {
            None => Ok(asked),
            Some(size) => Err(StallError::OutOfRange {
                kind: kind.name,
                least: kind.unit.size(*kind.range.start()).to_string(),
                most: kind.unit.size(*kind.range.end()).to_string(),
                given: kind.unit.size(size).to_string(),
            }),
        }
    });
    checked.collect()
}

impl Run {
    /// Makes the faults, binds this thread if one of them needs it, and calls their `begin`.
    fn new(settings: &Settings, asked: &[u64]) -> Result<Self, StallError> {
        let cpus = cpus::allowed()?;
        // The last CPU: interrupts that nobody steers go to the first.
        let cpu = cpus.last().copied().unwrap_or(0);
        let work = Work::new(settings.work);
        let mut setup = Setup {
            cpus,
            cpu,
            seed: settings.schedule.seed,
            work,
            largest: 0,
            folder: settings.folder.clone(),
            wait: settings.wait,
            peer: settings.peer,
        };
        let mut parts = Vec::new();
        for ((kind, _), asked) in settings.faults.iter().zip(asked) {
            setup.largest = settings.schedule.bounds(*asked).1;
            parts.push(Part { kind, asked: *asked, fault: (kind.make)(&setup)? });
        }
        // After all threads were started: the scheduler may place them on any CPU.
        if parts.iter().any(|part| part.kind.bound) {
            cpus::bind(0, cpu)?;
        }
        for part in &mut parts {
            part.fault.begin()?;
        }
        Ok(Self { parts, schedule: settings.schedule, work })
    }

    /// Size of each fault of this request; empty if it is spared.
    fn sizes(&self, request: u64) -> Vec<u64> {
        if !self.schedule.hits(request) {
            return Vec::new();
        }
        let parts = self.parts.iter().enumerate();
        parts.map(|(part, Part { asked, .. })| self.schedule.size(request, part, *asked)).collect()
    }

    /// Runs one request without a fault; returns what the kernel counted for it.
    fn spare(&mut self, request: u64) -> Result<Spared, StallError> {
        let (start_ns, start_delay_ns) = (clock::monotonic_ns(), clock::run_delay_ns());
        let start_cpu_ns = clock::thread_cpu_ns();
        let wall_ns = self.one("stall", request, &[], &mut Vec::new())?;
        let cpu_ns = clock::thread_cpu_ns() - start_cpu_ns;
        let run_delay_ns = clock::run_delay_ns().saturating_sub(start_delay_ns);
        Ok(Spared { kind: "spared", request, start_ns, wall_ns, cpu_ns, run_delay_ns })
    }

    /// Runs one request; returns its elapsed time.
    fn one(
        &mut self,
        name: &str,
        number: u64,
        sizes: &[u64],
        injections: &mut Vec<Injection>,
    ) -> Result<u64, StallError> {
        let start_ns = clock::monotonic_ns();
        let request = guestscope_marker::request(&beside::name(name), number);
        let phase = guestscope_marker::phase(PHASES[0]);
        self.work.eighths(1).run();
        phase.end();
        let phase = guestscope_marker::phase(PHASES[1]);
        self.work.eighths(3).run();
        for part in &mut self.parts {
            if sizes.is_empty() {
                part.fault.spare()?;
            }
        }
        for (part, size) in self.parts.iter_mut().zip(sizes) {
            injections.push(part.inject(number, *size)?);
        }
        self.work.eighths(3).run();
        phase.end();
        let phase = guestscope_marker::phase(PHASES[2]);
        self.work.eighths(1).run();
        phase.end();
        request.end();
        Ok(clock::monotonic_ns() - start_ns)
    }
}

impl Part {
    fn inject(&mut self, request: u64, size: u64) -> Result<Injection, StallError> {
        // Read outside of the elapsed time, as reading a file takes longer than the smallest faults.
        let start_delay_ns = clock::run_delay_ns();
        let (start_ns, start_cpu_ns) = (clock::monotonic_ns(), clock::thread_cpu_ns());
        let Injected { ns, count } = self.fault.inject(size)?;
        let (cpu_ns, wall_ns) = (clock::thread_cpu_ns() - start_cpu_ns, clock::monotonic_ns() - start_ns);
        let run_delay_ns = clock::run_delay_ns().saturating_sub(start_delay_ns);
        let is_time = self.kind.unit == Unit::Time;
        Ok(Injection {
            kind: self.kind.name,
            request,
            start_ns,
            asked_ns: is_time.then_some(size),
            asked_count: (!is_time).then_some(size),
            ns,
            count,
            wall_ns,
            cpu_ns,
            run_delay_ns,
        })
    }
}
