//! Single requests over time, with their waits; and where threads moved to.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use guestscope_contract::Account;
use maud::{Markup, html};

use super::{
    super::{
        charts::{ChartError, Level, MOST_CPUS, Piece, Row, matrix, timeline},
        moments::{Looked, Moment, Why},
        report::{Report, View},
    },
    parts::legend,
};
use crate::{
    analyze::{Cause, compare::latency_ns},
    phase::{GpuReading, GpuWork, Phase, PhaseKind, ThreadId, Wait},
    terminal::{
        syscall_name,
        units::{counted, duration, hex, thousands},
    },
};

/// Most rows for threads.
const MOST_THREADS: usize = 10;
/// Most rows for graphics processors.
const MOST_GPUS: usize = 8;
/// Most waits listed, the longest ones.
const MOST_LISTED: usize = 12;

/// The section.
pub(super) fn requests(report: &Report) -> Result<Markup, ChartError> {
    let mut parts = Vec::new();
    for view in &report.views {
        let mut moments = Vec::new();
        for moment in &view.looked.moments {
            moments.push(one(report, view, moment)?);
        }
        parts.push(html! { h3 { (view.breakdown.label) } @for moment in &moments { (moment) } @if moments.is_empty() { p { "None can be shown." } } });
    }
    let moments = report.views.iter().flat_map(|view| &view.looked.moments);
    let used: BTreeSet<Cause> = moments.flat_map(causes).collect();
    Ok(html! {
        p { "Phases as bars, and below them what the request's threads waited for, as far as a wait was long enough to be recorded; last, where there are any, what graphics processors did for it, as far as that was recorded, and how busy they were, as often as their drivers look." }
        (legend(|cause| used.contains(&cause)))
        @for part in &parts { (part) }
    })
}

/// Causes drawn in a request's chart.
fn causes(moment: &Moment) -> impl Iterator<Item = Cause> {
    let waits = moment.waits.iter().map(|wait| Cause::Account(wait.mainly().0));
    let queues = moment.request.phases.iter().filter(|phase| phase.kind == PhaseKind::Queue);
    let gpus = moment.gpus.iter().map(|_| ()).chain(moment.works.iter().map(|_| ()));
    waits.chain(queues.map(|_| Cause::Queue)).chain(gpus.map(|()| Cause::Account(Account::Gpu)))
}

fn one(report: &Report, view: &View, moment: &Moment) -> Result<Markup, ChartError> {
    let latency = latency_ns(&moment.request);
    let title = match moment.why {
        Why::Typical => "a typical request".to_owned(),
        Why::Slow(1) => "the slowest request".to_owned(),
        Why::Slow(rank) => format!("number {rank} of the slowest"),
    };
    let root = moment.request.root();
    let description = format!("{title} of {}: {}", view.breakdown.label, duration(latency));
    let chart = timeline(&rows(moment), latency, &description)?;
    let trace = hex(&root.trace.trace_id);
    let is_traced = root.trace.trace_id != [0; 16];
    let is_open = matches!(moment.why, Why::Typical | Why::Slow(1));
    Ok(html! { details class="request" open[is_open] {
        summary { (title) ": " (duration(latency)) ", request " (root.request) " of " code { (moment.run) } }
        figure { (chart) }
        @if is_traced { p class="trace" { "trace " @match &report.jaeger {
            Some(base) => a href={ (base.trim_end_matches('/')) "/trace/" (trace) } rel="noreferrer" { code { (trace) } },
            None => code { (trace) },
        } } }
        (waits(moment))
    } })
}

/// When the request arrived: its queue time is before its start.
fn arrival_ns(moment: &Moment) -> u64 {
    moment.request.phases.iter().map(|phase| phase.start_ns).min().unwrap_or(0)
}

