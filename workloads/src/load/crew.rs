//! The workers: threads that take requests and run them, each with a workload of its own. Yields
//! measurements. The first worker is the calling thread, so a run with one worker starts no thread.
//!
//! An open loop needs no thread that issues: every arrival is known before the run. A worker takes the next
//! one, sleeps until its time or begins at once if that has passed, and its latency counts from that time. So
//! a slow request delays the requests behind it and shows in their latency, but never delays their arrivals;
//! and no thread runs beside the observed ones.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use indicatif::ProgressBar;

use super::{
    PHASES, Plan, Workload,
    clock::Clock,
    dispenser::{Dispenser, Ticket, expected},
    error::LoadError,
    measured::{Measured, Record},
    scenario::Scenario,
};
use crate::{
    beside::{self, WARMUP},
    digest::Digest,
    error::Error,
    progress, started,
};

/// One series of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// Name of the requests, for the marker.
    pub(super) name: &'static str,
    /// Arrivals per second; none in a closed loop.
    pub(super) qps: Option<f64>,
    /// Number of late requests beyond which the series ends early.
    pub(super) late_at_most: Option<u64>,
}

impl Course {
    pub(super) fn measured(plan: &Plan) -> Self {
        let qps = plan.qps.filter(|_| plan.scenario == Scenario::Server);
        Self { name: "request", qps, late_at_most: None }
    }

    /// A series that statistics leave out.
    pub(super) fn trial(qps: Option<f64>, late_at_most: Option<u64>) -> Self {
        Self { name: WARMUP, qps, late_at_most }
    }
}

/// Warmed-up workers.
pub struct Crew<'run, W> {
    clock: &'run dyn Clock,
    first: &'run mut W,
    others: Vec<Other>,
}

/// A worker in a thread of its own: takes jobs until the sender is gone.
struct Other {
    jobs: Sender<Arc<Job>>,
    done: Receiver<Result<Vec<Record>, Error>>,
}

struct Job {
    dispenser: Dispenser,
    name: &'static str,
    target_ns: u64,
    bar: Option<ProgressBar>,
}

/// Starts the workers, lets each do its warm-up, and lends them to `lead`.
pub(super) fn with_crew<W: Workload, T>(
    plan: &Plan,
    clock: &dyn Clock,
    first: &mut W,
    another: &(dyn Fn() -> Result<W, Error> + Sync),
    lead: impl FnOnce(&mut Crew<'_, W>) -> Result<T, Error>,
) -> Result<T, Error> {
    thread::scope(|scope| {
        let mut others = Vec::new();
        for worker in 1..plan.workers {
            let (jobs, taken) = channel::<Arc<Job>>();
            let (report, done) = channel();
            let work = move || {
                let mut workload = match prepare(plan, clock, another) {
                    Ok(workload) => workload,
                    Err(error) => return drop(report.send(Err(error))),
                };
                // The empty result says that it is warm. Both ends of a channel are gone only after the run.
                let mut result = Ok(Vec::new());
                while report.send(result).is_ok() {
                    let Ok(job) = taken.recv() else { return };
                    result = serve(&mut workload, clock, &job);
                }
            };
            let name = format!("worker-{worker}");
            thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, work)
                .map_err(|source| LoadError::Worker { source })?;
            others.push(Other { jobs, done });
        }
        warm_up(plan, clock, first)?;
        let mut crew = Crew { clock, first, others };
        crew.collect()?;
        lead(&mut crew)
    })
}

fn prepare<W: Workload>(
    plan: &Plan,
    clock: &dyn Clock,
    another: &(dyn Fn() -> Result<W, Error> + Sync),
) -> Result<W, Error> {
    let mut workload = another()?;
    warm_up(plan, clock, &mut workload)?;
    Ok(workload)
}

