//! What a GPU did for single requests: only for those within a window in which nothing was lost.

use super::*;
use crate::phase::GpuWorkKind;

const MS: u64 = 1_000_000;
/// The request that is looked at: 50 ms after the start of the one before it, for 6 ms.
const NUMBER: u64 = 4;

fn requests() -> Vec<Request> {
    (0..20).map(|number| one(number, (number == NUMBER).then_some((Account::Gpu, 5_000_000)))).collect()
}

/// In us after the request's start.
fn work(kind: GpuWorkKind, name: &str, span: (u64, u64), root: Option<u64>) -> GpuWork {
    let start_ns = requests()[NUMBER as usize].root().start_ns;
    GpuWork {
        kind,
        name: name.into(),
        process: 7,
        start_ns: start_ns + span.0 * 1_000,
        end_ns: start_ns + span.1 * 1_000,
        root,
        bytes: 512,
        ..GpuWork::default()
    }
}

fn window(start_ns: u64, end_ns: u64) -> GpuWork {
    GpuWork { kind: GpuWorkKind::Window, process: 7, start_ns, end_ns, ..GpuWork::default() }
}

/// What the slowest request's work is told to be.
fn told(rows: &[GpuWork]) -> Option<RequestWork> {
    let mut explanation = explain(&requests(), Wanted::Slowest(1));
    let Ok(()) = explanation.add_gpu_work(|| Ok::<_, Infallible>(Some(rows.iter().cloned().map(Ok))));
    let case = &explanation.groups[0].cases[0];
    assert_eq!(case.request, NUMBER);
    case.gpu.clone()
}

#[test]
fn a_request_has_the_work_that_it_asked_for() {
    use GpuWorkKind::{Copy, Graph, Kernel};
    let requests = requests();
    let own = Some(requests[NUMBER as usize].root().id);
    let other = Some(requests[2].root().id);
    let rows = [
        work(Copy, "host to device", (100, 600), own),
        work(Kernel, "small", (600, 900), own),
        work(Kernel, "small", (900, 1_200), own),
        work(Kernel, "large", (1_000, 3_000), own),
        work(Graph, "", (3_000, 3_100), own),
        // Of another request, of none, and of another process.
        work(Kernel, "foreign", (3_100, 3_500), other),
        work(Kernel, "nobody's", (5_900, 7_000), None),
        GpuWork { process: 8, ..work(Kernel, "elsewhere", (4_000, 5_000), None) },
        // It may run after the request.
        work(Kernel, "late", (50_000, 51_000), own),
        window(0, 400 * MS),
    ];
    let RequestWork { sums, longest } = told(&rows).unwrap();
    assert_eq!((sums.kernels, sums.kernels_ns), (5, 3_700_000));
    assert_eq!((sums.copies, sums.copies_ns, sums.copied_bytes), (1, 500_000, 512));
    // 100 to 3,500 us, and the last 100 us; two at once from 1,000 to 1,200 us.
    let duration_ns = requests[NUMBER as usize].root().duration_ns;
    assert_eq!((sums.duration_ns, sums.busy_ns), (duration_ns, 3_400_000 + duration_ns - 5_900_000));
    assert_eq!(sums.concurrent_ns, 200_000);
    let longest: Vec<_> = longest.iter().map(|one| (one.name.stored(), one.count, one.sum_ns)).collect();
    assert_eq!(longest, [("large", 1, 2_000_000), ("late", 1, 1_000_000), ("small", 2, 600_000)]);
}

#[rstest]
#[case::within(window(200 * MS, 206_000_010), true)]
#[case::begins_later(window(200 * MS + 1, 300 * MS), false)]
#[case::ends_before(window(0, 206 * MS), false)]
#[case::lost(GpuWork { lost: 1, ..window(0, 400 * MS) }, false)]
#[case::of_another_process(GpuWork { process: 8, ..window(0, 400 * MS) }, false)]
fn only_within_a_window_without_losses(#[case] window: GpuWork, #[case] expected: bool) {
    let own = Some(requests()[NUMBER as usize].root().id);
    let kernel = work(GpuWorkKind::Kernel, "a", (100, 200), own);
    assert_eq!(told(&[kernel, window]).map(|told| told.sums.kernels), expected.then_some(1));
}

#[test]
fn two_windows_that_follow_each_other_are_one() {
    let rows = [window(0, 203 * MS), window(203 * MS, 300 * MS)];
    assert_eq!(told(&rows).map(|told| (told.sums.kernels, told.sums.busy_ns)), Some((0, 0)));
    assert_eq!(told(&[window(0, 203 * MS), window(203 * MS + 1, 300 * MS)]), None);
}

/// Where nothing was recorded, and where a reading fails.
#[test]
fn without_a_table_nothing_is_told() {
    let mut explanation = explain(&requests(), Wanted::Slowest(1));
    let nothing = || Ok::<_, Infallible>(None::<std::vec::IntoIter<Result<GpuWork, Infallible>>>);
    let Ok(()) = explanation.add_gpu_work(nothing);
    assert_eq!(explanation.groups[0].cases[0].gpu, None);
    let rows = || Ok(Some([Ok(window(0, 400 * MS)), Err("damaged")].into_iter()));
    assert_eq!(explanation.add_gpu_work(rows), Err("damaged"));
    assert_eq!(explanation.groups[0].cases[0].gpu, None);
}
