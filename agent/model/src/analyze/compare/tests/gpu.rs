//! What GPUs did on both platforms: which of it is named, and when nothing is said.

use std::convert::Infallible;

use guestscope_contract::Account;
use rstest::rstest;

use super::*;
use crate::{
    analyze::{
        advice,
        gpu_bound::Bound,
        samples::{Sample as Made, Step},
    },
    phase::{GpuWork, GpuWorkKind, Request},
};

const US: u64 = 1_000;
/// From the start of a request to that of the next, ns.
const APART_NS: u64 = 1_000_000_000;

/// A platform; times are us per request.
#[derive(Clone, Copy)]
struct Kind {
    kernels: u64,
    copies: u64,
    /// Asleep until the GPU is done.
    asleep: u64,
    /// On a CPU inside the driver.
    driver: u64,
    cpu: u64,
    /// Requests that lie in a window, of 40; the first ones do not.
    windowed: u64,
}

const USUAL: Kind = Kind { kernels: 2_000, copies: 500, asleep: 3_000, driver: 0, cpu: 1_000, windowed: 40 };

impl Kind {
    fn request(self, run: u64, number: u64) -> Request {
        let spend = |account, us: u64| Step::Spend(account, us * US + run * 10 + number);
        let steps = vec![spend(Account::Cpu, self.cpu + self.driver), spend(Account::Gpu, self.asleep)];
        let mut request = Made::new(number, number * APART_NS, steps).build();
        request.phases[0].counts.cpu_gpu_ns = self.driver * US;
        request
    }

    /// Work of each request, and a window around the last ones.
    fn work(self, run: u64) -> Vec<GpuWork> {
        let piece = |number: u64, kind, us: u64| GpuWork {
            kind,
            process: 7,
            start_ns: number * APART_NS + US,
            end_ns: number * APART_NS + US + us * US + run * 7 + number,
            phase: Some(number * 1_000 + 1),
            bytes: if kind == GpuWorkKind::Copy { 4_096 } else { 0 },
            ..GpuWork::default()
        };
        let pieces = (0..40).flat_map(|number| {
            [piece(number, GpuWorkKind::Kernel, self.kernels), piece(number, GpuWorkKind::Copy, self.copies)]
        });
        let first = 40 - self.windowed;
        let window = GpuWork {
            kind: GpuWorkKind::Window,
            process: 7,
            start_ns: (first * APART_NS).saturating_sub(1),
            end_ns: 40 * APART_NS,
            ..GpuWork::default()
        };
        pieces.chain([window]).collect()
    }

    fn run(self, run: u64, warmup: u64) -> Run {
        let requests = || (0..40).map(|number| Ok::<_, Infallible>(self.request(run, number)));
        let mut digest = RunDigest::read(requests(), 1_000, Warmup::Requests(warmup)).unwrap();
        let work = || Ok::<_, Infallible>(Some(self.work(run).into_iter().map(Ok)));
        digest.add_gpu_work(work, || Ok(requests())).unwrap();
        Run { start_ns: run, is_emulated: false, requests: digest.groups.into_iter().next().unwrap() }
    }

    fn platform(self, label: &str, runs: u64) -> Platform {
        let runs = (0..runs).map(|run| self.run(run, 0)).collect();
        Platform { label: label.to_owned(), runs, limits: Vec::new() }
    }
}

fn against(first: Kind, second: Kind, runs: u64) -> Comparison {
    let metrics = vec![(Metric::Mean, 0.02)];
    let declared = Declared { metrics, is_usual: false, allow_drift: false, fold: None };
    compare(&first.platform("a", runs), &[second.platform("b", runs)], &declared)
}

/// What is named, with its part of the longer wait, in percent.
fn named(compared: &Compared) -> Vec<(Bound, i64)> {
    let causes = compared.gpu_causes();
    causes.iter().map(|one| (one.bound, (one.share * 100.0).round() as i64)).collect()
}

/// The key of the advice on a cause.
fn key(cause: &str) -> &str {
    match cause {
        "gpu.busy" => advice::GPU_BUSY_LONGER,
        "gpu.copy" => advice::GPU_COPY_LONGER,
        other => other,
    }
}

const KERNELS: Kind = Kind { kernels: 4_000, asleep: 5_000, ..USUAL };
const COPIES: Kind = Kind { copies: 2_500, asleep: 5_000, ..USUAL };
/// Threads of the one side sleep, those of the other spin.
const SPINS: Kind = Kind { kernels: 4_000, asleep: 0, driver: 5_000, ..USUAL };
const BOTH: Kind = Kind { kernels: 3_000, copies: 1_500, asleep: 5_000, ..USUAL };