fn warm_up<W: Workload>(plan: &Plan, clock: &dyn Clock, workload: &mut W) -> Result<(), Error> {
    // Before anything is scheduled, and also without a warm-up.
    started::tell();
    if plan.scenario == Scenario::Server {
        clock.be_precise();
    }
    for number in 0..plan.warmup {
        one(workload, clock, WARMUP, Ticket { number, scheduled_ns: None })?;
    }
    Ok(())
}

impl<W: Workload> Crew<'_, W> {
    /// Runs one series with all workers.
    pub(super) fn run(&mut self, plan: &Plan, course: Course) -> Result<Measured, Error> {
        let Course { name, qps, late_at_most } = course;
        let job = Arc::new(Job {
            dispenser: Dispenser::new(plan, qps, late_at_most),
            name,
            target_ns: plan.target.latency_ns,
            bar: plan.progress.then(|| progress::bar(expected(plan, qps), "requests")),
        });
        for other in &self.others {
            // A worker that is gone has said why, or panicked: `collect` finds out.
            let _ = other.jobs.send(Arc::clone(&job));
        }
        let own = serve(self.first, self.clock, &job);
        let others = self.collect();
        if let Some(bar) = &job.bar {
            bar.finish_and_clear();
        }
        let mut records = own?;
        records.extend(others?);
        let start_ns = job.dispenser.start_ns();
        let measured = Measured::new(records, start_ns, qps, job.dispenser.was_stopped());
        Ok(Measured { full: job.dispenser.is_full(), ..measured })
    }

    /// Collects each other worker's result, or the first error.
    fn collect(&mut self) -> Result<Vec<Record>, Error> {
        let mut all = Vec::new();
        for other in &self.others {
            // A worker without a word panicked; the scope passes that on once all threads have ended.
            let said = other.done.recv().map_err(|_| LoadError::WorkerGone)?;
            all.extend(said?);
        }
        Ok(all)
    }
}

/// Ends the series for all workers when one panics: the others would otherwise finish it first.
struct EndsWithPanic<'a>(&'a Dispenser);

impl Drop for EndsWithPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

/// Takes requests until there are none left.
fn serve<W: Workload>(workload: &mut W, clock: &dyn Clock, job: &Job) -> Result<Vec<Record>, Error> {
    let _guard = EndsWithPanic(&job.dispenser);
    let mut records = Vec::new();
    while let Some(ticket) = job.dispenser.take(clock) {
        if let Some(ns) = ticket.scheduled_ns {
            clock.sleep_until(ns);
        }
        let record = one(workload, clock, job.name, ticket).inspect_err(|_| job.dispenser.stop())?;
        if record.latency_ns() > job.target_ns {
            job.dispenser.late();
        }
        records.push(record);
        if let Some(bar) = &job.bar {
            bar.inc(1);
        }
    }
    Ok(records)
}

/// Runs one request. Its phases cover it without gaps: a preemption at a boundary falls into a phase.
fn one<W: Workload>(
    workload: &mut W,
    clock: &dyn Clock,
    name: &str,
    ticket: Ticket,
) -> Result<Record, Error> {
    let begin_ns = clock.now_ns();
    let scheduled_ns = ticket.scheduled_ns.unwrap_or(begin_ns);
    let scheduled = ticket.scheduled_ns.unwrap_or(0);
    let request = guestscope_marker::request_scheduled(&beside::name(name), ticket.number, scheduled);
    let phase = request.first(PHASES[0]);
    let mut outputs = Digest::default();
    let input = workload.preprocess(ticket.number)?;
    let second_ns = clock.now_ns();
    let phase = phase.next(PHASES[1]);
    let output = workload.infer(input)?;
    let third_ns = clock.now_ns();
    let phase = phase.next(PHASES[2]);
    workload.postprocess(output, &mut outputs)?;
    phase.end_with(request);
    let end_ns = clock.now_ns();
    Ok(Record {
        number: ticket.number,
        scheduled_ns,
        begin_ns,
        end_ns,
        phase_ns: [second_ns - begin_ns, third_ns - second_ns, end_ns - third_ns],
        outputs,
    })
}

#[cfg(test)]
#[path = "crew_tests.rs"]
mod tests;
