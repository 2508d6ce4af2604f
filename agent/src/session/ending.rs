//! The end of a run: the last records, what is still open, the export, the folder, the summary.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::PathBuf,
    time::Duration,
};

use guestscope_base::hint;
use guestscope_contract::Account;

use super::{
    End, Session,
    arguments::Observation,
    cost::Cost,
    error::{During as _, SessionError},
    facts,
    judged::Judged,
    kept::{self, Whole},
    outputs::Sinks,
    record_source::RecordSource,
};
use crate::out;
use crate::{
    analyze::{Called, Cause, Hidden, Summary, Untracked, gpu_work::GpuWorked},
    child, clock,
    folder::{self, GpuRecord, KeptRecord, Manifest, RunFolder},
    health::{Fidelity, Health},
    hints::{self, Asked, Hint},
    limits::Limit,
    phase::{AllUnfinished, Phase, Request, Restored},
    platform::{Guest, Usage},
    sinks::{
        otlp,
        terminal::{self, Exit, RunFacts, Stream, Style},
    },
    sources::{self, Selected, socket::Watched},
};

/// The child's last switch comes after its end is reported: a few more drains catch its exit.
const BETWEEN_DRAINS: Duration = Duration::from_millis(5);

/// Data for the folder's thread to close the folder.
struct Closing {
    end: End,
    health: Health,
    guest: Guest,
    usage: Usage,
    cost: Cost,
    /// CPU time of the NVML process.
    nvml: Duration,
    gpu: GpuRecord,
    limits: Vec<Limit>,
    spun: BTreeMap<String, u64>,
    called: BTreeMap<u32, u64>,
    restored: Vec<Restored>,
    unfinished: AllUnfinished,
}

/// Results at the end of the run.
struct Told {
    summary: folder::Result<Summary>,
    gpu_work: Option<GpuWorked>,
    health: Health,
    guest: Guest,
    path: PathBuf,
    kept: Option<KeptRecord>,
}

impl<F: RecordSource> Session<F> {
    /// Closes everything after the last records, and prints the summary.
    pub(crate) fn finish(mut self, end: End, observation: &Observation) -> Result<(), SessionError> {
        let mut health = self.feed.health(self.cost.so_far(self.graphics.cpu()));
        health.pairing = self.feed.pairing().losses;
        health.kernel.tasks_missed += end.threads_missed;
        health.programs_unanswered = end.unanswered;
        health.not_let_in = end.not_let_in;
        self.feed.tell_sources();
        health.sources = sources::report(&end.sources, &self.feed.pairing().sources);
        health.rows_lost = self.export.rows_lost;
        let restored_after = self.restored_after(clock::now_ns());
        let (gpu, nvml) = (self.gpu_record(), self.graphics.cpu());
        let (wall, exit, end_ns) = (end.wall, end.exit, end.clock.monotonic_ns);
        let untracked = Untracked {
            marks: health.kernel.marks_untracked,
            requests: health.kernel.requests_untracked,
            for_want_of_room: health.kernel.tasks_missed > 0,
            max_threads: Some(observation.max_threads),
        };
        let is_tracked = untracked.marks == 0;
        let hints = is_tracked.then(|| self.hints(&end.sources, health.fidelity, observation));
        let unfinished = self.feed.pairing().unfinished();
        let limits = [self.limits.finish(), self.graphics.limits()].concat();
        let (spun, called) = (self.feed.spun(), self.feed.called());
        let Self { export, mut guest, usage, cost, restored, identity, .. } = self;
        facts::limited(&mut guest.cgroup, &limits);
        let (gpu_told, limits_told) = (gpu.clone(), limits.clone());
        let closing = Closing {
            end,
            health,
            guest,
            usage,
            cost,
            nvml,
            gpu,
            limits,
            spun: spun.clone(),
            called: called.clone(),
            restored,
            unfinished: unfinished.clone(),
        };
        let told = export.finish(move |sinks| closing.close(sinks));
        let told = told.ok_or(SessionError::Thread)?;
        let facts = RunFacts {
            gpu: gpu_told,
            gpu_work: told.gpu_work,
            limits: limits_told,
            hints: hints.unwrap_or_default(),
            kept: told.kept.map(|kept| kept::told(&kept, end_ns)),
            called: Called(called),
            spun,
            hidden: Hidden::new(unfinished, untracked, told.summary.as_ref().ok()),
            ..facts::for_terminal(&identity, &told.guest, &told.path, wall, exit, &restored_after)
        };
        // A missing summary does not change the exit code: the caller waits for the program's own.
        match told.summary {
            Ok(summary) => {
                tell(&summary, &told.health, &facts, observation.json)
                    .unwrap_or_else(|error| out::say_lines(&hint::told(&error)));
            }
            Err(error) => out::say_lines(&hint::told(&error)),
        }
        Ok(())
    }

