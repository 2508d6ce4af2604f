//! What GPUs did for requests of both platforms, by the work that was recorded in windows: a sentence on
//! kernels, one on copies, and the same in JSON.
//!
//! Yields nothing where either side did not record it of enough requests. A sentence says "longer" only where
//! that is sure.

use serde::Serialize;

use crate::analyze::{
    compare::{Compared as OnePlatform, GpuCause, GpuDifference, GpuMeans, GpuSide},
    gpu_bound::Bound,
};

use super::{
    super::units::{bytes, counted, mean_duration, percent, thousands},
    numbers::{IntervalJson, interval, number, signed},
};

/// A line: its heading, and what it says.
pub(super) type Line = (&'static str, String);

/// On kernels, on copies if there are any, and on how many requests that rests.
pub(super) fn lines(one: &OnePlatform) -> Vec<Line> {
    let Some(gpu) = &one.gpu else { return Vec::new() };
    let causes = one.gpu_causes();
    let is_there =
        |bound: &Bound| [&gpu.baseline, &gpu.platform].iter().any(|side| time_ns(side, *bound) > 0.0);
    let mut lines: Vec<Line> = [Bound::Busy, Bound::Copy]
        .into_iter()
        .filter(is_there)
        .map(|bound| {
            let named = causes.iter().find(|cause| cause.bound == bound);
            let heading = if named.is_some() { bound.name() } else { "gpu" };
            (heading, words(one, gpu, bound, named))
        })
        .collect();
    if lines.is_empty() {
        lines.push(("gpu", "no request asked for work on either side".to_owned()));
    }
    let of = |side: &GpuSide| {
        (counted(side.requests, "request", "requests"), counted(side.runs as u64, "run", "runs"))
    };
    let ((requests, runs), (_, baseline_runs)) = (of(&gpu.platform), of(&gpu.baseline));
    let baseline = thousands(gpu.baseline.requests);
    lines.push(("in windows", format!("{requests} in {runs} (baseline {baseline} in {baseline_runs})")));
    lines
}

fn words(one: &OnePlatform, gpu: &GpuDifference, bound: Bound, named: Option<&GpuCause>) -> String {
    let (verb, what) = match bound {
        Bound::Busy => ("computed", "kernels"),
        Bound::Copy => ("copied", "copies"),
    };
    let difference = gpu.difference_ns(bound);
    let claim = match gpu.is_sure(bound) {
        Some(true) if difference.value > 0.0 => format!("the GPU {verb} longer: "),
        Some(true) => format!("the GPU {verb} for less time: "),
        Some(false) => format!("it is not sure that the GPU {verb} longer or for less time: "),
        None => String::new(),
    };
    let [mine, usual] = [&gpu.platform, &gpu.baseline];
    let part = named.map(|cause| {
        format!(", {} of {} in gpu and cpu.gpu", percent(cause.share), signed(one.waited_for_gpu_ns()))
    });
    format!(
        "{claim}{what} took {} per request (baseline {}), {}{}; {} (baseline {})",
        mean_duration(time_ns(mine, bound)),
        mean_duration(time_ns(usual, bound)),
        interval(difference),
        part.unwrap_or_default(),
        priced(&mine.means, bound),
        priced(&usual.means, bound),
    )
}

fn time_ns(side: &GpuSide, bound: Bound) -> f64 {
    match bound {
        Bound::Busy => side.means.kernels_ns,
        Bound::Copy => side.means.copies_ns,
    }
}

/// `5.00 x 620 us`, `1.00 x 77.1 MB at 12.3 GB/s`.
fn priced(means: &GpuMeans, bound: Bound) -> String {
    let GpuMeans { kernels, kernels_ns, copies, copies_ns, copied_bytes } = *means;
    match bound {
        Bound::Busy if kernels > 0.0 => {
            format!("{} x {}", number(kernels), mean_duration(kernels_ns / kernels))
        }
        Bound::Copy if copies > 0.0 => {
            let (each, per_s) = (copied_bytes / copies, copied_bytes / copies_ns.max(1.0) * 1e9);
            let [each, per_s] = [each, per_s].map(|value| bytes(value.round() as u64));
            format!("{} x {each} at {per_s}/s", number(copies))
        }
        Bound::Busy | Bound::Copy => "none".to_owned(),
    }
}

/// `; on the GPU: kernels +1.70 ms`: behind the sentence on waits for it.
pub(super) fn clause(one: &OnePlatform) -> String {
    let of = |cause: &GpuCause| {
        let what = match cause.bound {
            Bound::Busy => "kernels",
            Bound::Copy => "copies",
        };
        format!("{what} {}", signed(cause.difference_ns))
    };
    let causes: Vec<String> = one.gpu_causes().iter().map(of).collect();
    if causes.is_empty() { String::new() } else { format!("; on the GPU: {}", causes.join(", ")) }
}

/// See [`lines`].
#[derive(Serialize)]
pub(super) struct GpuJson {
    kernels_difference_ns: IntervalJson,
    copies_difference_ns: IntervalJson,
    baseline: SideJson,
    value: SideJson,
    /// What threads waited longer for, largest first.
    causes: Vec<CauseJson>,
}

#[derive(Serialize)]
struct SideJson {
    runs: usize,
    requests: u64,
    kernels: f64,
    kernels_ns: f64,
    copies: f64,
    copies_ns: f64,
    copied_bytes: f64,
}

#[derive(Serialize)]
struct CauseJson {
    cause: &'static str,
    difference_ns: f64,
    /// The difference in accounts `gpu` and `cpu.gpu`.
    share: f64,
}

/// See [`GpuJson`].
pub(super) fn json(one: &OnePlatform) -> Option<GpuJson> {
    let gpu = one.gpu.as_ref()?;
    let cause = |GpuCause { bound, difference_ns, share }: GpuCause| CauseJson {
        cause: bound.name(),
        difference_ns,
        share,
    };
    Some(GpuJson {
        kernels_difference_ns: gpu.kernels_ns.into(),
        copies_difference_ns: gpu.copies_ns.into(),
        baseline: side_json(&gpu.baseline),
        value: side_json(&gpu.platform),
        causes: one.gpu_causes().into_iter().map(cause).collect(),
    })
}

fn side_json(side: &GpuSide) -> SideJson {
    let GpuSide { runs, requests, means } = *side;
    let GpuMeans { kernels, kernels_ns, copies, copies_ns, copied_bytes } = means;
    SideJson { runs, requests, kernels, kernels_ns, copies, copies_ns, copied_bytes }
}
