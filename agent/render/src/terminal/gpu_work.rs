//! What ran on a GPU, from the work that was recorded in windows: a table of phases, one of kernels, and what
//! took most of the time of requests.

use serde::Serialize;

use super::{
    health_lines,
    page::{Align, Emphasis, Page, Piece},
    tables::{heading, name_columns},
    units::{bytes, counted, duration, mean_duration, percent, thousands},
};
use crate::{
    analyze::{
        Group, advice,
        gpu_bound::Bound,
        gpu_work::{GpuWorked, KernelWork, PhaseWork},
    },
    untrusted::Untrusted,
};

/// Most kernels listed for people; JSON has all.
const KERNELS: usize = 5;

/// The same in JSON.
#[derive(Serialize)]
pub(super) struct GpuWorkJson<'a> {
    windows: u64,
    windows_ns: u64,
    lost: u64,
    cost_ns: u64,
    pieces: u64,
    outside_phases: u64,
    phases: Vec<PhaseJson<'a>>,
    kernels_ns: u64,
    kernels: Vec<KernelJson<'a>>,
}

#[derive(Serialize)]
struct PhaseJson<'a> {
    name: &'a Untrusted,
    kind: &'static str,
    count: u64,
    duration_ns: u64,
    kernels: u64,
    kernels_ns: u64,
    copies: u64,
    copies_ns: u64,
    copied_bytes: u64,
    busy_ns: u64,
    concurrent_ns: u64,
    queue_delay_ns: u64,
    queue_delays: u64,
}

#[derive(Serialize)]
struct KernelJson<'a> {
    name: &'a Untrusted,
    count: u64,
    sum_ns: u64,
}

/// See [`GpuWorkJson`].
pub(super) fn json(told: &GpuWorked) -> GpuWorkJson<'_> {
    GpuWorkJson {
        windows: told.windows,
        windows_ns: told.windows_ns,
        lost: told.lost,
        cost_ns: told.cost_ns,
        pieces: told.pieces,
        outside_phases: told.outside,
        phases: told.phases.iter().map(phase_json).collect(),
        kernels_ns: told.kernels_ns,
        kernels: told.kernels.iter().map(kernel_json).collect(),
    }
}

fn phase_json(phase: &PhaseWork) -> PhaseJson<'_> {
    PhaseJson {
        name: &phase.name,
        kind: if phase.is_request { "request" } else { "phase" },
        count: phase.count,
        duration_ns: phase.duration_ns,
        kernels: phase.kernels,
        kernels_ns: phase.kernels_ns,
        copies: phase.copies,
        copies_ns: phase.copies_ns,
        copied_bytes: phase.copied_bytes,
        busy_ns: phase.busy_ns,
        concurrent_ns: phase.concurrent_ns,
        queue_delay_ns: phase.delay_ns,
        queue_delays: phase.delays,
    }
}

fn kernel_json(kernel: &KernelWork) -> KernelJson<'_> {
    KernelJson { name: &kernel.name, count: kernel.count, sum_ns: kernel.sum_ns }
}

/// How busy a GPU was while requests of a group ran, percent: by its driver's samples, which know of other
/// processes, or by the recorded work of at least twenty requests, whichever is more.
pub(super) fn busy_percent(group: &Group, told: Option<&GpuWorked>, gpu: Option<u64>) -> Option<u64> {
    let recorded = told.and_then(|told| told.of_requests(&group.name));
    let recorded = recorded.map(|phase| (phase.share(phase.busy_ns) * 100.0).round() as u64);
    gpu.max(recorded)
}

/// What took most of a group's time, if the GPU did.
pub(super) fn line(page: &mut Page, group: &Group, told: Option<&GpuWorked>) -> Option<Bound> {
    let phase = told.and_then(|told| told.of_requests(&group.name))?;
    let bound = phase.bound()?;
    let of = format!("{} that lie within windows", counted(phase.count, "request", "requests"));
    let text = match bound {
        Bound::Busy => format!(
            "gpu.busy: the GPU worked for {} of the time of {of}",
            percent(phase.share(phase.busy_ns).min(1.0))
        ),
        Bound::Copy => format!(
            "gpu.copy: copies took {} of the time of {of}, {} each",
            percent(phase.share(phase.copies_ns).min(1.0)),
            bytes(phase.copied_bytes / phase.count.max(1))
        ),
    };
    page.sentence(&text, Emphasis::Warning);
    Some(bound)
}