    /// Hints on what could have marked the program, or its requests, where nothing did.
    fn hints(&mut self, sources: &Selected, fidelity: Fidelity, observation: &Observation) -> Vec<Hint> {
        let left = hints::left(&self.identity.name.as_str().into(), &self.left);
        let came = &self.feed.pairing().sources;
        if came.has_requests {
            return left.into_iter().collect();
        }
        let has_phases = came.has_come();
        let ports = observation.requests.iter().filter_map(|watched| match watched {
            Watched::Port(port) => Some(*port),
            Watched::Path(_) => None,
        });
        let command: Vec<OsString> = self.identity.command.iter().map(OsString::from).collect();
        let asked = Asked {
            is_started: sources.is_for_a_program(),
            sees_kernel: fidelity.sees_scheduling(),
            ports: ports.collect(),
            on: sources.on().collect(),
            python_option: child::option_against_marks(&command),
            has_phases,
        };
        left.into_iter().chain(hints::hints(&self.possible.seen(), &asked)).collect()
    }

    /// Restores and moves, each with its time since the program's start or since attaching.
    fn restored_after(&self, now_ns: u64) -> Vec<(Duration, Restored)> {
        let elapsed_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let start_ns = now_ns.saturating_sub(elapsed_ns);
        let after = |restored: &Restored| Duration::from_nanos(restored.noticed_ns.saturating_sub(start_ns));
        self.restored.iter().map(|restored| (after(restored), *restored)).collect()
    }

    /// Takes in the last records of a program that has ended, then closes what is still open.
    pub(crate) fn last_records(&mut self, has_ended: bool) {
        for _ in 0..F::LAST_DRAINS {
            self.drain();
            if !has_ended || self.feed.pairing().live_threads().next().is_none() {
                break;
            }
            std::thread::sleep(BETWEEN_DRAINS);
        }
        if has_ended {
            let processes: BTreeSet<u32> =
                self.feed.pairing().live_threads().map(|(thread, _)| thread.tgid).collect();
            self.left = processes.into_iter().collect();
        }
        for restored in self.restore.last() {
            self.restored(restored);
        }
        self.gpu_rows();
        self.last_gpu_work();
        let ledgers = self.feed.last_ledgers();
        let now_ns = clock::now_ns();
        self.feed.last_look(now_ns);
        self.feed.pairing().stop(now_ns, &ledgers);
        // Later events are not observed: they would be pieces of what has just been closed.
        self.export.outputs(self.feed.take_last());
    }
}