fn rows(moment: &Moment) -> Vec<Row> {
    let start_ns = arrival_ns(moment);
    let phases = &moment.request.phases;
    let parents: HashMap<u64, Option<u64>> = phases.iter().map(|phase| (phase.id, phase.parent)).collect();
    let depth = |phase: &Phase| {
        std::iter::successors(phase.parent, |id| parents.get(id).copied().flatten()).take(6).count()
    };
    let mut rows: Vec<Row> = Vec::new();
    for phase in phases {
        let depth = depth(phase);
        while rows.len() <= depth {
            rows.push(Row {
                name: if rows.is_empty() { "phases".to_owned() } else { String::new() },
                ..Row::default()
            });
        }
        let cause = (phase.kind == PhaseKind::Queue).then_some(Cause::Queue);
        rows[depth].pieces.push(Piece {
            start_ns: phase.start_ns.saturating_sub(start_ns),
            duration_ns: phase.duration_ns,
            name: phase.name.to_string(),
            cause,
        });
    }
    rows.extend(threads(moment).into_iter().map(|thread| of_thread(moment, thread, start_ns)));
    rows.extend(streams(moment, start_ns));
    rows.extend(gpus(moment, start_ns));
    rows
}

/// Rows of the work that the request asked a GPU for, one for each stream.
fn streams(moment: &Moment, start_ns: u64) -> Vec<Row> {
    let end_ns = start_ns.saturating_add(latency_ns(&moment.request));
    let mut rows: BTreeMap<(u32, u32), Row> = BTreeMap::new();
    for work in moment.works.iter().filter(|work| work.start_ns < end_ns) {
        let GpuWork { device, stream, .. } = work;
        let name = || format!("GPU {device} stream {stream}");
        let row = rows.entry((*device, *stream)).or_insert_with(|| Row { name: name(), ..Row::default() });
        let name = if work.name.is_empty() { work.kind.name().to_owned() } else { work.name.to_string() };
        row.pieces.push(Piece {
            start_ns: work.start_ns.saturating_sub(start_ns),
            duration_ns: work.end_ns.min(end_ns).saturating_sub(work.start_ns),
            name,
            cause: Some(Cause::Account(Account::Gpu)),
        });
    }
    rows.into_values().take(MOST_GPUS).collect()
}

/// Rows of GPU load: a reading covers the time since the one before it.
fn gpus(moment: &Moment, start_ns: u64) -> Vec<Row> {
    let devices: BTreeSet<u32> = moment.gpus.iter().map(|reading| reading.device).collect();
    let of_device = |device: u32| {
        let mut since_ns = start_ns;
        let end_ns = start_ns.saturating_add(latency_ns(&moment.request));
        let readings = moment.gpus.iter().filter(|reading| reading.device == device);
        let level = |reading: &GpuReading| {
            let from_ns = std::mem::replace(&mut since_ns, reading.time_ns.min(end_ns));
            if from_ns == end_ns {
                return None;
            }
            Some(Level {
                start_ns: from_ns.saturating_sub(start_ns),
                duration_ns: since_ns.saturating_sub(from_ns),
                percent: reading.utilization_percent?.min(100) as u8,
            })
        };
        Row {
            name: format!("GPU {device} busy"),
            levels: readings.filter_map(level).collect(),
            ..Row::default()
        }
    };
    devices.into_iter().take(MOST_GPUS).map(of_device).filter(|row| !row.levels.is_empty()).collect()
}

/// The request's own thread, then those that waited longest.
fn threads(moment: &Moment) -> Vec<ThreadId> {
    let own = moment.request.root().thread;
    let waited = |thread: &ThreadId| -> u64 {
        moment.waits.iter().filter(|wait| wait.thread == *thread).map(|wait| wait.duration_ns).sum()
    };
    let others: BTreeSet<ThreadId> =
        moment.waits.iter().map(|wait| wait.thread).filter(|thread| *thread != own).collect();
    let mut others: Vec<ThreadId> = others.into_iter().collect();
    others.sort_by_key(|thread| std::cmp::Reverse(waited(thread)));
    std::iter::once(own).chain(others).take(MOST_THREADS).collect()
}

fn thread_name(moment: &Moment, thread: ThreadId) -> String {
    let comm = moment.threads.get(&thread).cloned().unwrap_or_default();
    format!("{comm} {}", thread.tid)
}

fn of_thread(moment: &Moment, thread: ThreadId, start_ns: u64) -> Row {
    let piece = |wait: &Wait| {
        let (account, _) = wait.mainly();
        Piece {
            start_ns: wait.start_ns.saturating_sub(start_ns),
            duration_ns: wait.duration_ns,
            name: account.name().to_owned(),
            cause: Some(Cause::Account(account)),
        }
    };
    let pieces = moment.waits.iter().filter(|wait| wait.thread == thread).map(piece).collect();
    Row { name: thread_name(moment, thread), pieces, ..Row::default() }
}

