//! What a GPU did for a single request that lies within a window: its kernels and copies beside those of a
//! mean request, for which part of it the GPU did nothing, and the kernels that took longest.

use serde::Serialize;

use super::{
    super::{
        page::{Emphasis, Page, Piece, words},
        text::left,
        units::{bytes, counted, duration, mean, mean_duration, percent, thousands},
    },
    facts::ExplainFacts,
};
use crate::{
    analyze::{
        Group,
        explain::{Case, RequestWork},
        gpu_work::{KernelWork, PhaseWork},
    },
    untrusted::Untrusted,
};

/// Columns of a difference: `+1,234 us` is the longest.
pub(super) const DIFFERENCE: usize = 9;

/// Longest name of a kernel.
const NAME: usize = 60;

/// A line below the request's phases, whose names have so many columns; nothing where the GPU did nothing.
pub(super) fn line(page: &mut Page, case: &Case, group: &Group, facts: &ExplainFacts, columns: usize) {
    let Some(work) = &case.gpu else { return };
    let sums = &work.sums;
    if sums.kernels + sums.copies == 0 && sums.busy_ns == 0 {
        return;
    }
    let usual = facts.gpu_work.as_ref().and_then(|told| told.of_requests(&group.name));
    let mut parts = asked(sums, usual);
    let idle = |of: &PhaseWork| percent(of.idle().max(0.0));
    let usually = beside(usual, idle);
    parts.push(format!("the GPU did nothing for its process for {} of it{usually}", idle(sums)));
    let kernels: Vec<String> = work.longest.iter().map(|kernel| named(page, kernel)).collect();
    if !kernels.is_empty() {
        parts.push(format!("longest: {}", kernels.join(", ")));
    }
    if let Some(usual) = usual {
        let requests = counted(usual.count, "request", "requests");
        parts.push(format!("mean: of {requests} that lie within windows"));
    }
    let heading = Piece::from(format!("  {}", left("(GPU)", columns + 2)));
    let text = words(&parts.join("; "), Emphasis::None);
    page.wrapped(&[heading], columns + DIFFERENCE + 8, text);
}

/// `5 kernels took 3.10 ms (mean 5.00 in 1.40 ms)`, `1 copy of 65.5 kB took 150 us (mean 148 us)`.
fn asked(sums: &PhaseWork, usual: Option<&PhaseWork>) -> Vec<String> {
    let each = |of: &PhaseWork, ns: u64| mean_duration(ns as f64 / of.count.max(1) as f64);
    let kernels =
        beside(usual, |of| format!("{} in {}", mean(of.kernels.into(), of.count), each(of, of.kernels_ns)));
    let copies = beside(usual, |of| each(of, of.copies_ns));
    let kernels = (sums.kernels > 0).then(|| {
        let count = counted(sums.kernels, "kernel", "kernels");
        format!("{count} took {}{kernels}", duration(sums.kernels_ns))
    });
    let copies = (sums.copies > 0).then(|| {
        let (count, size) = (counted(sums.copies, "copy", "copies"), bytes(sums.copied_bytes));
        format!("{count} of {size} took {}{copies}", duration(sums.copies_ns))
    });
    let parts: Vec<String> = kernels.into_iter().chain(copies).collect();
    if parts.is_empty() { vec!["it asked for no work".to_owned()] } else { parts }
}

/// ` (mean 1.40 ms)`, if a mean is known.
fn beside(usual: Option<&PhaseWork>, words: impl Fn(&PhaseWork) -> String) -> String {
    usual.map(|usual| format!(" (mean {})", words(usual))).unwrap_or_default()
}

/// `gemm 1.80 ms in 3`
fn named(page: &Page, kernel: &KernelWork) -> String {
    let name = if kernel.name.is_empty() { "(unnamed)".to_owned() } else { page.name(&kernel.name, NAME) };
    let times = if kernel.count > 1 { format!(" in {}", thousands(kernel.count)) } else { String::new() };
    format!("{name} {}{times}", duration(kernel.sum_ns))
}

/// See [`line`].
#[derive(Serialize)]
pub(super) struct GpuJson<'a> {
    kernels: u64,
    kernels_ns: u64,
    copies: u64,
    copies_ns: u64,
    copied_bytes: u64,
    busy_ns: u64,
    idle_ns: u64,
    longest_kernels: Vec<KernelJson<'a>>,
}

#[derive(Serialize)]
struct KernelJson<'a> {
    name: &'a Untrusted,
    count: u64,
    sum_ns: u64,
}

/// See [`GpuJson`].
pub(super) fn json(RequestWork { sums, longest }: &RequestWork) -> GpuJson<'_> {
    fn kernel(KernelWork { name, count, sum_ns }: &KernelWork) -> KernelJson<'_> {
        KernelJson { name, count: *count, sum_ns: *sum_ns }
    }
    GpuJson {
        kernels: sums.kernels,
        kernels_ns: sums.kernels_ns,
        copies: sums.copies,
        copies_ns: sums.copies_ns,
        copied_bytes: sums.copied_bytes,
        busy_ns: sums.busy_ns,
        idle_ns: sums.duration_ns.saturating_sub(sums.busy_ns),
        longest_kernels: longest.iter().map(kernel).collect(),
    }
}