/// The same with advice.
pub(super) fn line_and_advice(page: &mut Page, group: &Group, told: Option<&GpuWorked>) {
    let key = line(page, group, told).map(Bound::name);
    if let Some(advice) = key.and_then(advice::for_cause) {
        health_lines::advice(page, "advice", &advice.text, &advice.source);
    }
}

/// What was recorded: a sentence, and two tables.
pub(super) fn tables(page: &mut Page, told: Option<&GpuWorked>) {
    let Some(told) = told else { return };
    page.sentence(&recorded(told), Emphasis::Strong);
    if let Some(text) = unseen(told) {
        page.sentence(&text, Emphasis::Warning);
    }
    if told.pieces > 0 {
        if !told.phases.is_empty() {
            page.blank();
            phases(page, told);
        }
        if !told.kernels.is_empty() {
            page.blank();
            kernels(page, told);
        }
    }
    page.blank();
}

fn recorded(told: &GpuWorked) -> String {
    let windows = counted(told.windows, "window", "windows");
    let pieces = counted(told.pieces, "piece", "pieces");
    format!(
        "GPU work: {pieces} in {windows} of {} together; the thread that recorded took {} of CPU time",
        duration(told.windows_ns),
        duration(told.cost_ns)
    )
}

/// What the tables lack.
fn unseen(told: &GpuWorked) -> Option<String> {
    let mut parts = Vec::new();
    if told.lost > 0 {
        parts.push(format!("up to {} more, or calls, were not kept", thousands(told.lost)));
    }
    if told.pieces > 0 && told.outside == told.pieces {
        parts.push("no phase asked for any of it".to_owned());
    } else if told.pieces > 0 && told.phases.iter().all(|phase| !phase.is_request) {
        parts.push("no request lies within a window: ask for longer ones".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn phases(page: &mut Page, told: &GpuWorked) {
    let indent = |phase: &PhaseWork| if phase.is_request { "" } else { "  " };
    let names: Vec<String> =
        told.phases.iter().map(|phase| format!("{}{}", indent(phase), page.safe(&phase.name))).collect();
    let columns = name_columns(page, &names);
    let head = ["in windows", "count", "time", "kernels", "in them", "copies", "idle", "delay"];
    let mut rows = vec![head.into_iter().map(heading).collect::<Vec<Piece>>()];
    for (phase, name) in told.phases.iter().zip(&names) {
        let each = |ns: u64| mean_duration(ns as f64 / phase.count.max(1) as f64);
        let kernels = phase.kernels as f64 / phase.count.max(1) as f64;
        let delay = phase.delay_ns.checked_div(phase.delays).map_or_else(|| "-".to_owned(), duration);
        rows.push(vec![
            page.fit(name, columns).into(),
            thousands(phase.count).into(),
            each(phase.duration_ns).into(),
            if kernels < 10.0 { format!("{kernels:.1}") } else { thousands(kernels.round() as u64) }.into(),
            each(phase.kernels_ns).into(),
            each(phase.copies_ns).into(),
            percent(phase.idle().max(0.0)).into(),
            delay.into(),
        ]);
    }
    let mut aligns = vec![Align::Right; head.len()];
    aligns[0] = Align::Left;
    page.table(&aligns, &rows);
    let text = "(means of one; idle: the GPU did nothing for the process meanwhile; delay: from the end of a \
                call to the start of its work)";
    page.sentence(text, Emphasis::Faint);
}

fn kernels(page: &mut Page, told: &GpuWorked) {
    let head = ["share", "count", "each", "kernel"];
    let mut rows = vec![head.into_iter().map(heading).collect::<Vec<Piece>>()];
    let room = page.style().width.saturating_sub(32);
    for kernel in told.kernels.iter().take(KERNELS) {
        let name =
            if kernel.name.is_empty() { "(unnamed)".to_owned() } else { page.name(&kernel.name, room) };
        rows.push(vec![
            percent(kernel.sum_ns as f64 / told.kernels_ns.max(1) as f64).into(),
            thousands(kernel.count).into(),
            mean_duration(kernel.sum_ns as f64 / kernel.count.max(1) as f64).into(),
            name.into(),
        ]);
    }
    page.table(&[Align::Right, Align::Right, Align::Right, Align::Left], &rows);
}