fn waits(moment: &Moment) -> Markup {
    let start_ns = arrival_ns(moment);
    let mut longest: Vec<&Wait> = moment.waits.iter().collect();
    longest.sort_by_key(|wait| std::cmp::Reverse(wait.duration_ns));
    longest.truncate(MOST_LISTED);
    longest.sort_by_key(|wait| wait.start_ns);
    let ran = |wait: &Wait| {
        if wait.ran_before_tid == 0 {
            "idle".to_owned()
        } else {
            format!("{} {}", wait.ran_before_comm, wait.ran_before_tid)
        }
    };
    let for_what = |wait: &Wait| match (&wait.io, wait.syscall.and_then(syscall_name)) {
        _ if let Some(by) = wait.stopped_by => format!("a stop by a {}", by.name()),
        (Some(io), _) => format!("{} of {}", io.direction(), io.name),
        (None, Some(name)) => name.to_owned(),
        (None, None) => String::new(),
    };
    let all = moment.waits.len() + moment.waits_left_out;
    html! { @if longest.is_empty() { p { "No long wait." } } @else { details { summary { (counted(all as u64, "long wait", "long waits")) } div class="wide" { table {
        thead { tr { th class="n" { "at" } th class="n" { "for" } th { "account" } th { "thread" } th { "waited in" } th { "CPU" } th { "ran there before" } th { "woken by" } } }
        tbody { @for wait in &longest { tr {
            td class="n" { (duration(wait.start_ns.saturating_sub(start_ns))) } td class="n" { (duration(wait.duration_ns)) }
            td { (wait.mainly().0.name()) } td { (thread_name(moment, wait.thread)) } td { (for_what(wait)) }
            td { (wait.left_cpu) @if wait.left_cpu != wait.cpu { " \u{2192} " (wait.cpu) } } td { (ran(wait)) }
            td { @if let Some(waker) = wait.waker_tid { (waker) } }
        } } }
    } @if all > longest.len() { p { "The longest " (longest.len()) " of them." } } } } } }
}

/// Charts of moves between CPUs; none where nothing moved.
pub(super) fn moves(report: &Report) -> Result<Option<Markup>, ChartError> {
    let mut parts = Vec::new();
    for View { breakdown, looked, .. } in &report.views {
        if let Some(chart) = matrix_of(looked, &breakdown.label)? {
            parts.push(html! { h3 { (breakdown.label) } p { "Of " (counted(looked.waits, "long wait", "long waits")) " " (thousands(looked.moves.values().sum())) " ended on another CPU." } (chart) });
        }
    }
    Ok((!parts.is_empty()).then(|| html! {
        p { "Of waits that were long enough to be recorded; all moves are counted in the folders, by distance." }
        @for part in &parts { (part) }
    }))
}

fn matrix_of(looked: &Looked, label: &str) -> Result<Option<Markup>, ChartError> {
    let mut cpus: Vec<u32> = looked.moves.keys().flat_map(|(from, to)| [*from, *to]).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() {
        return Ok(None);
    }
    if cpus.len() > MOST_CPUS {
        let mut pairs: Vec<(&(u32, u32), &u64)> = looked.moves.iter().collect();
        pairs.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        return Ok(Some(html! { div class="wide" { table {
            thead { tr { th class="n" { "from CPU" } th class="n" { "to" } th class="n" { "moves" } } }
            tbody { @for ((from, to), count) in pairs.iter().take(2 * MOST_CPUS) { tr { td class="n" { (from) } td class="n" { (to) } td class="n" { (thousands(**count)) } } } }
        } } }));
    }
    let counts: Vec<Vec<u64>> = cpus
        .iter()
        .map(|from| cpus.iter().map(|to| looked.moves.get(&(*from, *to)).copied().unwrap_or(0)).collect())
        .collect();
    Ok(Some(
        html! { figure class="matrix" style={ "max-width:" (cpus.len() * 5 + 7) "rem" } { (matrix(&cpus, &counts, label)?) } },
    ))
}