#[rstest]
#[case::kernels(KERNELS, &[(Bound::Busy, 100)], &["gpu.busy"])]
#[case::copies(COPIES, &[(Bound::Copy, 100)], &["gpu.copy"])]
#[case::both(BOTH, &[(Bound::Busy, 50), (Bound::Copy, 50)], &["gpu.busy", "gpu.copy"])]
#[case::spinning(Kind { kernels: 4_000, driver: 2_000, ..USUAL }, &[(Bound::Busy, 100)], &["gpu.busy"])]
#[case::spins_instead(SPINS, &[(Bound::Busy, 100)], &["gpu.busy"])]
#[case::a_part(Kind { kernels: 2_800, asleep: 5_000, ..USUAL }, &[(Bound::Busy, 40)], &["gpu.busy"])]
#[case::waited_for_something_else(Kind { asleep: 5_000, ..USUAL }, &[], &["gpu"])]
#[case::hardly(Kind { kernels: 2_300, asleep: 5_000, ..USUAL }, &[], &["gpu"])]
#[case::not_waited_for(Kind { kernels: 4_000, cpu: 3_000, ..USUAL }, &[], &["cpu"])]
#[case::less(Kind { kernels: 1_000, asleep: 5_000, ..USUAL }, &[], &["gpu"])]
fn what_threads_waited_longer_for_is_named(
    #[case] slow: Kind,
    #[case] expected: &[(Bound, i64)],
    #[case] advised: &[&str],
) {
    for (first, second) in [(USUAL, slow), (slow, USUAL)] {
        let comparison = against(first, second, 5);
        let compared = &comparison.platforms[0];
        assert_eq!(named(compared), expected);
        let advice = compared.advised(&comparison.baseline);
        assert_eq!(advice.iter().map(|one| one.cause).collect::<Vec<_>>(), advised);
        let keys: Vec<&str> = advice.iter().map(|one| one.advice.key.as_str()).collect();
        assert_eq!(keys, advised.iter().map(|cause| key(cause)).collect::<Vec<_>>());
    }
}

#[test]
fn times_of_both_sides_are_means_over_runs() {
    let compared = against(USUAL, KERNELS, 5).platforms.remove(0);
    let gpu = compared.gpu.unwrap();
    assert_eq!((gpu.baseline.runs, gpu.baseline.requests, gpu.platform.requests), (5, 200, 200));
    // 19.5 is the mean number of a request, 2 that of a run.
    near(gpu.baseline.means.kernels_ns, 2e6 + 19.5 + 2.0 * 7.0);
    near(gpu.kernels_ns.value, 2e6);
    near(gpu.copies_ns.value, 0.0);
    near(gpu.platform.means.copied_bytes, 4_096.0);
    near(gpu.platform.means.kernels, 1.0);
    assert_eq!([Bound::Busy, Bound::Copy].map(|bound| gpu.is_sure(bound)), [Some(true), Some(false)]);
}

/// Single runs have no interval, and their differences are told as others are.
#[test]
fn of_single_runs_nothing_is_sure() {
    let compared = against(USUAL, KERNELS, 1).platforms.remove(0);
    assert_eq!(compared.gpu.unwrap().is_sure(Bound::Busy), None);
    assert_eq!(named(&compared), [(Bound::Busy, 100)]);
}

/// 20 requests of a run have to lie in windows, on both sides.
#[rstest]
#[case::enough(20, 20, true)]
#[case::too_few(20, 19, false)]
#[case::too_few_of_the_baseline(19, 20, false)]
#[case::no_window(40, 0, false)]
fn too_few_requests_in_windows_say_nothing(#[case] first: u64, #[case] second: u64, #[case] expected: bool) {
    let (first, second) = (Kind { windowed: first, ..USUAL }, Kind { windowed: second, ..KERNELS });
    let comparison = against(first, second, 5);
    let compared = &comparison.platforms[0];
    assert_eq!((compared.gpu.is_some(), !named(compared).is_empty()), (expected, expected));
    let advised = compared.advised(&comparison.baseline);
    assert_eq!(advised[0].cause, if expected { "gpu.busy" } else { "gpu" });
}

#[test]
fn runs_without_windows_are_left_out() {
    let mut second = KERNELS.platform("b", 5);
    for run in &mut second.runs[..2] {
        run.requests.gpu = None;
    }
    let metrics = vec![(Metric::Mean, 0.02)];
    let declared = Declared { metrics, is_usual: false, allow_drift: false, fold: None };
    let compared = compare(&USUAL.platform("a", 5), &[second], &declared).platforms.remove(0);
    assert_eq!(compared.gpu.map(|gpu| (gpu.platform.runs, gpu.platform.requests)), Some((3, 120)));
}

/// What does not count for times does not count here.
#[test]
fn warm_ups_are_left_out() {
    let of = |warmup: u64| USUAL.run(0, warmup).requests.gpu.unwrap();
    let (all, without) = (of(0), of(15));
    assert_eq!((all.requests, without.requests), (40, 25));
    // The later requests take longer, by a nanosecond each.
    near(without.means.kernels_ns - all.means.kernels_ns, 7.5);
    assert_eq!(USUAL.run(0, 21).requests.gpu, None);
}
