//! `guestscope export`: a run folder in a form that others read.
//!
//! Causes and tails come from the whole run, where a live export had only what had come by then. It reads the
//! folder and changes nothing in it. What a folder does not keep is not in it either: single pauses, the
//! host's name.

mod arguments;
mod error;
mod replay;
mod taker;

use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
    iter::Peekable,
    sync::Arc,
    time::Duration,
};

pub use arguments::{ExportArguments, ExportForm};

pub use self::error::ExportFileError;
use self::{
    replay::Replay,
    taker::{Taker, resource},
};
use crate::{
    analyze::Summary,
    child,
    folder::{self, Folder, Sample},
    health::ExportHealth,
    out,
    phase::{GpuReading, GpuWork, Phase, PhaseKind, Request, Restored, RestoredBy, Thread, Wait},
    sinks::{
        otlp::{Lines, LiveVerdict, Written},
        perfetto::{self, Packets},
    },
};

/// Waits are written when they end, and so are requests, by two rings: at the same instant either may come
/// first.
const APART_NS: u64 = 100_000_000;

/// Work of GPUs is written up to a second after its request.
const LATE_NS: u64 = 1_000_000_000;

/// Default time after which a collector that takes nothing is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Exports a run folder. Exit code 0 if there was anything to export, else 1.
///
/// # Errors
/// The folder cannot be read, the file not written, or the collector did not take everything.
pub fn run(arguments: &ExportArguments) -> Result<i32, ExportFileError> {
    let ExportArguments { folder, to, output: out, otlp, give_up } = arguments;
    let refused = match to {
        ExportForm::Otlp => out.as_ref().map(|_| "--output"),
        ExportForm::OtlpJson | ExportForm::Perfetto => {
            otlp.as_ref().map(|_| "--otlp").or(give_up.map(|_| "--give-up"))
        }
    };
    if let Some(option) = refused {
        return Err(ExportFileError::Option(option));
    }
    let folder = Folder::open(folder)?;
    let done = match (to, out) {
        (ExportForm::Otlp, _) => send(&folder, otlp.as_deref(), give_up.unwrap_or(PATIENCE)),
        (_, Some(path)) => {
            let made = child::create_file(path);
            let file = made.map_err(|source| ExportFileError::Create { path: path.clone(), source })?;
            write(*to, &folder, BufWriter::new(file))
        }
        (ExportForm::Perfetto, None) if out::is_terminal() => {
            return Err(ExportFileError::Terminal("perfetto"));
        }
        (_, None) => write(*to, &folder, BufWriter::new(out::file())),
    };
    match done {
        // A reader that went away (`| head`) has what it wanted.
        Err(error) if is_broken_pipe(&error) => Ok(0),
        done => {
            let (count, told) = done?;
            out::say(&told);
            if let Some(left_out) = folder.left_out() {
                out::say(&format!("warning: {left_out}\n"));
            }
            Ok(i32::from(count == 0))
        }
    }
}

/// Sends the folder to a collector. Returns the number of traces and a sentence about them.
fn send(
    folder: &Folder,
    endpoint: Option<&str>,
    patience: Duration,
) -> Result<(u64, String), ExportFileError> {
    let mut replay = Replay::start(folder.manifest(), endpoint, patience)?;
    let outcome = feed(folder, &mut replay);
    // A collector that takes nothing any more ends the reading; the export's counters say more than the
    // timeout.
    let health = match outcome {
        Err(error) if !is_timeout(&error) => return Err(error),
        _ => replay.finish()?,
    };
    let ExportHealth { endpoint, spans_sent, traces_sent, waits_left_out, .. } = health;
    let to = endpoint.unwrap_or_default();
    let left_out = left_out(waits_left_out);
    Ok((traces_sent, format!("{traces_sent} traces, {spans_sent} spans sent to {to}{left_out}\n")))
}

fn left_out(waits: u64) -> String {
    if waits > 0 { format!(", {waits} waits left out") } else { String::new() }
}

/// Writes the folder to a file. Returns the number of requests or processes and a sentence about them.
fn write(to: ExportForm, folder: &Folder, writer: impl Write) -> Result<(u64, String), ExportFileError> {
    match to {
        ExportForm::Perfetto => {
            let perfetto::Written { requests, slices } = packets(folder, writer)?;
            Ok((requests, format!("{requests} requests and processes, {slices} slices\n")))
        }
        ExportForm::OtlpJson => lines(folder, writer),
        // It is sent, and has no file.
        ExportForm::Otlp => Err(ExportFileError::Option("--output")),
    }
}

/// Writes traces as lines of JSON.
fn lines(folder: &Folder, writer: impl Write) -> Result<(u64, String), ExportFileError> {
    let manifest = folder.manifest();
    let mut lines = Lines::new(writer, &manifest.name, resource(manifest));
    feed(folder, &mut lines)?;
    let Written { traces, spans, waits_left_out } = lines.finish()?.1;
    let left_out = left_out(waits_left_out);
    Ok((traces, format!("{traces} traces, {spans} spans{left_out}\n")))
}

/// Writes Perfetto packets; threads first, because they carry the names.
fn packets(folder: &Folder, writer: impl Write) -> Result<perfetto::Written, ExportFileError> {
    let clock = folder.manifest().clocks.first().copied().unwrap_or_default();
    let summary = Summary::read(|_| folder.requests())?;
    let mut packets = Packets::new(writer, clock)?;
    for thread in folder.threads()? {
        packets.thread(&thread?)?;
    }
    for request in folder.requests()? {
        let request = request?;
        let LiveVerdict { cause, tail } = verdict(&summary, &request);
        packets.request(&request, cause.as_deref(), tail.as_deref())?;
    }
    for wait in folder.waits()? {
        packets.wait(&wait?)?;
    }
    for mark in folder.marks()? {
        packets.mark(&mark?)?;
    }
    gpu_work(folder, &mut packets)?;
    for sample in folder.samples()? {
        packets.sample(&sample?)?;
    }
    Ok(packets.finish()?.1)
}

