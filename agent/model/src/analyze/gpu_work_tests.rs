//! Work for requests, from rows and windows as a folder has them.

use std::convert::Infallible;

use guestscope_contract::Account;

use super::*;
use crate::analyze::samples;

/// A request of one process with two phases, `launch` and, in it, `inner`, all within 100 to 200 us.
fn request() -> Request {
    let mut request = samples::inference(1).remove(0);
    let mut phases = request.phases.drain(..).filter(|phase| phase.kind != PhaseKind::Queue);
    let mut root = phases.next().expect("there is a root");
    let mut next = phases.next().expect("there are phases");
    drop(phases);
    (root.id, root.start_ns, root.duration_ns) = (1, 100, 100);
    root.accounts.0[Account::Cpu as usize] = 100;
    (next.id, next.parent, next.start_ns, next.duration_ns) = (2, Some(1), 110, 40);
    next.kind = PhaseKind::Phase;
    request.phases = vec![root, next];
    request
}

fn work(kind: GpuWorkKind, span: Span, phase: Option<u64>, name: &str) -> GpuWork {
    let process = request().phases[0].thread.tgid;
    let (start_ns, end_ns) = span;
    let called_ns = if phase.is_some() { 101 } else { 0 };
    GpuWork {
        kind,
        name: name.into(),
        process,
        start_ns,
        end_ns,
        called_ns,
        returned_ns: called_ns,
        phase,
        bytes: 7,
        ..GpuWork::default()
    }
}

fn read(rows: &[GpuWork]) -> GpuWorked {
    let rows = || Ok::<_, Infallible>(Some(rows.iter().cloned().map(Ok)));
    let Ok(read) = GpuWorked::read(rows, || Ok([Ok(request())].into_iter()));
    read.expect("there are rows")
}

#[test]
fn work_is_charged_to_the_phase_that_asked_and_those_around_it() {
    use GpuWorkKind::{Copy, Graph, Kernel, Window};
    let told = read(&[
        work(Kernel, (120, 130), Some(2), "a"),
        work(Kernel, (125, 145), Some(2), "b"),
        work(Kernel, (160, 170), Some(1), "a"),
        work(Copy, (165, 180), Some(1), "host to device"),
        work(Graph, (10, 20), None, ""),
        GpuWork { cost_ns: 5, ..work(Window, (0, 150), None, "") },
        work(Window, (150, 300), None, ""),
    ]);
    let [root, inner] = &told.phases[..] else { panic!("{told:?}") };
    assert_eq!((root.is_request, root.count, root.kernels, root.kernels_ns), (true, 1, 3, 40));
    assert_eq!((root.copies, root.copies_ns, root.copied_bytes), (1, 15, 7));
    // 120 to 145 and 160 to 180; at once from 125 to 130 and from 165 to 170.
    assert_eq!((root.busy_ns, root.concurrent_ns, root.duration_ns), (45, 10, 100));
    assert_eq!((inner.kernels, inner.kernels_ns, inner.busy_ns), (2, 30, 25));
    assert_eq!((inner.delays, inner.delay_ns), (2, 19 + 24));
    assert_eq!((told.windows, told.windows_ns, told.lost, told.cost_ns), (1, 300, 0, 5));
    assert_eq!((told.pieces, told.outside, told.kernels_ns), (5, 1, 40));
    let kernels: Vec<_> = told.kernels.iter().map(|one| (one.name.stored(), one.count, one.sum_ns)).collect();
    assert_eq!(kernels, [("a", 2, 20), ("b", 1, 20)]);
    assert!((root.idle() - 0.55).abs() < 1e-9);
}

#[test]
fn phases_that_lie_in_no_window_are_left_out() {
    use GpuWorkKind::{Kernel, Window};
    let kernel = work(Kernel, (120, 130), Some(2), "a");
    for windows in [[(0, 150), (151, 300)], [(101, 150), (150, 300)], [(0, 10), (300, 400)]] {
        let windows = windows.map(|span| work(Window, span, None, ""));
        let told = read(&[std::slice::from_ref(&kernel), &windows[..]].concat());
        assert!(told.phases.iter().all(|phase| !phase.is_request), "{told:?}");
    }
    let lost = GpuWork { lost: 1, ..work(Window, (0, 300), None, "") };
    let told = read(&[kernel, lost]);
    assert_eq!((told.lost, told.windows, told.phases.len()), (1, 0, 0));
    let nothing = || Ok::<_, Infallible>(None::<std::vec::IntoIter<Result<GpuWork, Infallible>>>);
    let Ok(told) = GpuWorked::read(nothing, || Ok([Ok(request())].into_iter()));
    assert_eq!(told, None);
}