impl Closing {
    /// Ends the export and closes the folder. Everything is read through open descriptors: another user may
    /// have replaced the files under these names.
    fn close(self, sinks: Sinks) -> Told {
        let Self {
            mut end,
            mut health,
            mut guest,
            usage,
            cost,
            nvml,
            gpu,
            limits,
            spun,
            called,
            restored,
            unfinished,
        } = self;
        let Sinks { folder, exporter, sampler, bounded, .. } = sinks;
        if let Some(exporter) = &exporter {
            health.export = exporter.finish(otlp::FINISH);
        }
        health.cost = cost.so_far(nvml);
        let Whole { mut folder, kept, rows_lost, error } = Whole::of(folder, bounded, &sampler);
        health.rows_lost += rows_lost;
        let mut summary = Summary::read(|_| folder.requests());
        if let (Ok(summary), Some(kept)) = (&mut summary, &kept) {
            summary.weigh(kept.weight());
        }
        let gpu_account = Cause::Account(Account::Gpu);
        // A thread that spins for the device is in no account of it.
        let has_waited = |summary: &Summary| summary.has_any(gpu_account) || summary.has_driver();
        usage.apply(&mut guest, summary.as_ref().is_ok_and(has_waited));
        folder.rename(&guest.scenario());
        let path = folder.current_path();
        // Evidence for the findings. Without it the findings stand.
        let evidence = summary.as_mut().map_or(Ok(()), |summary| {
            summary.add_threads(folder.threads()?)?;
            summary.add_waits(|| folder.requests(), folder.waits()?)
        });
        let gpu_work = GpuWorked::read(|| folder.gpu_work(), || folder.requests());
        let told_before = folder.health().last_error.or(error);
        let missing = evidence.err().as_ref().or(gpu_work.as_ref().err()).map(ToString::to_string);
        health.folder_error = told_before.or(missing);
        let lost_before = health.rows_lost;
        let finish = |manifest: &mut Manifest| {
            let lost = manifest.rows_lost;
            health.rows_lost =
                lost_before + lost.phases + lost.threads + lost.marks + lost.waits + lost.gpu_work;
            ended(manifest, &mut end, &health);
            // The channel to the folder may have been full when it was noticed.
            manifest.gpu = gpu;
            manifest.unfinished = (&unfinished).into();
            manifest.scenario = guest.scenario();
            manifest.kept = kept;
            facts::limit(manifest, &guest);
            manifest.limits_seen = limits;
            (manifest.spun, manifest.called) = (spun, called);
            manifest.limits.cpus = Some(guest.cores.allowed.count());
            manifest.host_core_ratio = guest.host_core_ratio();
            manifest.restored = restored.into_iter().map(Into::into).collect();
        };
        let closed = close(folder, finish, summary.as_ref().ok());
        if let Some(error) = closed.unwrap_or_else(|error| Some(format!("{error}"))) {
            health.folder_error = Some(error);
        }
        Told { summary, gpu_work: gpu_work.ok().flatten(), health, guest, path, kept }
    }
}

fn ended(manifest: &mut Manifest, end: &mut End, health: &Health) {
    if let Some(child) = &mut manifest.child {
        child.exit = match end.exit {
            Exit::Code(code) => Some(folder::Exit::Code(code)),
            Exit::Signal(signal) => Some(folder::Exit::Signal(signal)),
            Exit::Ended | Exit::Running => None,
        };
    }
    manifest.workload = end.workload.take().and_then(|value| value.as_object().cloned());
    manifest.set_end(facts::pair(end.clock));
    manifest.set_health(health);
}

/// Closes the folder; the causes and tails of its rows come from the whole run's summary. Rows are converted
/// in the order in which requests are read, so a second reading goes along with the conversion. Returns the
/// first error.
pub(crate) fn close(
    folder: RunFolder,
    finish: impl FnOnce(&mut Manifest),
    summary: Option<&Summary>,
) -> folder::Result<Option<String>> {
    let judge = |request: &Request| summary.map(|summary| summary.verdicts(request)).unwrap_or_default();
    let judged = RefCell::new(Judged::new(folder.requests()?, judge));
    let explain: &mut folder::Explain<'_> = &mut |phase: &Phase| {
        let verdict = judged.borrow_mut().verdict(phase.root);
        (verdict.cause.map(|cause| Cow::from(cause.name())), verdict.tail.map(|band| Cow::from(band.name())))
    };
    let finish = |manifest: &mut Manifest| {
        finish(manifest);
        if let Some(fault) = judged.borrow().fault() {
            manifest.health.folder_error.get_or_insert(fault);
        }
    };
    let closed = folder.close(finish, explain, &mut |_, _| {})?;
    Ok(closed.errors.first().map(ToString::to_string).or_else(|| judged.borrow().fault()))
}

fn tell(summary: &Summary, health: &Health, facts: &RunFacts, json: bool) -> Result<(), SessionError> {
    let text = if json {
        terminal::render_summary_json(summary, health, facts)
    } else {
        terminal::render_summary(summary, health, facts, Style::detect(Stream::Stdout))
    };
    out::answer(&text).during("writing the answer")
}