/// Work of GPUs, with the threads that asked for it.
fn gpu_work(folder: &Folder, packets: &mut Packets<impl Write>) -> Result<(), ExportFileError> {
    let Some(rows) = folder.gpu_work()? else { return Ok(()) };
    let mut threads: BTreeMap<u32, Vec<Thread>> = BTreeMap::new();
    for thread in folder.threads()? {
        let thread = thread?;
        threads.entry(thread.id.tid).or_default().push(thread);
    }
    for work in rows {
        let work = work?;
        // Of threads that had the same number one after the other, the one that lived then.
        let of_number = threads.get(&work.thread).into_iter().flatten();
        let thread = of_number.filter(|thread| work.called_ns != 0 && thread.id.born_ns <= work.called_ns);
        let thread = thread.max_by_key(|thread| thread.id.born_ns);
        packets.gpu_work(&work, thread.map(|thread| &thread.id))?;
    }
    Ok(())
}

fn is_broken_pipe(error: &ExportFileError) -> bool {
    matches!(error, ExportFileError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
}

fn is_timeout(error: &ExportFileError) -> bool {
    matches!(error, ExportFileError::Write(error) if error.kind() == io::ErrorKind::TimedOut)
}

impl<W: Write> Taker for Lines<W> {
    fn wait(&mut self, wait: Wait) {
        Lines::wait(self, wait);
    }

    fn restored(&mut self, restored: Restored) {
        Lines::restored(self, restored);
    }

    fn gpu(&mut self, reading: GpuReading) {
        Lines::gpu(self, reading);
    }

    fn gpu_work(&mut self, work: GpuWork) {
        Lines::gpu_work(self, work);
    }

    fn request(
        &mut self,
        request: Arc<Request>,
        verdict: LiveVerdict,
        wall_offset_ns: i64,
    ) -> io::Result<()> {
        Lines::request(self, request, verdict, wall_offset_ns)
    }
}

/// Hands over everything in a folder.
fn feed(folder: &Folder, taker: &mut impl Taker) -> Result<(), ExportFileError> {
    let manifest = folder.manifest();
    let summary = Summary::read(|_| folder.requests())?;
    let is_marked = !summary.groups.is_empty();
    let mut waits = folder.waits()?.peekable();
    let mut samples = folder.samples()?.peekable();
    let mut work = folder.gpu_work()?.into_iter().flatten().peekable();
    let mut restored = manifest.restored.iter().filter_map(of_record).peekable();
    for request in folder.requests()? {
        let request = request?;
        // A program that marks its requests has no traces of its processes.
        if is_marked && request.root().kind == PhaseKind::Process {
            continue;
        }
        let until_ns = end_ns(request.root()).saturating_add(APART_NS);
        while let Some(wait) = next_until(&mut waits, until_ns)? {
            taker.wait(wait);
        }
        while let Some(one) = restored.next_if(|one| one.noticed_ns <= until_ns) {
            taker.restored(one);
        }
        while let Some(reading) = next_reading(&mut samples, until_ns)? {
            taker.gpu(reading);
        }
        let is_due = |work: &folder::Result<GpuWork>| {
            work.as_ref().map_or(true, |work| work.called_ns <= until_ns.saturating_add(LATE_NS))
        };
        while let Some(work) = work.next_if(is_due).transpose()? {
            taker.gpu_work(work);
        }
        let verdict = verdict(&summary, &request);
        let offset_ns = manifest.wall_offset_ns(request.root().start_ns);
        taker.request(Arc::new(request), verdict, offset_ns)?;
    }
    Ok(())
}

fn end_ns(phase: &Phase) -> u64 {
    phase.start_ns.saturating_add(phase.duration_ns)
}

/// The next wait, if it ended by `until_ns`.
fn next_until(waits: &mut Peekable<folder::Rows<Wait>>, until_ns: u64) -> folder::Result<Option<Wait>> {
    let is_due = |wait: &folder::Result<Wait>| wait.as_ref().map_or(true, |wait| wait.end_ns() <= until_ns);
    waits.next_if(is_due).transpose()
}

/// The next GPU reading, if it was taken by `until_ns`.
fn next_reading(
    samples: &mut Peekable<folder::Rows<Sample>>,
    until_ns: u64,
) -> folder::Result<Option<GpuReading>> {
    let is_due = |sample: &folder::Result<Sample>| {
        sample.as_ref().map_or(true, |sample| sample.gpu.is_none_or(|reading| reading.time_ns <= until_ns))
    };
    while let Some(sample) = samples.next_if(is_due).transpose()? {
        if sample.gpu.is_some() {
            return Ok(sample.gpu);
        }
    }
    Ok(None)
}

fn verdict(summary: &Summary, request: &Request) -> LiveVerdict {
    let verdict = summary.verdicts(request).first().copied().unwrap_or_default();
    LiveVerdict {
        cause: verdict.cause.map(|cause| cause.name().into()),
        tail: verdict.tail.map(|band| band.name().into()),
    }
}

fn of_record(record: &folder::RestoredRecord) -> Option<Restored> {
    let source =
        [RestoredBy::Vmgenid, RestoredBy::Vmclock].into_iter().find(|one| one.name() == record.source)?;
    Some(Restored { noticed_ns: record.noticed_ns, source })
}
