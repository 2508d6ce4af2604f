//! What is said of the work of a GPU for single requests.

use std::convert::Infallible;

use guestscope_contract::Account;
use insta::assert_snapshot;

use super::{
    super::tests::fixtures::UNICODE,
    tests::{explained, facts},
    *,
};
use crate::{
    analyze::{
        explain::Wanted,
        gpu_work::GpuWorked,
        samples::{Sample, Step},
    },
    phase::{GpuWork, GpuWorkKind, Request},
};

const MS: u64 = 1_000_000;
/// From one request's start to the next, ns.
const APART_NS: u64 = 50 * MS;
/// The slow request.
const SLOW: u64 = 30;

/// 40 requests, of which one waits for 5 ms more for a GPU.
fn requests() -> Vec<Request> {
    let request = |number: u64| {
        let asleep = Step::Spend(Account::Gpu, if number == SLOW { 7 * MS } else { 2 * MS } + number);
        let steps = vec![Step::Nest("inference", vec![Step::Spend(Account::Cpu, MS), asleep])];
        Sample::new(number, APART_NS * (number + 1), steps).build()
    };
    (0..40).map(request).collect()
}

/// Two kernels and a copy of each request but the fifth, and a window from the first of these requests on.
fn work(first: u64) -> Vec<GpuWork> {
    let of = |number: u64| {
        let start_ns = APART_NS * (number + 1) + MS;
        let long_ns = if number == SLOW { 6 * MS } else { MS };
        let (id, copied_ns) = (number * 1_000 + 1, start_ns + MS / 2);
        let piece = |kind, name: &str, start_ns, ns| GpuWork {
            kind,
            name: name.into(),
            process: 7,
            start_ns,
            end_ns: start_ns + ns,
            phase: Some(id + 1),
            root: Some(id),
            bytes: 65_536,
            ..GpuWork::default()
        };
        [
            piece(GpuWorkKind::Copy, "host to device", start_ns, MS / 2),
            piece(GpuWorkKind::Kernel, "gemm\u{1b}[31m", copied_ns, long_ns),
            piece(GpuWorkKind::Kernel, "norm", copied_ns + long_ns, MS / 4),
        ]
    };
    let (start_ns, end_ns) = (APART_NS * (first + 1), APART_NS * 60);
    let window = GpuWork { kind: GpuWorkKind::Window, process: 7, start_ns, end_ns, ..GpuWork::default() };
    (0..40).filter(|number| *number != 5).flat_map(of).chain([window]).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "as a folder gives them")]
fn rows(first: u64) -> Result<Option<impl Iterator<Item = Result<GpuWork, Infallible>>>, Infallible> {
    Ok(Some(work(first).into_iter().map(Ok)))
}

/// Text and JSON of one request, where a window begins with the request of this number.
fn told(number: u64, first: u64) -> (String, serde_json::Value) {
    let mut explanation = explained(&requests(), Vec::new(), Wanted::Number(number));
    let Ok(()) = explanation.add_gpu_work(|| rows(first));
    let requests = || Ok(requests().into_iter().map(Ok));
    let Ok(gpu_work) = GpuWorked::read(|| rows(first), requests);
    let facts = ExplainFacts { shown: Shown::One, gpu_work, ..facts() };
    let json = serde_json::from_str(&render_explanation_json(&explanation, &facts)).expect("it is JSON");
    (render_explanation(&explanation, &facts, UNICODE), json)
}

/// The line, without its breaks.
fn line(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("  (GPU)"));
    let first = lines.next()?;
    let more = lines.take_while(|line| line.starts_with("      "));
    let words = std::iter::once(first).chain(more).flat_map(str::split_whitespace);
    Some(words.collect::<Vec<_>>().join(" "))
}

#[test]
fn a_request_within_a_window_has_its_work_beside_that_of_others() {
    let (text, json) = told(SLOW, 0);
    assert_snapshot!(
        line(&text).expect("it is told"),
        @"(GPU) 2 kernels took 6.25 ms (mean 1.95 in 1.34 ms); 1 copy of 65.5 kB took 500 us (mean 488 us); the GPU did nothing for its process for 15.6 % of it (mean 41.4 %); longest: gemm�[31m 6.00 ms, norm 250 us; mean: of 40 requests that lie within windows"
    );
    let gpu = &json["groups"][0]["explained"][0]["gpu_work"];
    let expected = serde_json::json!({
        "kernels": 2, "kernels_ns": 6_250_000, "copies": 1, "copies_ns": 500_000, "copied_bytes": 65_536,
        "busy_ns": 6_750_000, "idle_ns": 1_250_030,
        "longest_kernels": [
            { "name": "gemm\u{1b}[31m", "count": 1, "sum_ns": 6_000_000 },
            { "name": "norm", "count": 1, "sum_ns": 250_000 },
        ],
    });
    assert_eq!(gpu, &expected);
}

/// A mean of fewer than 20 requests within windows says nothing.
#[test]
fn without_enough_other_requests_there_is_no_mean() {
    assert_snapshot!(
        line(&told(SLOW, 25).0).expect("it is told"),
        @"(GPU) 2 kernels took 6.25 ms; 1 copy of 65.5 kB took 500 us; the GPU did nothing for its process for 15.6 % of it; longest: gemm�[31m 6.00 ms, norm 250 us"
    );
}

#[test]
fn of_a_request_outside_of_windows_nothing_is_said() {
    let (text, json) = told(SLOW, SLOW + 1);
    assert_eq!(line(&text), None, "{text}");
    assert_eq!(json["groups"][0]["explained"][0].get("gpu_work"), None);
}

/// JSON tells that it was looked at.
#[test]
fn a_request_without_work_is_no_line() {
    let (text, json) = told(5, 0);
    assert_eq!(line(&text), None, "{text}");
    assert_eq!(json["groups"][0]["explained"][0]["gpu_work"]["busy_ns"], 0);
}
